#include "node/machine/measuring.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace hearth::cli {
namespace {

// An owner's thread: the test runs what is posted, one after the other.
class Inbox {
 public:
  Measuring::Post post() {
    return [this](std::function<void()> work) {
      const std::lock_guard lock(mutex_);
      works_.push_back(std::move(work));
      came_.notify_all();
    };
  }
  void run_one() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return !works_.empty(); });
    const auto work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    work();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> works_;
};

struct MeasuringTest : ::testing::Test {
  Inbox inbox;
  std::atomic<int> begun{0};
  std::atomic<bool> slow{false};  // until it is given up
  std::vector<std::uint64_t> heard;
  Measuring measuring{[this](const std::function<bool()>& cancelled) { return measure(cancelled); },
                      inbox.post()};

  Result<node::Measured> measure(const std::function<bool()>& cancelled) {
    ++begun;
    while (slow && !cancelled()) std::this_thread::yield();
    if (cancelled()) return Error{ErrorCode::kCancelled, "given up"};
    node::Measured measured;
    measured.memory_bytes = 7;
    return measured;
  }
  Measuring::Done done() {
    return [this](const node::Measured& measured) { heard.push_back(measured.memory_bytes); };
  }
};

TEST_F(MeasuringTest, IsDoneOnceAndToldToWhoAsksLater) {
  measuring.ask(done());
  EXPECT_TRUE(measuring.works());
  inbox.run_one();
  EXPECT_FALSE(measuring.works());
  EXPECT_EQ(heard.size(), 1U);
  measuring.ask(done());
  EXPECT_EQ(heard, (std::vector<std::uint64_t>{7, 7}));
  EXPECT_EQ(begun, 1);
}

TEST_F(MeasuringTest, AwayItDoesNotBegin) {
  measuring.set_away(true);
  measuring.ask(done());
  EXPECT_FALSE(measuring.works());
  EXPECT_EQ(begun, 0);
  measuring.set_away(false);
  inbox.run_one();
  EXPECT_EQ(heard.size(), 1U);
}

TEST_F(MeasuringTest, WhatIsUnderWayIsGivenUpAndBeginsAnew) {
  slow = true;
  measuring.ask(done());
  measuring.set_away(true);
  inbox.run_one();
  EXPECT_FALSE(measuring.works());
  EXPECT_TRUE(heard.empty());
  slow = false;
  measuring.set_away(false);
  EXPECT_TRUE(measuring.works());
  inbox.run_one();
  EXPECT_EQ(heard.size(), 1U);
  EXPECT_EQ(begun, 2);
}

TEST_F(MeasuringTest, BackBeforeItWasGivenUpItIsStillMeasured) {
  slow = true;
  measuring.ask(done());
  measuring.set_away(true);
  measuring.set_away(false);
  inbox.run_one();
  slow = false;
  inbox.run_one();
  EXPECT_EQ(heard.size(), 1U);
}

TEST_F(MeasuringTest, TheEndOfTheProcessWaitsForNoMeasurement) {
  slow = true;
  measuring.ask(done());
}

TEST(MeasuringFailureTest, WhoCannotBeMeasuredHearsNothingAndMayAskAgain) {
  Inbox inbox;
  int begun = 0;
  bool heard = false;
  Measuring measuring(
      [&](const std::function<bool()>&) -> Result<node::Measured> {
        ++begun;
        return Error{ErrorCode::kNoCapacity, "no room"};
      },
      inbox.post());
  measuring.ask([&](const node::Measured&) { heard = true; });
  inbox.run_one();
  EXPECT_FALSE(measuring.works());
  measuring.ask([&](const node::Measured&) { heard = true; });
  inbox.run_one();
  EXPECT_EQ(begun, 2);
  EXPECT_FALSE(heard);
}

}  // namespace
}  // namespace hearth::cli
