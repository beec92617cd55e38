// Two coordinators and one store in one thread on simulated time, from one seed: questions, answers
// and writes are late or lost, the store is away, a coordinator is cut off, stands still or starts
// anew. Checks after each step what must hold.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "coordinator/store/lease.h"

namespace hearth::coordinator {

using namespace std::chrono_literals;

class LeaseWorld {
 public:
  struct Entry {
    std::uint64_t epoch = 0;
    std::string writer;
    std::uint64_t number = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Counts {
    std::uint64_t epochs = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t refused = 0;  // late writes of an older epoch
    Duration longest_without_leader{0};
  };

  explicit LeaseWorld(std::uint64_t seed) : random_(seed) {
    for (Node& node : nodes_) start(node);
  }

  // One minute of faults, then half a minute without any.
  Counts run() {
    for (TimePoint end = now_ + 60s; now_ < end; step()) add_faults();
    for (Node& node : nodes_) node.cut_until = node.paused_until = now_;
    away_until_ = now_;
    is_calm_ = true;
    const std::size_t before = acknowledged_.size();
    for (TimePoint end = now_ + 30s; now_ < end;) step();
    EXPECT_GT(acknowledged_.size(), before) << "no coordinator leads after the faults";
    for (const Entry& entry : acknowledged_) {
      EXPECT_NE(std::ranges::find(log_, entry), log_.end()) << "an acknowledged entry is lost";
    }
    counts_.epochs = epoch_;
    counts_.acknowledged = acknowledged_.size();
    return counts_;
  }

 private:
  // Of one machine: it began at another moment.
  class OwnClock final : public Clock {
   public:
    OwnClock(const TimePoint& now, Duration offset) : now_(now), offset_(offset) {}
    TimePoint now() const override { return now_ + offset_; }
    std::int64_t unix_seconds() const override { return 0; }

   private:
    const TimePoint& now_;
    const Duration offset_;
  };
  struct Node {
    std::string id;
    std::unique_ptr<OwnClock> clock;
    std::unique_ptr<LeaseCandidate> candidate;
    TimePoint paused_until{};
    TimePoint cut_until{};  // from the store
    TimePoint next_write{};
  };

  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }
  Duration some(Duration most) {
    return Duration(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most.count()))));
  }
  // A way to the store, or back.
  Duration delay(Duration most) { return is_calm_ || below(20) > 0 ? some(20ms) : some(most); }

  void start(Node& node) {
    node.id = "process " + std::to_string(++processes_);
    node.clock = std::make_unique<OwnClock>(now_, some(1000s));
    node.candidate = std::make_unique<LeaseCandidate>(node.id, *node.clock);
  }

  void at(TimePoint when, std::function<void()> what) {
    events_.emplace(std::max(when, now_), std::move(what));
  }

  void add_faults() {
    if (below(50) > 0) return;  // about every second
    Node& node = nodes_[below(2)];
    switch (below(4)) {
      case 0: node.paused_until = now_ + some(8s); break;
      case 1: node.cut_until = now_ + some(8s); break;
      case 2: away_until_ = now_ + some(5s); break;
      default:
        if (below(2) == 0) return start(node);  // killed, and started at once
        node.candidate->release();
        at(now_ + some(3s), [this, &node] { start(node); });
    }
  }

  void step() {
    now_ += 20ms;
    while (!events_.empty() && events_.begin()->first <= now_) {
      auto first = events_.extract(events_.begin());
      first.mapped()();
    }
    for (Node& node : nodes_) {
      if (now_ >= node.paused_until) turn(node);
    }
    check();
  }

  void turn(Node& node) {
    if (const auto question = node.candidate->next()) ask(node, *question);
    if (!node.candidate->leads() || now_ < node.next_write) return;
    node.next_write = now_ + 50ms;
    const Entry entry{node.candidate->epoch(), node.id, ++numbers_};
    acting_[entry.epoch].insert(node.id);
    // As when the process stands still between its decision and the write.
    at(now_ + delay(4s), [this, &node, entry] { write(node, entry); });
  }

  bool is_reached(const Node& node) const { return now_ >= away_until_ && now_ >= node.cut_until; }

  void ask(Node& node, const LeaseQuestion& question) {
    const auto answer = [this, &node, id = node.id](Result<LeaseView> view, TimePoint when) {
      at(when, [this, &node, id, view = std::move(view)] { deliver(node, id, view); });
    };
    const Error away{ErrorCode::kUnavailable, "the store is away"};
    at(now_ + delay(500ms), [this, &node, question, answer, away, id = node.id] {
      if (!is_reached(node)) return answer(away, now_ + 1s);
      LeaseView view = execute(id, question);
      const Duration back = delay(500ms);
      is_calm_ || below(50) > 0 ? answer(std::move(view), now_ + back) : answer(away, now_ + 1s);
    });
  }
  void deliver(Node& node, const std::string& id, const Result<LeaseView>& view) {
    if (node.id != id) return;  // of a process that is gone
    if (now_ < node.paused_until) {
      return at(node.paused_until, [this, &node, id, view] { deliver(node, id, view); });
    }
    node.candidate->on_answer(view);
  }

  // As the store does it.
  LeaseView execute(const std::string& id, const LeaseQuestion& question) {
    if (question.kind == LeaseAsk::kWatch) seen_[id] = now_;
    if (question.kind == LeaseAsk::kTake && question.epoch == epoch_ && ends_ <= now_) {
      ++epoch_;
      holder_ = id;
      ends_ = now_ + LeaseTimes().lease;
    }
    const bool is_holder = question.epoch == epoch_ && holder_ == id;
    if (question.kind == LeaseAsk::kRenew && is_holder) ends_ = now_ + LeaseTimes().lease;
    if (question.kind == LeaseAsk::kRelease) seen_.erase(id);
    if (question.kind == LeaseAsk::kRelease && is_holder) ends_ = std::min(ends_, now_);
    LeaseView view;
    view.epoch = epoch_;
    view.holder = holder_;
    view.left = ends_ - now_;
    for (const auto& [other, when] : seen_) {
      if (other != holder_ && when + 10s > now_) view.standbys.push_back({other, "", ""});
    }
    return view;
  }
  void write(Node& node, const Entry& entry) {
    if (!is_reached(node)) return;
    if (entry.epoch != epoch_) {
      ++counts_.refused;
      return;
    }
    EXPECT_TRUE(log_.empty() || log_.back().epoch <= entry.epoch) << "the log goes back";
    EXPECT_EQ(entry.writer, holder_) << "two coordinators write in one epoch";
    log_.push_back(entry);
    if (is_calm_ || below(50) > 0) {
      at(now_ + delay(4s), [this, entry] { acknowledged_.push_back(entry); });
    }
  }

  void check() {
    for (const auto& [epoch, ids] : acting_) {
      EXPECT_EQ(ids.size(), 1U) << "two coordinators act in epoch " << epoch;
    }
    EXPECT_LE(nodes_[0].candidate->holds() + nodes_[1].candidate->holds(), 1)
        << "two coordinators hold the lease";
    const bool is_led = nodes_[0].candidate->leads() || nodes_[1].candidate->leads();
    if (is_led || !is_calm_) last_led_ = now_;
    counts_.longest_without_leader =
        std::max(counts_.longest_without_leader, Duration(now_ - last_led_));
  }

  SeededRandom random_;
  TimePoint now_ = 1s;
  bool is_calm_ = false;
  std::multimap<TimePoint, std::function<void()>> events_;
  std::array<Node, 2> nodes_;
  std::uint64_t processes_ = 0;
  std::uint64_t numbers_ = 0;
  std::map<std::uint64_t, std::set<std::string>> acting_;
  std::vector<Entry> acknowledged_;
  Counts counts_;
  TimePoint last_led_{};
  // The store.
  TimePoint away_until_{};
  std::uint64_t epoch_ = 0;
  std::string holder_;
  TimePoint ends_{};
  std::map<std::string, TimePoint> seen_;
  std::vector<Entry> log_;
};

}  // namespace hearth::coordinator
