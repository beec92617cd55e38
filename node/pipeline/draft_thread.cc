#include "node/pipeline/draft_thread.h"

#include <spdlog/spdlog.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <utility>

namespace hearth::node {
namespace {

// Most asks that wait. A pipeline has at most one ask under way.
constexpr std::size_t kDraftAsks = 4;

DraftAnswer failed_answer(SequenceId sequence) {
  DraftAnswer answer;
  answer.sequence = sequence;
  answer.failed = true;
  return answer;
}

}  // namespace

DraftThread::DraftThread(Load load, Post post)
    : load_(std::move(load)), post_(std::move(post)), thread_({.max_cost = kDraftAsks}) {}

// An ask from before an unload would load the model again, and no later task would free it.
DraftAnswer DraftThread::draft(const DraftAsk& ask, std::uint64_t unloads) {
  if (unloads != unloads_) return failed_answer(ask.open.sequence);
  if (model_ == nullptr && !broken_) {
    const auto cancelled = [this, unloads] { return unloads != unloads_ || thread_.stopping(); };
    auto loaded = load_(cancelled);
    broken_ = !loaded.ok();
    if (broken_ && loaded.error().code != ErrorCode::kCancelled) {
      spdlog::warn("the draft model is not used: {}", loaded.error().message);
    } else if (!broken_) {
      model_ = *std::move(loaded);
    }
  }
  return model_ != nullptr ? model_->draft(ask) : failed_answer(ask.open.sequence);
}

void DraftThread::ask(DraftAsk ask, Done done) {
  const SequenceId sequence = ask.open.sequence;
  const bool taken = thread_.post([this, ask = std::move(ask), done, unloads = unloads_.load()] {
    post_([answer = draft(ask, unloads), done]() mutable { done(std::move(answer)); });
  });
  if (taken) return;
  post_([sequence, done = std::move(done)] { done(failed_answer(sequence)); });
}

// It costs nothing, so that a full queue takes it. malloc_trim() gives the freed memory back to the
// system.
void DraftThread::unload(std::function<void()> done) {
  ++unloads_;
  const auto free = [this, done = std::move(done)] {
    broken_ = false;
    if (model_ != nullptr) {
      model_.reset();
#ifdef __GLIBC__
      malloc_trim(0);
#endif
    }
    post_(done);
  };
  thread_.post(free, 0);
}

}  // namespace hearth::node
