// The lease on a store that several coordinators share: which of them leads. Only the store says
// when a lease ends, by its own clock. Each new holder gets a greater epoch, which fences what it
// writes (postgres_database.h).
//
// LeaseCandidate is the state machine of one coordinator. It has no thread: its owner asks the
// store what next() says, one question at a time, and hands it the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace hearth::coordinator {

struct LeasePeer {
  std::string name;     // for people: "den, process 7"
  std::string api;      // "host:port"
  std::string control;  // "host:port" that workers dial; empty: only workers of its machine
  friend bool operator==(const LeasePeer&, const LeasePeer&) = default;
};

// The lease at one moment.
struct LeaseView {
  std::uint64_t epoch = 0;  // coordinators that have led, ever
  std::string holder;       // the id of the last of them
  LeasePeer leader;         // the same one
  std::int64_t began = 0;   // unix seconds of the store's clock; greater than in each epoch before
  Duration left{0};         // until the lease ends; not positive: it has ended, or was given back
  std::string cluster;      // which keys a coordinator must have (LeaseSelf); empty: any
  std::vector<LeasePeer> standbys = {};  // coordinators besides the holder, seen in the last 10 s
};

// Under which a coordinator writes. An older copy of the store may give an epoch again, to another
// holder.
struct LeaseTerm {
  std::uint64_t epoch = 0;  // 0: none, as of a command
  std::string holder = {};  // of hexadecimal digits
};

struct LeaseQuestion {
  enum class Kind : std::uint8_t {
    kWatch,    // changes nothing
    kTake,     // where the lease of `epoch` has ended: makes the caller the holder of the next one
    kRenew,    // where `epoch` is in force: the lease ends later
    kRelease,  // likewise: it ends now. With epoch 0: this coordinator is no standby any more
  };
  Kind kind = Kind::kWatch;
  std::uint64_t epoch = 0;
};
using LeaseAsk = LeaseQuestion::Kind;

class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // The change is one transaction; the answer is the lease at a moment between question and answer,
  // after the change. kWatch shows a standby, after the answer. kUnavailable: it may have been done
  // or not.
  virtual Result<LeaseView> ask(const LeaseQuestion& question) = 0;
};

struct LeaseTimes {
  Duration lease = std::chrono::milliseconds(2'000);
  Duration renew = std::chrono::milliseconds(500);  // between two renewals
  Duration watch = std::chrono::milliseconds(500);  // between two looks, without a notice
  Duration retry = std::chrono::milliseconds(100);  // after a failed question
};

class LeaseCandidate {
 public:
  // `id`: unique among all processes, ever.
  LeaseCandidate(std::string id, const Clock& clock, const LeaseTimes& times = {});

  // The question to ask now; nothing until wake_at(), or while one has no answer.
  std::optional<LeaseQuestion> next();
  void on_answer(const Result<LeaseView>& answer);
  void on_notice();  // the lease may have changed
  TimePoint wake_at() const;
  // It leads no more; the next question gives the lease back, and is the last one.
  void release();
  // It leads no more, and gives the lease back; from then on it is a standby like others, which
  // have the first chance to take it.
  void give_back();

  // Whether this coordinator may act as the leader. It stops when another one has led since, and
  // when its lease has ended and a standby may have taken it. Without a standby it leads on while
  // the store is away: no other coordinator was there to take over.
  bool leads() const;
  // Whether the lease lasts, counted from before the question whose answer said so.
  bool holds() const;
  std::uint64_t epoch() const { return epoch_; }  // of the last lease that it has held; 0: none
  bool has_standbys() const { return has_standbys_; }
  // The greatest one that the store has named. A store that names a smaller one is an older copy.
  std::uint64_t newest() const { return newest_; }
  bool is_over() const { return is_over_; }  // the last question is answered

 private:
  bool may_act() const { return is_leader_ && !is_releasing_ && !is_giving_; }
  void settle();
  LeaseQuestion question() const;
  void on_view(const LeaseQuestion& asked, const LeaseView& view);
  void lead(const LeaseView& view);

  const std::string id_;
  const Clock& clock_;
  const LeaseTimes times_;
  bool is_leader_ = false;
  bool is_releasing_ = false;
  bool is_giving_ = false;
  bool is_over_ = false;      // released
  bool has_standbys_ = true;  // unless the store says otherwise
  std::uint64_t epoch_ = 0;
  std::uint64_t newest_ = 0;         // of the epochs seen
  TimePoint until_{};                // the leader's: the store has not ended the lease before
  std::optional<TimePoint> ends_{};  // another one's: the store has ended it then
  TimePoint next_{};
  TimePoint yields_until_{};  // after it has given the lease back
  std::optional<LeaseQuestion> asked_;
  TimePoint asked_at_{};
};

}  // namespace hearth::coordinator
