#include "node/pipeline/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"

namespace hearth::node {
namespace {

// What the engines of one test did, and a gate that holds their steps back.
struct Record {
  std::atomic<bool> overlap{false};  // a step may begin while one is under way
  std::atomic<int> alive{0};
  std::atomic<int> most_alive{0};
  std::atomic<int> loads{0};
  std::atomic<int> keeps{0};
  std::atomic<int> resets{0};
  std::atomic<int> begun{0};
  std::atomic<int> steps{0};
  std::atomic<bool> ready{true};
  std::mutex gate;
  std::atomic<std::thread::id> on{};   // what computed the latest step
  std::atomic<std::uint64_t> slow{0};  // the step that takes long
  std::vector<std::string> halves;     // of the engine's thread; read once an answer has come
};

class FakeEngine final : public Engine {
 public:
  FakeEngine(Record& record, const EngineOptions& options) : record_(record), options_(options) {
    record_.most_alive = std::max(record_.most_alive.load(), ++record_.alive);
  }
  ~FakeEngine() override { --record_.alive; }
  bool can_begin(const StepBatch& batch) const override {
    return begun_.empty() || (record_.overlap && begun_.size() < 2 && batch.truncates.empty());
  }
  Status begin(StepBatch& batch) override {
    EXPECT_TRUE(can_begin(batch));
    if (batch.step.value == 13) return Error::invalid("step 13 breaks the contract");
    record_.on = std::this_thread::get_id();
    record_.halves.push_back("begin " + std::to_string(batch.step.value));
    begun_.push_back(std::move(batch));
    ++record_.begun;
    return ok_status();
  }
  bool ready() const override { return record_.ready; }
  Status finish(StepBatch& batch, StepResult& result) override {
    const std::lock_guard pass(record_.gate);
    ++record_.steps;
    batch = std::move(begun_.front());
    begun_.pop_front();
    if (batch.step.value == record_.slow) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    record_.halves.push_back("finish " + std::to_string(batch.step.value));
    result.released = {SequenceId(batch.step.value)};
    return ok_status();
  }
  void keep() override {
    EXPECT_TRUE(begun_.empty());
    ++record_.keeps;
  }
  void reset() override {
    EXPECT_TRUE(begun_.empty());
    ++record_.resets;
  }
  Result<std::vector<Hash256>> kv_hashes(SequenceId) const override {
    return std::vector<Hash256>();
  }
  Status verify_weights() override {
    EXPECT_TRUE(begun_.empty());
    return ok_status();
  }
  bool is_first() const override { return options_.layers.begin == 0; }
  bool is_last() const override { return false; }
  StepShape input_shape() const override { return {8, 16, 32, options_.layers.begin > 0}; }
  std::uint32_t kv_pages() const override { return options_.layers.size(); }
  std::uint32_t kv_pages_used() const override { return 0; }
  std::uint32_t sequences() const override { return 3; }
  std::size_t weight_bytes() const override { return 100 * options_.layers.size(); }

 private:
  Record& record_;
  EngineOptions options_;
  std::deque<StepBatch> begun_;
};

struct Answers : StageComputeEvents {
  void on_loaded(Epoch epoch, Result<Loaded> loaded) override {
    order.push_back("load " + std::to_string(epoch.value) + (loaded ? "" : " failed"));
    if (loaded) last = *loaded;
  }
  void on_computed(StepBatch batch, StepResult result, Status status) override {
    const std::string name = "step " + std::to_string(batch.step.value);
    order.push_back(name + (status ? "" : " " + std::string(error_code_name(status.error().code))));
    if (status) {
      EXPECT_EQ(result.released[0].value, batch.step.value);
    }
  }
  void on_weights_checked(Status status) override {
    order.push_back("weights " + std::string(status ? "kept" : status.error().message));
  }
  void on_unloaded() override { order.push_back("unloaded"); }
  std::vector<std::string> order;
  Loaded last;
};

// The owner's thread is the test's: it runs what was posted when it waits.
class EngineThreadTest : public ::testing::Test {
 protected:
  EngineThreadTest() {
    thread_ = std::make_unique<EngineThread>(
        EngineOptions{},
        [this](const EngineOptions& options) -> Result<std::unique_ptr<Engine>> {
          ++record_.loads;
          while (options.layers.begin == 7 && !options.cancelled()) std::this_thread::yield();
          if (options.layers.begin == 7) return Error{ErrorCode::kCancelled, "given up"};
          if (options.layers.end > 30) return Error::invalid("no such layers");
          return std::unique_ptr<Engine>(std::make_unique<FakeEngine>(record_, options));
        },
        [this](std::function<void()> work) {
          const std::lock_guard lock(mutex_);
          posted_.push(std::move(work));
          wake_.notify_one();
        });
    thread_->set_events(&answers_);
  }
  void wait_for(std::size_t answers) {
    while (answers_.order.size() < answers) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !posted_.empty(); });
      const auto work = std::move(posted_.front());
      posted_.pop();
      lock.unlock();
      work();
    }
  }
  void load(std::uint64_t epoch, std::uint32_t begin, std::uint32_t end) {
    thread_->load(Epoch(epoch), {begin, end}, 0, 512);
  }
  void step(std::uint64_t number, std::size_t rows = 0) {
    StepBatch batch;
    batch.step = StepId(number);
    batch.rows.resize(rows);
    thread_->compute(std::move(batch));
  }

  Record record_;
  Answers answers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<std::function<void()>> posted_;
  std::unique_ptr<EngineThread> thread_;
};

using Order = std::vector<std::string>;

TEST_F(EngineThreadTest, AnswersInTheOrderOfTheQuestions) {
  load(1, 0, 10);
  for (std::uint64_t i = 11; i < 15; ++i) step(i);
  wait_for(5);
  EXPECT_EQ(answers_.order,
            (Order{"load 1", "step 11", "step 12", "step 13 invalid_input", "step 14"}));
  EXPECT_EQ(answers_.last.kv_pages, 10u);
  EXPECT_EQ(answers_.last.weight_bytes, 1000u);
  EXPECT_FALSE(answers_.last.shape.with_activations);
}

TEST_F(EngineThreadTest, ChecksWeightsBehindTheStepsThatWait) {
  thread_->check_weights();
  load(1, 0, 10);
  step(11);
  thread_->check_weights();
  wait_for(4);
  EXPECT_EQ(answers_.order,
            (Order{"weights no layers are loaded", "load 1", "step 11", "weights kept"}));
}

TEST_F(EngineThreadTest, UnloadingFreesTheEngineBehindTheStepUnderWay) {
  load(1, 0, 10);
  std::unique_lock hold(record_.gate);
  step(1);
  step(2);
  while (record_.begun == 0) std::this_thread::yield();
  thread_->unload();
  step(3);
  hold.unlock();
  wait_for(5);
  EXPECT_EQ(answers_.order,
            (Order{"load 1", "step 1", "step 2 cancelled", "unloaded", "step 3 unavailable"}));
  EXPECT_EQ(record_.alive, 0);
  load(2, 0, 10);
  wait_for(6);
  EXPECT_EQ(record_.loads, 2);
}

TEST_F(EngineThreadTest, UnloadingEndsALoadingUnderWay) {
  load(1, 7, 10);
  while (record_.loads == 0) std::this_thread::yield();
  thread_->unload();
  wait_for(2);
  EXPECT_EQ(answers_.order, (Order{"load 1 failed", "unloaded"}));
  EXPECT_EQ(record_.alive, 0);
  load(2, 0, 10);
  wait_for(3);
  EXPECT_EQ(answers_.order.back(), "load 2");
}

TEST_F(EngineThreadTest, KeepsTheEngineOfTheSameRange) {
  load(1, 0, 10);
  load(2, 0, 10);
  wait_for(2);
  EXPECT_EQ(record_.loads, 1);
  EXPECT_EQ(record_.keeps, 1);
  EXPECT_EQ(record_.resets, 0);
}

TEST_F(EngineThreadTest, TheNextLoadDropsPagesThatAreInDoubt) {
  load(1, 0, 10);
  thread_->distrust();
  step(1);
  wait_for(2);
  EXPECT_EQ(record_.resets, 0) << "an open sequence may use them";
  load(2, 0, 10);
  load(3, 0, 10);
  wait_for(4);
  EXPECT_EQ(record_.loads, 1);
  EXPECT_EQ(record_.resets, 1);
  EXPECT_EQ(record_.keeps, 1) << "what it computed since is kept again";
}

TEST_F(EngineThreadTest, NeverHoldsTwoEngines) {
  load(1, 0, 10);
  load(2, 10, 20);
  load(3, 0, 10);
  wait_for(3);
  EXPECT_EQ(record_.loads, 3);
  EXPECT_EQ(record_.most_alive, 1);
}

TEST_F(EngineThreadTest, AStageThatMovedIsLoadedAgain) {  // its number is in the hashes
  thread_->load(Epoch(1), {0, 10}, 0, 512);
  thread_->load(Epoch(2), {0, 10}, 1, 512);
  thread_->load(Epoch(3), {0, 10}, 1, 256);
  wait_for(3);
  EXPECT_EQ(record_.loads, 3);
}

TEST_F(EngineThreadTest, AFailedLoadLeavesNothingAndTheNextOneWorks) {
  load(1, 0, 10);
  load(2, 20, 31);
  step(1);
  wait_for(3);
  EXPECT_EQ(answers_.order, (Order{"load 1", "load 2 failed", "step 1 unavailable"}));
  EXPECT_EQ(record_.alive, 0);
  load(3, 0, 10);
  wait_for(4);
  EXPECT_EQ(answers_.order.back(), "load 3");
}

TEST_F(EngineThreadTest, StepsOfAnEndedAssignmentAreNotComputed) {
  load(1, 0, 10);
  wait_for(1);
  record_.gate.lock();
  for (std::uint64_t i = 1; i <= 3; ++i) step(i);
  load(2, 0, 10);
  step(4);
  record_.gate.unlock();
  wait_for(6);
  EXPECT_EQ(answers_.order[2], "step 2 cancelled");
  EXPECT_EQ(answers_.order[3], "step 3 cancelled");
  EXPECT_EQ(answers_.order[4], "load 2");
  EXPECT_EQ(answers_.order[5], "step 4");
  EXPECT_LE(record_.steps, 2);
}

TEST_F(EngineThreadTest, AFullQueueRefusesStepsAndKeepsTheOrder) {
  load(1, 0, 10);
  wait_for(1);
  record_.gate.lock();
  const std::size_t asked = limits::kComputeQueue + 10;
  for (std::size_t i = 100; i < 100 + asked; ++i) step(i);
  record_.gate.unlock();
  wait_for(1 + asked);
  EXPECT_EQ(answers_.order[1], "step 100");
  EXPECT_EQ(answers_.order.back(), "step " + std::to_string(99 + asked) + " no_capacity");
}

// The second step comes while the first one is computed; the third finds two under way.
TEST_F(EngineThreadTest, TheNextStepBeginsWhileOneIsUnderWay) {
  record_.overlap = true;
  record_.ready = false;
  load(1, 0, 10);
  for (std::uint64_t i = 1; i <= 3; ++i) step(i);
  wait_for(2);
  EXPECT_EQ(answers_.order[1], "step 1");
  record_.ready = true;
  wait_for(4);
  EXPECT_EQ(record_.halves,
            (Order{"begin 1", "begin 2", "finish 1", "begin 3", "finish 2", "finish 3"}));
}

TEST_F(EngineThreadTest, AStepThatRestsOnTheOneBeforeWaitsForItsEnd) {
  record_.overlap = true;
  record_.ready = false;
  load(1, 0, 10);
  step(1);
  StepBatch batch;
  batch.step = StepId(2);
  batch.truncates.push_back({});
  thread_->compute(std::move(batch));
  wait_for(2);
  record_.ready = true;
  wait_for(3);
  EXPECT_EQ(record_.halves, (Order{"begin 1", "finish 1", "begin 2", "finish 2"}));
}

TEST_F(EngineThreadTest, StepsUnderWayEndBeforeALoadAndACheckOfTheWeights) {
  record_.overlap = true;
  record_.ready = false;
  load(1, 0, 10);
  wait_for(1);
  step(1);
  step(2);
  thread_->check_weights();
  step(3);
  step(13);
  step(4);
  wait_for(6);
  while (record_.begun < 4) std::this_thread::yield();  // the last step, too
  load(2, 0, 10);
  wait_for(8);
  EXPECT_EQ(answers_.order, (Order{"load 1", "step 1", "step 2", "weights kept", "step 3",
                                   "step 13 invalid_input", "step 4", "load 2"}));
}

TEST_F(EngineThreadTest, AShortStepOfOneRowWakesNoThread) {
  load(1, 0, 10);
  wait_for(1);
  Order order{"load 1"};
  const auto computed_here = [&](std::size_t rows) {
    const std::uint64_t number = 100 + order.size();
    step(number, rows);
    order.push_back("step " + std::to_string(number));
    wait_for(order.size());
    return record_.on.load() == std::this_thread::get_id();
  };
  EXPECT_FALSE(computed_here(1)) << "no step has been timed yet";
  // On a machine that is busy any step may take long.
  int tries = 0;
  while (!computed_here(1) && ++tries < 1000) {
  }
  EXPECT_LT(tries, 1000);
  EXPECT_FALSE(computed_here(2));
  while (!computed_here(1) && ++tries < 2000) {
  }
  EXPECT_LT(tries, 2000);
  record_.slow = 100 + order.size();
  computed_here(1);
  EXPECT_FALSE(computed_here(1)) << "behind one that took long";
  EXPECT_EQ(answers_.order, order);
}

TEST_F(EngineThreadTest, BehindWhatWaitsAShortStepWaitsToo) {
  load(1, 0, 10);
  wait_for(1);
  for (std::uint64_t number = 100; number < 110; ++number) {
    step(number, 1);
    wait_for(number - 98);
  }
  {
    const std::lock_guard held(record_.gate);
    step(110, 2);
    step(111, 1);
  }
  wait_for(13);
  EXPECT_NE(record_.on.load(), std::this_thread::get_id());
  EXPECT_EQ(answers_.order.back(), "step 111");
}

TEST_F(EngineThreadTest, EndsWithQuestionsWaiting) {
  load(1, 0, 10);
  for (std::uint64_t i = 20; i < 120; ++i) step(i);
  thread_.reset();
  EXPECT_EQ(record_.alive, 0);
}

}  // namespace
}  // namespace hearth::node
