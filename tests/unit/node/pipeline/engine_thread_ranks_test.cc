// Groups of engine threads over real links compute what one engine computes, keep what all of them
// have kept, and end when one of them is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <vector>

#include "model/synthetic.h"
#include "node/pipeline/engine_thread.h"
#include "tests/unit/proto/cluster.h"

namespace hearth::node {
namespace {

constexpr SequenceId kFirst{1};

struct RankAnswers : StageComputeEvents {
  void on_loaded(Epoch epoch, Result<Loaded> answer) override {
    loaded[epoch.value] = answer.ok() ? "" : answer.error().message;
    if (answer.ok()) pages = answer->kv_pages;
  }
  void on_computed(StepBatch batch, StepResult result, Status status) override {
    EXPECT_EQ(followed, 0u) << "rank 0 alone answers";
    steps.push_back({std::move(batch), std::move(result), std::move(status)});
  }
  void on_weights_checked(Status) override {}
  void on_unloaded() override { ++unloaded; }
  void on_followed(const StepBatch&, const StepResult& result, Duration) override {
    ++followed;
    replayed += result.replayed;
  }
  void on_group_lost(Epoch, const std::string& why, const std::string& peer) override {
    lost.push_back(peer + ": " + why);
  }
  struct Step {
    StepBatch batch;
    StepResult result;
    Status status;
  };
  std::map<std::uint64_t, std::string> loaded;  // by epoch: why not
  std::uint32_t pages = 0;
  std::vector<Step> steps;
  std::uint32_t followed = 0;
  std::uint32_t replayed = 0;
  std::uint32_t unloaded = 0;
  std::vector<std::string> lost;
};

// The main thread of all ranks is the test's: it runs what was posted when it waits.
class EngineThreadRanksTest : public ::testing::Test {
 protected:
  struct OneRank {
    RankAnswers answers;
    std::unique_ptr<EngineThread> thread;
  };

  EngineThreadRanksTest() {
    model::SyntheticOptions options;
    options.layers = 2;
    options.hidden = 256;
    options.feed_forward = 288;
    options.heads = 8;
    options.kv_heads = 4;
    bytes_ = model::synthetic_model_bytes(options).value();
    file_ = model::GgufFile::parse(bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }
  ~EngineThreadRanksTest() override { ranks_.clear(); }

  static EngineOptions engine_options(std::size_t kv_budget = 1 << 20) {
    EngineOptions options;
    options.kv_budget_bytes = kv_budget;
    options.replay_bytes = 1 << 20;
    return options;
  }
  std::unique_ptr<RankLinks> listen(std::uint32_t rank, std::uint32_t part) {
    if (group_.size() <= rank) group_.resize(rank + 1);
    const std::string name = "rank-" + std::to_string(rank);
    TcpOptions tcp;
    tcp.listen_address = "127.0.0.1:0";
    tcp.identity = cluster_.identity(name);
    tcp.roster = cluster_.book();
    Hello hello;
    hello.node = name;
    auto links = std::make_unique<RankLinks>(tcp, hello);
    group_[rank] = {name, links->listen().value(), part};
    return links;
  }
  // In place of an earlier one of that number.
  void start(std::uint32_t rank, std::uint32_t part, std::size_t kv_budget = 1 << 20,
             const Hash256& program = {}) {
    if (ranks_.size() <= rank) ranks_.resize(rank + 1);
    EngineThread::Ranks links{listen(rank, part), spec_, file_, program};
    ranks_[rank] = std::make_unique<OneRank>();
    ranks_[rank]->thread = std::make_unique<EngineThread>(
        engine_options(kv_budget), engine_loader(file_, spec_),
        [this](std::function<void()> work) {
          const std::lock_guard lock(mutex_);
          posted_.push(std::move(work));
          wake_.notify_one();
        },
        std::move(links));
    ranks_[rank]->thread->set_events(&ranks_[rank]->answers);
  }
  template <typename Done>
  void wait_until(const Done& done) {
    while (!done()) {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(
          wake_.wait_for(lock, std::chrono::seconds(120), [&] { return !posted_.empty(); }));
      const auto work = std::move(posted_.front());
      posted_.pop();
      lock.unlock();
      work();
    }
  }
  void load(std::uint64_t epoch) {
    try_load(epoch);
    for (const auto& rank : ranks_) EXPECT_EQ(rank->answers.loaded[epoch], "");
  }
  void try_load(std::uint64_t epoch) {
    Assignment assignment;
    assignment.epoch = epoch_ = Epoch(epoch);
    assignment.layers = {0, spec_.layers};
    assignment.batch_rows = 64;
    assignment.group = group_;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      assignment.rank = rank;
      ranks_[rank]->thread->load_rank(assignment);
    }
    wait_until([&] {
      return std::ranges::all_of(
          ranks_, [&](const auto& rank) { return rank->answers.loaded.contains(epoch); });
    });
  }
  // Once every rank has done every step: a step that is ended in its middle takes the kept pages.
  void leave() {
    const std::size_t steps = ranks_[0]->answers.steps.size();
    wait_until([&] {
      return std::ranges::all_of(ranks_, [&](const auto& rank) {
        return rank == ranks_[0] || rank->answers.followed == steps;
      });
    });
    for (const auto& rank : ranks_) rank->thread->leave();
  }
  const RankAnswers::Step& step(StepBatch batch) {
    batch.epoch = epoch_;
    batch.step = StepId(next_step_++);
    std::vector<RankAnswers::Step>& steps = ranks_[0]->answers.steps;
    const std::size_t before = steps.size();
    ranks_[0]->thread->compute(std::move(batch));
    wait_until([&] { return steps.size() > before; });
    return steps.back();
  }
  // A prompt, and four tokens after it.
  std::vector<TokenId> tell() {
    std::vector<TokenId> tokens;
    StepBatch batch;
    batch.opens.push_back({kFirst, 40, false, {}});
    batch.opens[0].scope = Hash256{};
    for (Position i = 0; i < 40; ++i) {
      const std::uint8_t flags = i == 39 ? BatchRow::kSample : 0;
      batch.rows.push_back({kFirst, i, static_cast<TokenId>(3 + i * 7 % 90), flags});
    }
    for (Position i = 40; i < 45; ++i) {
      const RankAnswers::Step& done = step(std::move(batch));
      EXPECT_TRUE(done.status.ok());
      if (!done.status.ok() || done.result.tokens.empty()) return tokens;
      replayed_ += done.result.replayed;
      tokens.push_back(done.result.tokens[0].token);
      batch = {};
      batch.rows.push_back({kFirst, i, tokens.back(), BatchRow::kSample});
    }
    return tokens;
  }
  // What one engine tells.
  std::vector<TokenId> alone() {
    EngineThreadRanksTest one;
    one.start(0, 1);
    one.ranks_[0]->thread->load(Epoch(1), {0, spec_.layers}, 0, 64);
    one.wait_until([&] { return one.ranks_[0]->answers.loaded.contains(1); });
    one.epoch_ = Epoch(1);
    return one.tell();
  }
  void TestBody() override {}

  testing::Cluster cluster_;
  Bytes bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<std::function<void()>> posted_;
  std::vector<AssignedRank> group_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
  Epoch epoch_;
  std::uint64_t next_step_ = 0;
  std::uint32_t replayed_ = 0;
};

TEST_F(EngineThreadRanksTest, TellWhatOneEngineTells) {
  const std::vector<TokenId> expected = alone();
  ASSERT_EQ(expected.size(), 5u);
  for (const std::uint32_t part : {3U, 1U, 2U, 1U, 1U}) {  // of four KV heads
    start(static_cast<std::uint32_t>(ranks_.size()), part);
  }
  load(1);
  EXPECT_EQ(tell(), expected);
  wait_until([&] { return ranks_[4]->answers.followed == 5; });
}

TEST_F(EngineThreadRanksTest, TakeThePagesThatTheLeastBudgetHolds) {
  start(0, 1, 1 << 20);
  start(1, 1, 1 << 18);
  load(1);
  EXPECT_GT(ranks_[0]->answers.pages, 0u);
  EXPECT_EQ(ranks_[0]->answers.pages, ranks_[1]->answers.pages);
}

TEST_F(EngineThreadRanksTest, HaveOneBuild) {
  start(0, 1);
  start(1, 1, 1 << 20, blake2b({}));
  try_load(1);
  for (const auto& rank : ranks_) {
    EXPECT_NE(rank->answers.loaded[1], "");
    EXPECT_FALSE(rank->answers.lost.empty());
  }
}

TEST_F(EngineThreadRanksTest, ABadBatchIsTheFaultOfRankZero) {
  const std::unique_ptr<RankLinks> first = listen(0, 1);
  start(1, 1);
  Assignment assignment;
  assignment.epoch = Epoch(1);
  assignment.layers = {0, spec_.layers};
  assignment.batch_rows = 64;
  assignment.group = group_;
  assignment.rank = 1;
  ranks_[1]->thread->load_rank(assignment);
  assignment.rank = 0;
  ASSERT_TRUE(first->join(assignment, [] { return false; }).ok());
  Bytes offer(64);  // GroupOffer of engine_thread.cc
  const std::uint32_t pages = 8;
  std::memcpy(offer.data() + 24, &pages, sizeof pages);
  Bytes came(offer.size());
  std::vector<ByteSpan> out(2);
  std::vector<MutableByteSpan> in(2);
  out[1] = offer;
  in[1] = came;
  ASSERT_TRUE(first->swap(out, in).ok());
  ASSERT_TRUE(first->send_batch(Bytes(10)).ok());
  EXPECT_FALSE(first->swap(std::vector<ByteSpan>(2), std::vector<MutableByteSpan>(2)).ok());
  wait_until([&] { return !ranks_[1]->answers.lost.empty(); });
  EXPECT_EQ(ranks_[1]->answers.loaded[1], "");
  const std::string& lost = ranks_[1]->answers.lost[0];
  EXPECT_EQ(lost.find("rank-0: rank 0 of the group, worker rank-0, "), 0u) << lost;
}

TEST_F(EngineThreadRanksTest, KeepThePagesThatAllHaveKept) {
  start(0, 1);
  start(1, 1);
  load(1);
  const std::vector<TokenId> first = tell();
  leave();
  load(2);
  EXPECT_EQ(tell(), first);
  EXPECT_EQ(replayed_, 39u) << "of the prompt all but the row that gives a token";
  EXPECT_EQ(ranks_[1]->answers.replayed, 39u);
}

TEST_F(EngineThreadRanksTest, DropThePagesThatOneHasForgotten) {
  start(0, 1);
  start(1, 1);
  load(1);
  const std::vector<TokenId> first = tell();
  leave();
  ranks_[1]->thread->forget();
  load(2);
  EXPECT_EQ(tell(), first);
  EXPECT_EQ(replayed_, 0u);
}

TEST_F(EngineThreadRanksTest, DropThePagesThatOneHasInDoubt) {
  start(0, 1);
  start(1, 1);
  load(1);
  ranks_[0]->thread->distrust();
  const std::vector<TokenId> first = tell();
  leave();
  load(2);
  EXPECT_EQ(tell(), first);
  EXPECT_EQ(replayed_, 0u);
}

TEST_F(EngineThreadRanksTest, ALostRankEndsTheGroupAndTheNextOneTellsTheSame) {
  start(0, 2);
  start(1, 1);
  start(2, 1);
  load(1);
  const std::vector<TokenId> first = tell();
  ranks_[2].reset();
  StepBatch batch;
  batch.rows.push_back({kFirst, 44, 5, BatchRow::kSample});
  // Rank 0 may send the first step before it sees the end of the link.
  EXPECT_FALSE(step(batch).status.ok());
  wait_until([&] { return !ranks_[0]->answers.lost.empty() && !ranks_[1]->answers.lost.empty(); });
  EXPECT_NE(ranks_[0]->answers.lost[0].find("rank-"), std::string::npos);
  start(2, 1);
  load(2);
  EXPECT_EQ(tell(), first);
}

TEST_F(EngineThreadRanksTest, AWorkerLeavesItsGroupForAStageOfItsOwn) {
  const std::vector<TokenId> expected = alone();
  start(0, 1);
  start(1, 1);
  load(1);
  EXPECT_EQ(tell(), expected);
  leave();
  ranks_[0]->thread->load(Epoch(2), {0, spec_.layers}, 0, 64);
  wait_until([&] { return ranks_[0]->answers.loaded.contains(2); });
  epoch_ = Epoch(2);
  EXPECT_EQ(tell(), expected);
  ranks_[1]->thread->unload();
  wait_until([&] { return ranks_[1]->answers.unloaded == 1; });
}

}  // namespace
}  // namespace hearth::node
