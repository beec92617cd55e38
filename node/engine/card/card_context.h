// CardContext: one card as a process uses it, shared by the Card and the stages on it. Every call
// to the GPU is made within ask(), which selects the GPU for the thread. It reports once when the
// GPU is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "kernels/cuda/lost_card.h"
#include "kernels/cuda/runtime.h"

namespace hearth::node {

// How long a call of the driver may take before the GPU counts as lost. An emulated GPU computes a
// prompt in minutes where the machine is busy.
#ifdef HEARTH_EMULATED
inline constexpr std::chrono::milliseconds kCardStepLimit{900'000};
#else
inline constexpr std::chrono::milliseconds kCardStepLimit{60'000};
#endif

class CardContext {
 public:
  // `on_lost`: on any thread.
  CardContext(std::uint32_t index, std::function<void(const Error&)> on_lost)
      : index_(index), on_lost_(std::move(on_lost)) {}

  std::uint32_t index() const { return index_; }
  std::optional<Error> lost() const {
    const MutexLock lock(mutex_);
    return lost_;
  }
  // After this, no call reaches the GPU.
  void lose(const Error& error) {
    const Error named{error.code,
                      message_of(kernels::cuda::device_kind(), ":", index_, ": ", error.message)};
    {
      const MutexLock lock(mutex_);
      if (lost_) return;
      lost_ = named;
    }
    kernels::cuda::LostCard::lose(error);
    if (on_lost_) on_lost_(named);
  }

  static Error unanswered(std::chrono::milliseconds limit) {
    return Error::of(ErrorCode::kIo, "the GPU has not answered for ", limit.count(), " ms");
  }

  // Which errors of `calls` lose the card.
  enum class Loses {
    kWhereItFailed,  // failures of the GPU itself; not: too little memory, no such GPU, a bad file
    kAlways,         // any error: a step cannot go on without the call
  };
  template <typename Calls>
  Status ask(Loses loses, const Calls& calls) {
    return ask_driver(loses, [&]() -> Status {
      TRY_VOID(kernels::cuda::use_device(index_));
      return calls();
    });
  }
  // The same before it is known that such a GPU exists.
  template <typename Calls>
  Status ask_driver(Loses loses, const Calls& calls) {
    if (const auto error = lost()) return *error;
    const Status status = calls();
    if (!status.ok()) {
      if (loses == Loses::kWhereItFailed && !kernels::cuda::LostCard::lost()) return status;
      lose(status.error());
    }
    if (const auto error = lost()) return *error;
    return ok_status();
  }

 private:
  const std::uint32_t index_;
  const std::function<void(const Error&)> on_lost_;
  mutable Mutex mutex_;
  std::optional<Error> lost_ GUARDED_BY(mutex_);
};

}  // namespace hearth::node
