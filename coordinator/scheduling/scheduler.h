// Scheduler: which sequence runs where, and when. Those whose pipeline was lost come before all
// others. Then owners take turns (coordinator/fair_share.h); among one owner's sequences the first
// to come is the first served, those in the background after the others, though not for ever. Only
// one that may not run on a pipeline (GenerateRequest::trust, min_level) is overtaken by those that
// go there.
// KV pages are reserved on the smallest stage of a pipeline for prompt + max_tokens before a
// sequence starts, and given back when the last stage reports the release. A plain state machine:
// it sends and calls nothing.
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
#include "base/result.h"
#include "coordinator/scheduling/fair_share.h"
#include "coordinator/scheduling/pipeline_pace.h"
#include "coordinator/scheduling/sequence.h"

namespace hearth::coordinator {

// The KV pages of one serving pipeline.
struct KvPool {
  std::uint32_t pages = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t reserved = 0;
  std::uint32_t running = 0;            // sequences that have not both ended and been released
  std::vector<std::string> nodes = {};  // its stages
  bool closed = false;                  // it finishes what runs and gets nothing new
  ledger::Level level = ledger::Level::kNewcomer;  // the lowest of its nodes
  bool audited = false;                            // others can compute again what it computes
  PipelinePace pace = {};
  bool checking = false;  // audits alone, and of them those that newcomers may compute
};

class Scheduler {
 public:
  void add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens,
                std::vector<std::string> nodes, bool checking = false);
  // The pipeline is gone with its KV: its sequences leave the scheduler, in the order of their ids.
  std::vector<std::shared_ptr<Sequence>> remove_pool(Epoch epoch);
  const std::map<Epoch, KvPool>& pools() const { return pools_; }
  void close_pool(Epoch epoch, bool closed);
  void set_standing(Epoch epoch, ledger::Level level, bool audited);
  bool serves() const;             // some pipeline takes what comes
  bool has_checkers() const;       // there is a checking pipeline, and
  bool has_idle_checkers() const;  // a checking pipeline has nothing to do
  // Whether other pipelines that take what comes have room now for all that runs on this one.
  bool others_have_room(Epoch epoch) const;
  // Whether a pipeline of these nodes, the lowest of which has this level, may run all that runs on
  // this one.
  bool may_all_run_on(Epoch epoch, const std::vector<std::string>& nodes,
                      ledger::Level level) const;

  // Whether some pipeline inside its trust set and not below its level, and not closed, has as many
  // pages in all as it wants. kRefused names the trust set, or the level and the one that is there;
  // kNoCapacity both numbers.
  Status fits_somewhere(const Sequence& sequence) const;
  // kNoCapacity when limits::kWaitingSequences wait, or twice as many of this owner's as the queue
  // has room for: so nobody fills it (dynamic thresholds, Choudhury and Hahne 1998).
  Status enqueue(std::shared_ptr<Sequence> sequence);
  // Sequences of a lost pipeline wait again, ahead of all that never ran. No limit: they were in.
  void requeue(std::vector<std::shared_ptr<Sequence>> sequences);
  // Those that requeue() brought and that still wait.
  std::vector<std::shared_ptr<Sequence>> interrupted() const;
  // A token of a sequence on this pipeline came, so long after the one before it.
  void take_pace(Epoch epoch, Duration waited, TimePoint now);
  // The waiting sequence whose turn it is and that need not wait on, reserved on the fitting
  // pipeline that is expected to be the quickest; of those within a fifth of it, and those that
  // were not measured lately and run no more than it, on the one with the most free pages. One that
  // is to be verified goes, of those that fit, to one that others can audit, of the highest level.
  // None goes to a pipeline that one before it waits for. Null: all must wait on.
  std::shared_ptr<Sequence> admit();
  // The oldest sequence that never ran and that no pipeline that serves could ever hold; null
  // without one.
  std::shared_ptr<Sequence> pop_unfit();
  std::vector<std::shared_ptr<Sequence>> take_waiting();  // that never ran

  // A sequence that waits or runs; null for unknown ids.
  std::shared_ptr<Sequence> find(SequenceId id) const;
  void remove_waiting(SequenceId id);
  // Its KV is free: pages go back. The sequence stays until it has ended, too.
  void release(Sequence& sequence);
  void end(Sequence& sequence);

  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  // Those of one owner.
  std::uint32_t waiting_of(const std::string& owner) const;
  std::uint32_t running_of(const std::string& owner) const;
  // Running sequences that wait for hashes.
  std::vector<std::shared_ptr<Sequence>> held() const;

 private:
  using Waiting = std::deque<std::shared_ptr<Sequence>>;
  std::vector<Waiting::iterator> by_turn();
  std::shared_ptr<Sequence> reserve(Waiting::iterator place, Epoch epoch, KvPool& pool);
  std::optional<double> expected_seconds(const KvPool& pool) const;  // a token, with one more
  Epoch quickest(const std::vector<Epoch>& fitting) const;
  void settle(const Sequence& sequence);
  void remove_done(const Sequence& sequence);

  std::map<Epoch, KvPool> pools_;
  TimePoint last_token_{};  // of all pipelines
  Waiting waiting_;         // interrupted ones first, each part in the order of arrival
  FairShare shares_;
  // Sequences of an owner that went before one of its own in the background, in a row.
  std::map<std::string, std::uint32_t> passed_;
  std::map<SequenceId, std::shared_ptr<Sequence>> running_;
};

}  // namespace hearth::coordinator
