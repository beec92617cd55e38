#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "coordinator/machine/newcomer_checks.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

constexpr char kBuild[] = "this program";

struct CheckingTest : ::testing::Test {
  CoordinatorOptions options = testing::swarm_options(2);
  testing::FakeClock clock;
  Registry registry{options, clock};
  Pipelines pipelines{options, clock, registry};
  std::uint64_t next_link = 1;

  Node& add(const std::string& name, bool newcomer, std::uint32_t layers_most = 0) {
    control::v1::Register body = testing::worker(name);
    body.set_layers_most(layers_most);
    body.set_build(kBuild);
    Node* node = registry.add(LinkId(next_link++), body).value();
    node->status.newcomer = newcomer;
    return *node;
  }
  Pipeline& serve(Pipeline* pipeline) {
    EXPECT_NE(pipeline, nullptr);
    pipeline->serving = true;
    pipeline->model = Hash256();
    return *pipeline;
  }
  // All that can be formed; they serve at once.
  void form_all() {
    while (Pipeline* pipeline = pipelines.form()) serve(pipeline);
    while (Pipeline* pipeline = pipelines.form_checking(kBuild)) serve(pipeline);
  }
  void end_outdated() {
    for (const auto& [epoch, why] : pipelines.outdated()) pipelines.end(epoch, {});
  }
  // By epoch, whether it checks.
  std::map<std::uint64_t, bool> formed() const {
    std::map<std::uint64_t, bool> all;
    for (const auto& [epoch, one] : pipelines.all()) all[epoch.value] = one.checking.has_value();
    return all;
  }
  static std::vector<std::string> names(const Pipeline& pipeline) {
    std::vector<std::string> all;
    for (const Member& member : pipeline.members) all.push_back(member.node);
    return all;
  }
};

using Formed = std::map<std::uint64_t, bool>;

TEST_F(CheckingTest, NewcomersStandInNoPipelineThatServes) {
  add("n1", true);
  add("n2", true);
  add("n3", true);
  EXPECT_EQ(pipelines.form(), nullptr);
  EXPECT_EQ(pipelines.form_checking(kBuild), nullptr);
  EXPECT_EQ(pipelines.why_newcomers_wait(), "no pipeline serves that it could check");
  EXPECT_EQ(registry.here(), 0u);
  add("a", false);
  add("b", false);
  form_all();
  EXPECT_EQ(formed(), (Formed{{1, false}, {2, true}}));
  EXPECT_EQ(names(*pipelines.find(Epoch(1))), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names(*pipelines.find(Epoch(2))), (std::vector<std::string>{"n1", "n2"}));
  EXPECT_FALSE(pipelines.none());
  pipelines.end(Epoch(1), {});
  EXPECT_TRUE(pipelines.none());
}

TEST_F(CheckingTest, TheyHaveTheCutOfOneThatServesAndRoomForIt) {
  options.layers = 8;
  add("a", false, 6);
  add("b", false, 2);
  serve(pipelines.form());
  add("small", true, 1);
  EXPECT_EQ(pipelines.form_checking(kBuild), nullptr);
  add("middle", true, 5);
  EXPECT_EQ(pipelines.form_checking(kBuild), nullptr);
  EXPECT_EQ(pipelines.why_newcomers_wait(), "no free node has room for layers 0-5");
  add("large", true, 7);
  const Pipeline& checks = serve(pipelines.form_checking(kBuild));
  EXPECT_EQ(names(checks), (std::vector<std::string>{"large", "middle"}));
  EXPECT_EQ(checks.members[0].layers, (LayerRange{0, 6}));
  registry.find("large")->status.newcomer = false;
  EXPECT_EQ(pipelines.outdated().size(), 1u) << "it has done its dues";
}

TEST_F(CheckingTest, WhoRunsAnotherProgramOrHasNoReceiptsChecksNothing) {
  add("a", false);
  add("b", false);
  Pipeline& own = serve(pipelines.form());
  add("n1", true).status.build = "another program";
  add("n2", true);
  EXPECT_EQ(pipelines.form_checking(kBuild), nullptr);
  registry.find("n1")->status.build = kBuild;
  own.model.reset();
  EXPECT_EQ(pipelines.form_checking(kBuild), nullptr);
  own.model = Hash256();
  EXPECT_NE(pipelines.form_checking(kBuild), nullptr);
}

TEST_F(CheckingTest, WhoIsSpareHelpsUntilItMayBeWanted) {
  for (const char* name : {"a", "b", "c"}) add(name, false);
  add("n", true);
  form_all();
  EXPECT_EQ(formed(), (Formed{{1, false}})) << "it has only just come";
  clock.advance(std::chrono::seconds(4));
  for (const char* name : {"a", "b", "c", "n"}) registry.find(name)->last_heard = clock.now();
  form_all();
  ASSERT_EQ(formed(), (Formed{{1, false}, {2, true}}));
  EXPECT_EQ(names(*pipelines.find(Epoch(2))), (std::vector<std::string>{"n", "c"}));
  EXPECT_TRUE(pipelines.outdated().empty());
  add("d", false);
  EXPECT_EQ(pipelines.form(), nullptr) << "alone";
  end_outdated();
  form_all();
  EXPECT_EQ(formed(), (Formed{{1, false}, {3, false}}));
  pipelines.end(Epoch(3), {"d"});
  registry.lose(*registry.find("d"));
  form_all();
  ASSERT_EQ(formed(), (Formed{{1, false}, {4, true}}));
  registry.lose(*registry.find("a"));
  pipelines.end(Epoch(1), {"a"});
  end_outdated();
  form_all();
  ASSERT_EQ(formed().size(), 1u);
  EXPECT_FALSE(formed().begin()->second) << "b and c serve";
}

TEST_F(CheckingTest, WhatItsCutServedNoMoreEndsIt) {
  add("a", false);
  add("b", false);
  add("n1", true);
  add("n2", true);
  form_all();
  pipelines.end(Epoch(1), {});
  EXPECT_TRUE(pipelines.outdated().empty()) << "the next one may have the same";
  registry.find("a")->status.layers_most = 1;
  form_all();
  EXPECT_EQ(pipelines.outdated().size(), 1u);
}

TEST_F(CheckingTest, DuesAreSaid) {
  EXPECT_EQ(dues_text(std::nullopt), "0 of 100 windows, on 0 of 3 days");
  NodeStanding standing;
  standing.checks = 12;
  standing.check_days = 2;
  EXPECT_EQ(dues_text(standing), "12 of 100 windows, on 2 of 3 days");
}

// Random swarms whose nodes come, go, are paused, done with their dues and newcomers again; and
// random requests.
struct RandomSwarm : CheckingTest {
  void change(SeededRandom& random) {
    const std::string name = "n" + std::to_string(random.next() % 12);
    Node* node = registry.find(name);
    if (node == nullptr || node->state == Node::State::kLost) {
      add(name, random.next() % 2 == 0, static_cast<std::uint32_t>(random.next() % 4));
      return;
    }
    switch (random.next() % 4) {
      case 0:
        end_of(*node, {name});
        registry.lose(*node);
        break;
      case 1:  // as CoordinatorMachine::follow_newcomer does
        node->status.newcomer = !node->status.newcomer;
        if (node->status.newcomer && !node->checks) end_of(*node, {});
        break;
      case 2:
        if (node->status.away) {
          node->status.away.reset();
        } else {
          node->status.away = Away{};
          end_of(*node, {});
        }
        break;
      default: clock.advance(std::chrono::seconds(1));
    }
    for (const Node* one : registry.all())
      registry.find(one->status.name)->last_heard = clock.now();
  }
  void end_of(const Node& node, const std::vector<std::string>& culprits) {
    if (pipelines.find(node.status.epoch) == nullptr) return;
    scheduler.remove_pool(node.status.epoch);
    pipelines.end(node.status.epoch, culprits);
  }
  // As PipelineLifecycle does: who serves goes first, and is never touched for the others.
  void form() {
    for (const auto& [epoch, why] : pipelines.outdated()) {
      ASSERT_TRUE(pipelines.find(epoch)->checking);
      scheduler.remove_pool(epoch);
      pipelines.end(epoch, {});
    }
    while (Pipeline* pipeline = pipelines.form()) open(serve(pipeline));
    std::map<std::uint64_t, std::vector<std::string>> before;
    for (const auto& [epoch, one] : pipelines.all()) before[epoch.value] = names(one);
    while (Pipeline* pipeline = pipelines.form_checking(kBuild)) open(serve(pipeline));
    for (const auto& [epoch, nodes] : before) {
      ASSERT_NE(pipelines.find(Epoch(epoch)), nullptr);
      EXPECT_EQ(names(*pipelines.find(Epoch(epoch))), nodes);
    }
  }
  void open(const Pipeline& pipeline) {
    scheduler.add_pool(pipeline.epoch, 1'000, 8, names(pipeline), pipeline.checking.has_value());
  }
  void look() {
    std::set<std::string> seen;
    for (const auto& [epoch, one] : pipelines.all()) {
      bool newcomers = false;
      for (const Member& member : one.members) {
        EXPECT_TRUE(seen.insert(member.node).second) << member.node << " stands in two";
        const bool newcomer = registry.find(member.node)->status.newcomer;
        EXPECT_FALSE(newcomer && !one.checking) << member.node << " serves";
        newcomers = newcomers || newcomer;
      }
      if (one.checking) {
        checked += 1;
        EXPECT_TRUE(newcomers);
      }
    }
  }
  void ask(SeededRandom& random) {
    auto sequence = std::make_shared<Sequence>();
    sequence->id = SequenceId(++next_sequence);
    sequence->prompt_tokens = 4;
    sequence->request.prompt.assign(4, 1);
    sequence->request.policy.share = random.next() % 2 == 0;
    sequence->request.origin = static_cast<Origin>(random.next() % 3);
    sequence->request.for_newcomers =
        sequence->request.origin == Origin::kAudit && sequence->request.policy.share;
    if (!scheduler.fits_somewhere(*sequence).ok()) return;
    ASSERT_TRUE(scheduler.enqueue(sequence).ok());
    while (const auto admitted = scheduler.admit()) {
      const Pipeline* on = pipelines.find(admitted->epoch);
      ASSERT_NE(on, nullptr);
      EXPECT_EQ(on->checking.has_value(), admitted->request.for_newcomers);
      for (const Member& member : on->members) {
        const bool newcomer = registry.find(member.node)->status.newcomer;
        EXPECT_TRUE(!newcomer || admitted->request.for_newcomers)
            << member.node << " is a newcomer, and gets what is private";
      }
      audits += admitted->request.for_newcomers ? 1 : 0;
      scheduler.end(*admitted);
      scheduler.release(*admitted);
    }
  }

  Scheduler scheduler;
  std::uint64_t next_sequence = 0;
  int checked = 0;
  int audits = 0;
};

TEST_F(RandomSwarm, NothingPrivateReachesANewcomerAndNobodyIsTakenFromServing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    for (int step = 0; step < 150; ++step) {
      change(random);
      form();
      look();
      ask(random);
      if (HasFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
  }
  EXPECT_GT(checked, 100) << "there were checking pipelines";
  EXPECT_GT(audits, 20) << "and they had work";
}

}  // namespace
}  // namespace hearth::coordinator
