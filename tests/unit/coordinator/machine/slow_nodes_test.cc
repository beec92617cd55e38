// Machines that become slow, against the coordinator.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

struct SlowNodesTest {
  explicit SlowNodesTest(std::vector<std::string> all) : names(std::move(all)) {
    for (const std::string& name : names) swarm.join(name);
    swarm.complete_all(8);
  }
  // So many seconds in which each node's steps take 10 ms, or what `slow` says.
  void pass(int seconds, const std::map<std::string, double>& slow = {}) {
    for (int i = 0; i < 4 * seconds; ++i) {
      swarm.clock.advance(milliseconds(250));
      for (const std::string& name : names) {
        control::v1::Heartbeat& total = totals[name];
        total.set_steps_total(total.steps_total() + 4);
        total.set_rows_total(total.rows_total() + 4);
        const auto found = slow.find(name);
        const double step = found == slow.end() ? 0.01 : found->second;
        total.set_busy_seconds_total(total.busy_seconds_total() + 4 * step);
        WorkerMessage message;
        *message.mutable_heartbeat() = total;
        swarm.say(swarm.sessions[name], message);
      }
      swarm.machine->on_timer();
      swarm.complete_all(8);
    }
  }
  std::vector<std::string> nodes() const { return swarm.machine->status().pipelines.at(0).nodes; }

  Swarm swarm{2};
  std::vector<std::string> names;
  std::map<std::string, control::v1::Heartbeat> totals;
};

TEST(CoordinatorSlow, ItsLayersGoToASpareAndWhatRunsGoesOn) {
  SlowNodesTest slow({"a", "b", "c"});
  const auto owner = slow.swarm.submit(8, 8);
  slow.swarm.compute_all(always);
  slow.pass(4);
  ASSERT_EQ(slow.nodes(), (std::vector<std::string>{"a", "b"}));
  slow.pass(5, {{"a", 0.1}});
  ASSERT_EQ(slow.nodes(), (std::vector<std::string>{"c", "b"}));
  EXPECT_NE(status_of(slow.swarm, "a").slow.find("times as long"), std::string::npos);
  slow.swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 2U);
  EXPECT_FALSE(owner->over);
  // It is the last to be chosen, and chosen where no other is there.
  slow.swarm.join("d");
  slow.names.push_back("d");
  slow.swarm.complete_all(8);
  slow.swarm.control.lose(slow.swarm.sessions["c"]);
  std::erase(slow.names, "c");
  slow.swarm.complete_all(8);
  const auto without_c = slow.nodes();
  EXPECT_EQ(std::count(without_c.begin(), without_c.end(), "d"), 1);
  slow.pass(61);
  EXPECT_EQ(status_of(slow.swarm, "a").slow, "");
}

TEST(CoordinatorSlow, WhereNobodyCanTakeItsLayersItStays) {
  SlowNodesTest slow({"a", "b"});
  slow.pass(4);
  const auto epoch = slow.swarm.machine->status().pipelines.at(0).epoch;
  slow.pass(5, {{"a", 0.1}});
  EXPECT_EQ(slow.swarm.machine->status().pipelines.at(0).epoch, epoch);
  EXPECT_NE(status_of(slow.swarm, "a").slow, "") << "and who looks can see it";
}

TEST(CoordinatorSlow, WhereAllAreSlowerNobodyIsMoved) {
  SlowNodesTest slow({"a", "b", "c"});
  slow.pass(4);
  slow.pass(5, {{"a", 0.1}, {"b", 0.09}});
  EXPECT_EQ(slow.nodes(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(status_of(slow.swarm, "a").slow, "");
}

}  // namespace
}  // namespace hearth::coordinator
