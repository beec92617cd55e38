// Scheduler: decides which waiting sequence starts next and on which pipeline. Sequences of lost
// pipelines come first. Then owners take turns (coordinator/scheduling/fair_share.h). One owner's
// sequences start in the order of arrival, with background ones after the others, but only a
// limited number of times. A sequence waits for its turn even if a later one would fit. Only
// sequences that a pipeline may not run (RequestPolicy::trust, min_level) are overtaken by those
// that it may.
//
// KV pages for prompt + max_tokens are reserved on the smallest stage of a pipeline before a
// sequence starts, and returned when the last stage reports the release. A plain state machine: it
// sends and calls nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "coordinator/scheduling/fair_share.h"
#include "coordinator/scheduling/pipeline_pace.h"
#include "coordinator/scheduling/prefix_map.h"
#include "coordinator/scheduling/sequence.h"

namespace hearth::coordinator {

// The KV pages of one serving pipeline.
struct KvPool {
  std::uint32_t pages = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t reserved = 0;
  std::uint32_t running = 0;                       // sequences not yet both ended and released
  std::vector<std::string> nodes = {};             // its stages
  bool closed = false;                             // finishes its sequences and gets no new ones
  ledger::Level level = ledger::Level::kNewcomer;  // the lowest of its nodes
  bool audited = false;                            // another pipeline can recompute its results
  PipelinePace pace = {};
  bool checking = false;  // runs only audits that newcomers may compute
  std::uint32_t sequences = limits::kRunningSequences;  // most that run at once
  bool keeps_prefixes = true;                           // pages of ended sequences
};

// Remembered first pages of ended sequences, over all pipelines: 8 million tokens.
inline constexpr std::uint32_t kEndedPages = 1U << 18;

class Scheduler {
 public:
  void add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens,
                std::vector<std::string> nodes, bool checking = false,
                std::uint32_t sequences = limits::kRunningSequences, bool keeps_prefixes = true);
  // The pipeline and its KV are lost: its sequences leave the scheduler, in the order of their ids.
  // The caller requeues or ends the unfinished ones.
  std::vector<std::shared_ptr<Sequence>> remove_pool(Epoch epoch);
  const std::map<Epoch, KvPool>& pools() const { return pools_; }
  void close_pool(Epoch epoch, bool closed);
  void set_standing(Epoch epoch, ledger::Level level, bool audited);
  bool serves() const;             // a pipeline accepts sequences
  bool has_checkers() const;       // there is a checking pipeline
  bool has_idle_checkers() const;  // one of them runs nothing
  // Whether the other open pipelines have room now for all sequences of this one.
  bool others_have_room(Epoch epoch) const;
  // Whether a pipeline of these nodes and this level may run all sequences of this one.
  bool may_all_run_on(Epoch epoch, const std::vector<std::string>& nodes,
                      ledger::Level level) const;

  // Whether an open pipeline under the sequence's policy has enough pages in total. kRefused: the
  // policy allows no open pipeline. kNoCapacity: the largest one is too small.
  Status fits_somewhere(const Sequence& sequence) const;
  // Positions that the largest open pipeline under this policy can hold; nothing without one.
  std::optional<std::uint32_t> largest_sequence(const RequestPolicy& policy) const;
  // kNoCapacity when limits::kWaitingSequences wait, or when this owner has twice as many as there
  // are free places. So one owner alone never fills the queue (dynamic thresholds, Choudhury and
  // Hahne 1998).
  Status enqueue(std::shared_ptr<Sequence> sequence);
  // Sequences of a lost pipeline wait again, ahead of all that never ran. No limit applies.
  void requeue(std::vector<std::shared_ptr<Sequence>> sequences);
  // The requeued sequences that still wait.
  std::vector<std::shared_ptr<Sequence>> interrupted() const;
  // A token of a sequence on this pipeline came this long after the one before it.
  void take_pace(Epoch epoch, Duration waited, TimePoint now);
  // The next sequence that can start, with its pages reserved; null when no sequence can. Its
  // pipeline is chosen among those with room, in three steps. With verification only the auditable
  // ones of the highest level remain, if there are any. If a pipeline has recently computed the
  // sequence's beginning, only those remain on which it starts within a fifth of the soonest, by
  // the steps of its other tokens and the time of a step. Then pipelines within a fifth of the
  // fastest one, and those without recent measurements that run no more than it, count as equal;
  // the one with the most free pages wins. No sequence starts on a pipeline that an earlier one
  // waits for. Constant time while nothing has changed since the last call that returned null.
  std::shared_ptr<Sequence> admit();
  // The oldest new sequence that no open pipeline may run or can ever hold; null without one.
  // Constant time while nothing has changed.
  std::shared_ptr<Sequence> pop_unfit();
  std::vector<std::shared_ptr<Sequence>> take_waiting();  // all that never ran
  // How often the waiting sequences were sorted: the cost of admission.
  std::uint64_t orderings() const { return orderings_; }

  // A sequence that waits or runs; null for unknown ids.
  std::shared_ptr<Sequence> find(SequenceId id) const;
  void remove_waiting(SequenceId id);
  // Its KV is free: returns the pages. The sequence stays until it has also ended.
  void release(Sequence& sequence);
  // Upper bound of its cached prompt positions, by the sequences that ended before it.
  std::uint32_t cached_most(Sequence& sequence) const;
  void end(Sequence& sequence);

  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  // The same for one owner.
  std::uint32_t waiting_of(const std::string& owner) const;
  std::uint32_t running_of(const std::string& owner) const;
  // The tokens that an owner has received, as FairShare counts them.
  std::uint64_t served(const std::string& owner) const { return shares_.served(owner); }

 private:
  using Waiting = std::deque<std::shared_ptr<Sequence>>;
  std::vector<Waiting::iterator> by_turn();
  std::shared_ptr<Sequence> reserve(Waiting::iterator place, Epoch epoch, KvPool& pool);
  std::optional<double> expected_seconds(const KvPool& pool) const;  // a token, with one more
  Epoch quickest(const std::vector<Epoch>& fitting) const;
  std::vector<Epoch> soonest(Sequence& sequence, std::vector<Epoch> fitting) const;
  void charge(Sequence& sequence);
  void refund(Sequence& sequence);
  void remove_done(Sequence& sequence);
  void runs_no_more(const Sequence& sequence);
  void pools_changed() { admission_changed_ = fit_changed_ = true; }

  std::map<Epoch, KvPool> pools_;
  std::map<Epoch, PrefixMap> prefixes_;  // of those pipelines
  PrefixMap ended_{kEndedPages};         // beginnings of sequences that ended on any pipeline
  TimePoint last_token_{};               // of all pipelines
  Waiting waiting_;  // interrupted ones first, each part in the order of arrival
  FairShare shares_;
  // By owner: how many of its sequences in a row started before its waiting background one.
  std::map<std::string, std::uint32_t> background_skips_;
  std::map<SequenceId, std::shared_ptr<Sequence>> running_;
  std::map<std::string, std::uint32_t> running_of_;  // by owner; none is 0
  bool admission_changed_ = false;                   // since admit() returned null
  bool fit_changed_ = false;                         // since pop_unfit() found none
  std::uint64_t orderings_ = 0;
};

}  // namespace hearth::coordinator
