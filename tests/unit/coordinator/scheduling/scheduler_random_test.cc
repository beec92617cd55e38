// The scheduler against a model of it, under random demands, cancellations and losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/limits.h"
#include "base/random.h"
#include "coordinator/scheduling/scheduler.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

std::shared_ptr<Sequence> sequence(std::uint64_t id, std::uint32_t prompt, std::uint32_t tokens) {
  auto made = std::make_shared<Sequence>();
  made->id = SequenceId(id);
  made->prompt_tokens = prompt;
  made->request.sampling.max_tokens = tokens;
  return made;
}

// Drives a Scheduler as the coordinator does and keeps books of its own.
class Books {
 public:
  explicit Books(std::uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.next() % 10) {
      case 0:
      case 1:
      case 2: return submit();
      case 3:
      case 4: return admit();
      case 5: return release();
      case 6: return end();
      case 7: return cancel_waiting();
      case 8: return random_.next() % 8 == 0 ? lose() : admit();
      default: return random_.next() % 8 == 0 ? add() : release();
    }
  }

  void check() const {
    std::map<Epoch, std::pair<std::uint32_t, std::uint32_t>> held;  // pages, sequences
    for (const auto& [id, one] : running_) {
      held[one->epoch].first += one->released ? 0 : one->pages;
      held[one->epoch].second += 1;
      ASSERT_EQ(scheduler_.find(id), one);
    }
    ASSERT_EQ(scheduler_.pools().size(), live_.size());
    for (const auto& [epoch, pool] : scheduler_.pools()) {
      ASSERT_LE(pool.reserved, pool.pages);
      ASSERT_EQ(pool.reserved, held[epoch].first) << "epoch " << epoch.value;
      ASSERT_EQ(pool.running, held[epoch].second) << "epoch " << epoch.value;
    }
    ASSERT_EQ(scheduler_.running(), running_.size());
    ASSERT_EQ(scheduler_.waiting(), waiting_.size());
    for (const auto& one : waiting_) ASSERT_EQ(scheduler_.find(one->id), one);
  }

  // Everything ends, and every page must have come back.
  void drain() {
    if (live_.empty()) add();
    for (int guard = 0; !(waiting_.empty() && running_.empty()) && guard < 100'000; ++guard) {
      while (!running_.empty()) {
        const auto one = running_.begin()->second;
        scheduler_.end(*one);
        scheduler_.release(*one);
        running_.erase(one->id);
      }
      if (waiting_.empty()) break;
      const std::size_t before = waiting_.size();
      admit();
      if (waiting_.size() < before) continue;
      ASSERT_EQ(scheduler_.pop_unfit(), waiting_.front()) << "it fits, and nothing is in its way";
      waiting_.erase(waiting_.begin());
    }
    check();
    for (const auto& [epoch, pool] : scheduler_.pools()) EXPECT_EQ(pool.reserved, 0u);
  }

  std::uint64_t admitted = 0;
  std::uint64_t lost = 0;

 private:
  std::shared_ptr<Sequence> any_running() {
    if (running_.empty()) return nullptr;
    return std::next(running_.begin(), static_cast<long>(random_.next() % running_.size()))->second;
  }
  void submit() {
    const auto made = sequence(++last_id_, 1 + random_.next() % 90, 1 + random_.next() % 90);
    ASSERT_TRUE(scheduler_.enqueue(made).ok());
    waiting_.push_back(made);
    if (waiting_.size() > 100) cancel_waiting();
  }
  // Head of the line or none; on the pool with the most free pages of those that fit.
  void admit() {
    const auto got = scheduler_.admit();
    if (!got) return;
    ASSERT_EQ(got, waiting_.front()) << "somebody was overtaken";
    ASSERT_EQ(got->pages, pages_for(static_cast<std::uint32_t>(got->tokens_wanted()),
                                    scheduler_.pools().at(got->epoch).page_tokens));
    for (const auto& [epoch, pool] : scheduler_.pools()) {
      if (epoch == got->epoch) continue;
      const KvPool& chosen = scheduler_.pools().at(got->epoch);
      const std::uint32_t free = pool.pages - pool.reserved;
      const bool fits =
          free >= pages_for(static_cast<std::uint32_t>(got->tokens_wanted()), pool.page_tokens);
      ASSERT_TRUE(!fits || free <= chosen.pages - chosen.reserved + got->pages);
    }
    waiting_.erase(waiting_.begin());
    running_.emplace(got->id, got);
    ++admitted;
  }
  void release() {
    if (const auto one = any_running()) {
      scheduler_.release(*one);
      if (one->ended) running_.erase(one->id);
    }
  }
  void end() {
    if (const auto one = any_running()) {
      scheduler_.end(*one);
      if (one->released) running_.erase(one->id);
    }
  }
  void cancel_waiting() {
    if (waiting_.empty()) return;
    const auto at = waiting_.begin() + static_cast<long>(random_.next() % waiting_.size());
    scheduler_.remove_waiting((*at)->id);
    ASSERT_FALSE(scheduler_.find((*at)->id));
    waiting_.erase(at);
  }
  void add() {
    if (live_.size() >= 4) return;
    const Epoch epoch(++last_epoch_);
    scheduler_.add_pool(epoch, 1 + random_.next() % 12, 1U << (3 + random_.next() % 4), {});
    live_.insert(epoch);
  }
  void lose() {
    if (live_.empty()) return;
    const Epoch epoch = *live_.begin();
    live_.erase(epoch);
    const auto gone = scheduler_.remove_pool(epoch);
    std::vector<std::shared_ptr<Sequence>> expected;
    for (const auto& [id, one] : running_) {
      if (one->epoch == epoch) expected.push_back(one);
    }
    ASSERT_EQ(gone, expected) << "in the order of their ids";
    for (const auto& one : gone) {
      running_.erase(one->id);
      ASSERT_FALSE(scheduler_.find(one->id));
      scheduler_.release(*one);  // what comes late of the dead changes nothing
      scheduler_.end(*one);
    }
    lost += gone.size();
  }

  SeededRandom random_;
  Scheduler scheduler_;
  std::vector<std::shared_ptr<Sequence>> waiting_;
  std::map<SequenceId, std::shared_ptr<Sequence>> running_;
  std::set<Epoch> live_;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_epoch_ = 0;
};

TEST(SchedulerRandom, BooksBalanceUnderAnything) {
  std::uint64_t admitted = 0;
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Books books(seed);
    for (int i = 0; i < 800; ++i) {
      books.step();
      books.check();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    books.drain();
    admitted += books.admitted;
    lost += books.lost;
  }
  EXPECT_GT(admitted, 1'000u);
  EXPECT_GT(lost, 50u);
}

// One large demand among an endless stream of small ones: it is served after those before it, and
// no later sequence is served first.
TEST(SchedulerRandom, ALargeDemandIsNotStarvedBySmallOnes) {
  SeededRandom random(3);
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 8, 16, {"a", "b"});
  std::uint64_t next = 1;
  std::uint64_t expected = 1;
  std::vector<std::shared_ptr<Sequence>> running;
  int large_served = 0;
  for (int tick = 0; tick < 5'000; ++tick) {
    if (scheduler.waiting() < 50) {
      const bool large = next % 17 == 0;
      ASSERT_TRUE(scheduler.enqueue(sequence(next++, large ? 100 : 8, large ? 28 : 8)).ok());
    }
    while (const auto one = scheduler.admit()) {
      ASSERT_EQ(one->id.value, expected++);
      large_served += one->pages == 8 ? 1 : 0;
      running.push_back(one);
    }
    ASSERT_FALSE(scheduler.pop_unfit()) << "all of them fit an empty pool";
    if (running.empty()) continue;
    const std::size_t at = random.next() % running.size();
    scheduler.end(*running[at]);
    scheduler.release(*running[at]);
    running.erase(running.begin() + static_cast<long>(at));
  }
  EXPECT_GT(large_served, 50);
}

TEST(SchedulerRandom, ThePoolTakesNoMoreSequencesThanItsLimit) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 2 * limits::kRunningSequences, 32, {"a", "b"});
  std::vector<std::shared_ptr<Sequence>> running;
  for (std::uint64_t id = 1; id <= limits::kRunningSequences; ++id) {
    ASSERT_TRUE(scheduler.enqueue(sequence(id, 1, 1)).ok());
    running.push_back(scheduler.admit());
    ASSERT_TRUE(running.back());
  }
  ASSERT_TRUE(scheduler.enqueue(sequence(99'999, 1, 1)).ok());
  EXPECT_FALSE(scheduler.admit()) << "pages are left, places are not";
  scheduler.end(*running[7]);
  EXPECT_FALSE(scheduler.admit()) << "its KV is still on the stages";
  scheduler.release(*running[7]);
  EXPECT_EQ(scheduler.admit()->id, SequenceId(99'999));
}

TEST(SchedulerRandom, PageBordersAreExact) {
  for (const std::uint32_t page : {1U, 2U, 16U, 32U, 65'536U}) {
    Scheduler scheduler;
    scheduler.add_pool(Epoch(1), 3, page, {"a", "b"});
    EXPECT_TRUE(scheduler.fits_somewhere(*sequence(9, page, 2 * page)).ok());
    const Status over = scheduler.fits_somewhere(*sequence(9, page, 2 * page + 1));
    ASSERT_FALSE(over.ok());
    EXPECT_EQ(over.error().code, ErrorCode::kNoCapacity);
    EXPECT_NE(over.error().message.find(std::to_string(3 * page + 1)), std::string::npos);
    ASSERT_TRUE(scheduler.enqueue(sequence(1, page, page)).ok());
    EXPECT_EQ(scheduler.admit()->pages, 2u);
    ASSERT_TRUE(scheduler.enqueue(sequence(2, page, 1)).ok());
    EXPECT_FALSE(scheduler.admit()) << "two pages wanted, one free";
    EXPECT_EQ(scheduler.take_waiting().size(), 1u);
    EXPECT_EQ(scheduler.waiting(), 0u);
  }
}

}  // namespace
}  // namespace hearth::coordinator
