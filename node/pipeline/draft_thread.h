// DraftThread: runs a draft model on a thread of its own, beside the engine's. The first ask loads
// its weights. If that fails, every ask fails until the next unload().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/worker_thread.h"
#include "node/runner/draft_ask.h"
#include "node/runner/draft_model.h"

namespace hearth::node {

class DraftThread final : public DraftSource {
 public:
  // Runs a function later, on the main thread. Never called after the destructor has returned.
  using Post = std::function<void(std::function<void()>)>;
  // Called on the draft thread. The loading, and later the model's asks, end soon with kCancelled
  // once `cancelled` returns true, which it does after an unload and at the end.
  using Load =
      std::function<Result<std::unique_ptr<DraftModel>>(const std::function<bool()>& cancelled)>;

  DraftThread(Load load, Post post);

  // Answers `failed` when the queue is full of asks of earlier pipelines.
  void ask(DraftAsk ask, Done done) override;
  void unload(std::function<void()> done) override;

 private:
  DraftAnswer draft(const DraftAsk& ask, std::uint64_t unloads);

  const Load load_;
  const Post post_;
  // Used by the thread alone.
  std::unique_ptr<DraftModel> model_;
  bool broken_ = false;
  std::atomic<std::uint64_t> unloads_ = 0;  // asked for
  WorkerThread thread_;                     // last: it uses all of the above
};

}  // namespace hearth::node
