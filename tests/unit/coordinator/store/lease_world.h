// Two coordinators and one store in one thread on simulated time, from one seed: questions, answers
// and writes are late or lost, the store is away, its clock steps, an older copy takes its place, a
// coordinator's clock runs fast or slow, it is cut off, stands still or starts anew. Checks after
// each step what must hold.
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
    std::uint64_t copies = 0;   // older ones that took the store's place
    // Two led at once: one had lost the store before the other one was there (docs/operate.md).
    std::uint64_t alone = 0;
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
    // As the coordinators ask for.
    for (Node& node : nodes_) {
      if (node.began < replaced_) start(node);
    }
    const std::size_t before = acknowledged_.size();
    for (TimePoint end = now_ + 30s; now_ < end;) step();
    EXPECT_GT(acknowledged_.size(), before) << "no coordinator leads after the faults";
    std::set<std::uint64_t> kept = gone_with_copies_;
    for (const Entry& entry : store_.log) kept.insert(entry.number);
    for (const Entry& entry : acknowledged_) {
      EXPECT_TRUE(kept.contains(entry.number)) << "an acknowledged entry is lost";
    }
    counts_.acknowledged = acknowledged_.size();
    return counts_;
  }

 private:
  // Of one machine: it began at another moment, and runs a little faster or slower.
  class OwnClock final : public Clock {
   public:
    OwnClock(const TimePoint& now, Duration offset, std::int64_t parts)
        : now_(now), offset_(offset), parts_(parts) {}
    TimePoint now() const override { return now_ + offset_ + now_ / 1'000 * parts_; }
    std::int64_t unix_seconds() const override { return 0; }

   private:
    const TimePoint& now_;
    const Duration offset_;
    const std::int64_t parts_;  // of a thousand
  };
  struct Node {
    std::string id;
    std::unique_ptr<OwnClock> clock;
    std::unique_ptr<LeaseCandidate> candidate;
    TimePoint paused_until{};
    TimePoint cut_until{};  // from the store
    TimePoint next_write{};
    TimePoint began{};
    TimePoint answered{};  // when the store made the last answer that it got
  };
  // All that is in the store.
  struct Contents {
    std::uint64_t epoch = 0;
    std::uint64_t renewed = 0;
    std::string holder = {};
    Duration lasts{0};
    TimePoint ends{};                            // by its clock
    std::map<std::string, TimePoint> seen = {};  // likewise
    std::vector<Entry> log = {};
  };

  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }
  Duration some(Duration most) {
    return Duration(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most.count()))));
  }
  // A way to the store, or back.
  Duration delay(Duration most) { return is_calm_ || below(20) > 0 ? some(20ms) : some(most); }

  void start(Node& node) {
    node.id = "process " + std::to_string(++processes_);
    node.began = now_;
    node.answered = {};
    const auto parts = static_cast<std::int64_t>(below(61)) - 30;
    node.clock = std::make_unique<OwnClock>(now_, some(1000s), parts);
    node.candidate = std::make_unique<LeaseCandidate>(node.id, *node.clock);
  }

  void at(TimePoint when, std::function<void()> what) {
    events_.emplace(std::max(when, now_), std::move(what));
  }

  void add_faults() {
    if (below(300) == 0) copy_ = store_;
    if (below(50) > 0) return;  // about every second
    Node& node = nodes_[below(2)];
    switch (below(6)) {
      case 0: node.paused_until = now_ + some(8s); break;
      case 1: node.cut_until = now_ + some(8s); break;
      case 2: away_until_ = std::max(away_until_, now_ + some(5s)); break;
      case 3: clock_step_ += some(20s) - 10s + (below(4) == 0 ? 1h : 0h); break;
      case 4: return replace_by_copy();
      default:
        if (below(2) == 0) return start(node);  // killed, and started at once
        node.candidate->release();
        at(now_ + some(3s), [this, &node] { start(node); });
    }
  }

  // It takes longer than a lease, so that what the one before has granted has ended. The messages
  // of the coordinators ask for their restart.
  void replace_by_copy() {
    if (below(4) > 0) return;
    away_until_ = std::max(away_until_, now_ + 2s + some(3s));
    for (const Entry& entry : store_.log) gone_with_copies_.insert(entry.number);
    store_ = copy_;
    for (const Entry& entry : store_.log) gone_with_copies_.erase(entry.number);
    shown_.clear();  // it shows standbys of that time
    replaced_ = now_;
    ++counts_.copies;
    for (Node& node : nodes_) {
      at(away_until_ + some(6s), [this, &node] {
        if (node.began < replaced_) start(node);
      });
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
    acting_[{taken_in_[node.id], entry.epoch}].insert(node.id);
    // As when the process stands still between its decision and the write.
    at(now_ + delay(4s), [this, &node, entry] { write(node, entry); });
  }

  bool is_reached(const Node& node) const { return now_ >= away_until_ && now_ >= node.cut_until; }

  void ask(Node& node, const LeaseQuestion& question) {
    const auto answer = [this, &node, id = node.id](Result<LeaseView> view, TimePoint when) {
      at(when,
         [this, &node, id, view = std::move(view), made = now_] { deliver(node, id, view, made); });
    };
    const Error away{ErrorCode::kUnavailable, "the store is away"};
    at(now_ + delay(500ms), [this, &node, question, answer, away, id = node.id] {
      if (!is_reached(node)) return answer(away, now_ + 1s);
      LeaseView view = execute(id, question);
      const Duration back = delay(500ms);
      is_calm_ || below(50) > 0 ? answer(std::move(view), now_ + back) : answer(away, now_ + 1s);
    });
  }
  void deliver(Node& node, const std::string& id, const Result<LeaseView>& view, TimePoint made) {
    if (node.id != id) return;  // of a process that is gone
    if (now_ < node.paused_until) {
      return at(node.paused_until,
                [this, &node, id, view, made] { deliver(node, id, view, made); });
    }
    if (view.ok()) node.answered = made;
    node.candidate->on_answer(view);
  }

  TimePoint store_now() const { return now_ + clock_step_; }
  // As the store does it.
  LeaseView execute(const std::string& id, const LeaseQuestion& question) {
    const bool is_old = store_.ends <= store_now() || store_.ends > store_now() + store_.lasts;
    if (question.kind == LeaseAsk::kTake && question.epoch == store_.epoch &&
        question.renewed == store_.renewed && question.holder == store_.holder && is_old) {
      ++store_.epoch;
      ++counts_.epochs;
      store_.holder = id;
      taken_in_[id] = counts_.copies;
      renew(LeaseTimes().lease);
    }
    const bool is_holder = question.epoch == store_.epoch && store_.holder == id;
    if (question.kind == LeaseAsk::kRenew && is_holder) renew(LeaseTimes().lease);
    if (question.kind == LeaseAsk::kRelease) store_.seen.erase(id);
    if (question.kind == LeaseAsk::kRelease && is_holder) renew(0s);
    LeaseView view;
    view.epoch = store_.epoch;
    view.holder = store_.holder;
    view.lasts = store_.lasts;
    view.renewed = store_.renewed;
    view.left = store_.ends - store_now();
    const bool waits = question.kind == LeaseAsk::kWatch ||
                       (question.kind == LeaseAsk::kTake && store_.holder != id);
    if (waits) show(id);
    for (const auto& [other, when] : store_.seen) {
      const bool is_seen = when + 10s > store_now() && other != store_.holder;
      if (is_seen) view.standbys.push_back({other, "", ""});
    }
    return view;
  }
  // A process is new where it was silent for about as long as the store shows it, by either clock.
  void show(const std::string& id) {
    store_.seen[id] = store_now();
    const auto before = shown_.find(id);
    const bool is_new = before == shown_.end() || before->second.first + 8s < now_ ||
                        before->second.second + 8s < store_now();
    if (is_new) present_since_[id] = now_;
    shown_[id] = {now_, store_now()};
  }
  void renew(Duration lasts) {
    ++store_.renewed;
    store_.lasts = lasts;
    store_.ends = store_now() + lasts;
  }

  void write(Node& node, const Entry& entry) {
    if (!is_reached(node)) return;
    if (entry.epoch != store_.epoch || entry.writer != store_.holder) {
      ++counts_.refused;
      return;
    }
    EXPECT_TRUE(store_.log.empty() || store_.log.back().epoch <= entry.epoch) << "it goes back";
    store_.log.push_back(entry);
    if (is_calm_ || below(50) > 0) {
      at(now_ + delay(4s), [this, entry] { acknowledged_.push_back(entry); });
    }
  }

  void check() {
    for (const auto& [epoch, ids] : acting_) {
      EXPECT_EQ(ids.size(), 1U) << "two coordinators act in epoch " << epoch.second;
    }
    Node& a = nodes_[0];
    Node& b = nodes_[1];
    EXPECT_LE(a.candidate->holds() + b.candidate->holds(), 1) << "two coordinators hold the lease";
    if (a.candidate->leads() && b.candidate->leads()) {
      // The one that has led for longer has not been told of the other one.
      const Node& before = b.candidate->holds() ? a : b;
      const Node& after = b.candidate->holds() ? b : a;
      EXPECT_LT(before.answered, present_since_[after.id]) << "two coordinators lead";
      ++counts_.alone;
    }
    const bool is_led = a.candidate->leads() || b.candidate->leads();
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
  // By the copy of the store, and the epoch.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::string>> acting_;
  std::map<std::string, std::uint64_t> taken_in_;  // the copy in which a process took the lease
  std::vector<Entry> acknowledged_;
  Counts counts_;
  TimePoint last_led_{};
  // The store.
  TimePoint away_until_{};
  Duration clock_step_{0};
  Contents store_;
  Contents copy_;
  TimePoint replaced_ = TimePoint::min();                         // by the copy
  std::set<std::uint64_t> gone_with_copies_;                      // numbers of entries
  std::map<std::string, std::pair<TimePoint, TimePoint>> shown_;  // by both clocks
  std::map<std::string, TimePoint> present_since_;
};

}  // namespace hearth::coordinator
