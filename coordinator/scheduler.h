// Scheduler: which sequence runs where. One queue, first come first served, where only one that may
// not run on a pipeline (GenerateRequest::trust) is overtaken by those that go there; KV pages
// reserved on the smallest stage of a pipeline for prompt + max_tokens before a sequence starts,
// given back when the last stage reports the release. A plain state machine: it sends and calls
// nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "coordinator/sequence.h"

namespace hearth::coordinator {

// The KV pages of one serving pipeline.
struct KvPool {
  std::uint32_t pages = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t reserved = 0;
  std::uint32_t running = 0;            // sequences that have not both ended and been released
  std::vector<std::string> nodes = {};  // its stages
};

class Scheduler {
 public:
  void add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens,
                std::vector<std::string> nodes);
  // The pipeline is gone with its KV: its sequences leave the scheduler, in the order of their ids.
  std::vector<std::shared_ptr<Sequence>> remove_pool(Epoch epoch);
  const std::map<Epoch, KvPool>& pools() const { return pools_; }

  // Whether some pipeline inside its trust set has as many pages in all as it wants. kRefused names
  // a node outside, kNoCapacity both numbers.
  Status fits_somewhere(const Sequence& sequence) const;
  // kNoCapacity when limits::kWaitingSequences wait.
  Status enqueue(std::shared_ptr<Sequence> sequence);
  // The oldest waiting sequence that need not wait on, reserved on the fitting pipeline with the
  // most free pages. None goes to a pipeline that an older one waits for. Null: all must wait on.
  std::shared_ptr<Sequence> admit();
  // The oldest waiting sequence that no pipeline that serves could ever hold; null without one.
  std::shared_ptr<Sequence> pop_unfit();
  std::vector<std::shared_ptr<Sequence>> take_waiting();

  // A sequence that waits or runs; null for unknown ids.
  std::shared_ptr<Sequence> find(SequenceId id) const;
  void remove_waiting(SequenceId id);
  // Its KV is free: pages go back. The sequence stays until it has ended, too.
  void release(Sequence& sequence);
  void end(Sequence& sequence);

  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  // Running sequences that wait for hashes.
  std::vector<std::shared_ptr<Sequence>> held() const;

 private:
  using Waiting = std::deque<std::shared_ptr<Sequence>>;
  std::shared_ptr<Sequence> reserve(Waiting::iterator place, Epoch epoch, KvPool& pool);
  void remove_done(const Sequence& sequence);

  std::map<Epoch, KvPool> pools_;
  Waiting waiting_;
  std::map<SequenceId, std::shared_ptr<Sequence>> running_;
};

}  // namespace hearth::coordinator
