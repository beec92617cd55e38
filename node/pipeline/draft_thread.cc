#include "node/pipeline/draft_thread.h"

#include <spdlog/spdlog.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <utility>

namespace hearth::node {
namespace {

// Most asks and unload() calls that wait. A pipeline has at most one ask under way.
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

DraftAnswer DraftThread::draft(const DraftAsk& ask) {
  unload_if_wanted();
  if (model_ == nullptr && !broken_) {
    auto loaded = load_();
    broken_ = !loaded.ok();
    if (broken_) {
      spdlog::warn("the draft model is not used: {}", loaded.error().message);
    } else {
      model_ = *std::move(loaded);
    }
  }
  return model_ != nullptr ? model_->draft(ask) : failed_answer(ask.open.sequence);
}

void DraftThread::ask(DraftAsk ask, Done done) {
  const SequenceId sequence = ask.open.sequence;
  const bool taken = thread_.post([this, ask = std::move(ask), done] {
    post_([answer = draft(ask), done]() mutable { done(std::move(answer)); });
    unload_if_wanted();
  });
  if (taken) return;
  post_([sequence, done = std::move(done)] { done(failed_answer(sequence)); });
}

// A full queue needs no further task: each of its tasks calls unload_if_wanted().
void DraftThread::unload() {
  unload_wanted_ = true;
  thread_.post([this] { unload_if_wanted(); });
}

// malloc_trim() gives the freed memory back to the system.
void DraftThread::unload_if_wanted() {
  if (!unload_wanted_.exchange(false)) return;
  broken_ = false;
  if (model_ == nullptr) return;
  model_.reset();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace hearth::node
