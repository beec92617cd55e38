// LostCard: ensures that a failed GPU is not called again, because CUDA answers every later call
// with the same error or not at all. All calls of runtime.h, including those that free memory,
// check here before they reach the GPU and report its result here. So owners of GPU objects need no
// check of their own. There is one for all GPUs of a process, because the process then ends. Any
// thread.
#pragma once

#include <mutex>
#include <optional>

#include "base/result.h"

namespace hearth::kernels::cuda {

class LostCard {
 public:
  // The error that lost the card; ok while none is lost.
  static Status status() {
    const std::lock_guard lock(mutex_);
    return error_ ? Status(*error_) : ok_status();
  }
  static bool lost() { return !status().ok(); }
  // The first error stays.
  static void lose(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  // Marks the GPU as lost after a fatal error; returns the status unchanged.
  static Status heard(Status answer) {
    if (!answer.ok() && answer.error().code == ErrorCode::kIo) lose(answer.error());
    return answer;
  }
  // For tests, whose emulated GPU can be reset.
  static void forget() {
    const std::lock_guard lock(mutex_);
    error_.reset();
  }

 private:
  static inline std::mutex mutex_;
  static inline std::optional<Error> error_;
};

}  // namespace hearth::kernels::cuda
