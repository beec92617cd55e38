// The lease on a store that several coordinators share: which of them leads. A lease has ended when
// it was not renewed for as long as it lasts. Each coordinator counts that time by itself, so that
// no step of any machine's clock gives the lease to two. Each new holder gets a greater epoch,
// which fences what it writes (postgres_database.h).
//
// LeaseCandidate is the state machine of one coordinator. It has no thread: its owner asks the
// store what next() says, one question at a time, and hands it the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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
  Duration lasts{0};        // after a renewal; 0: it was given back
  std::uint64_t renewed = 0;  // changes with each renewal
  Duration left{0};     // until the lease ends by the store's clock; not positive: it has ended
  std::string cluster;  // which keys a coordinator must have (LeaseSelf); empty: any
  std::vector<LeasePeer> standbys = {};  // coordinators besides the holder, seen in the last 10 s
};

// Under which a coordinator writes. An older copy of the store may give an epoch again, to another
// holder.
struct LeaseTerm {
  std::uint64_t epoch = 0;  // 0: none, as of a command
  std::string holder = {};  // of hexadecimal digits
  // Once it is true, the term is over: no question to the store waits for an answer. Null: never.
  std::shared_ptr<const std::atomic<bool>> ended = {};
};

struct LeaseQuestion {
  enum class Kind : std::uint8_t {
    kWatch,  // changes nothing
    // Where the lease of `epoch` has ended by the store's clock, or that clock has been set back,
    // and `holder` has not renewed it since `renewed`: makes the caller the holder of the next one.
    kTake,
    kRenew,    // where `epoch` is the caller's: the lease ends later
    kRelease,  // likewise: it ends now. With epoch 0: this coordinator is no standby any more
  };
  Kind kind = Kind::kWatch;
  std::uint64_t epoch = 0;
  // Of a take, as in LeaseView: an older copy of the store may give an epoch again.
  std::uint64_t renewed = 0;
  std::string holder = {};
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
  Duration watch = std::chrono::milliseconds(250);  // between two looks, without a notice
  Duration retry = std::chrono::milliseconds(100);  // after a failed question
  // For which the holder counts on it: clocks of two machines may differ in speed by a sixteenth.
  constexpr Duration held() const { return lease - lease / 16; }
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
  Duration left() const;  // until another coordinator may take the lease that was seen last
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
  void observe(const LeaseView& view);
  void lead(const LeaseView& view);

  const std::string id_;
  const Clock& clock_;
  const LeaseTimes times_;
  bool is_leader_ = false;
  bool is_releasing_ = false;
  bool is_giving_ = false;
  bool is_over_ = false;      // released
  bool has_standbys_ = true;  // unless the store says otherwise
  TimePoint counts_standby_until_ = TimePoint::min();
  std::uint64_t epoch_ = 0;
  std::uint64_t newest_ = 0;  // of the epochs seen
  TimePoint until_{};         // the leader's: no other coordinator takes the lease before
  // A renewal of another one's lease, and since when no later one was seen.
  struct Seen {
    std::uint64_t epoch = 0;
    std::string holder;
    std::uint64_t renewed = 0;
    TimePoint since{};
    TimePoint ends{};
  };
  std::optional<Seen> seen_;
  // The first question that would take that epoch's lease, while it may have been done.
  struct Take {
    std::uint64_t epoch = 0;
    TimePoint asked{};
  };
  std::optional<Take> take_;
  TimePoint next_{};
  TimePoint yields_until_{};  // takes nothing before, after it has given the lease back
  std::optional<LeaseQuestion> asked_;
  TimePoint asked_at_{};
};

}  // namespace hearth::coordinator
