// LostCard: a card that has failed is never spoken to again, for CUDA answers every later call with
// the same error, or worse, does not. All calls of runtime.h ask here before they reach the card
// and say here what it answered, those that free memory included; so nothing that holds something
// of a card needs to know. One for all cards of a process, since the process is to end. Any thread.
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
  // An error that the card does not outlive loses it; the status is handed on.
  static Status heard(Status answer) {
    if (!answer.ok() && answer.error().code == ErrorCode::kIo) lose(answer.error());
    return answer;
  }
  // For tests, whose emulated card can be as new.
  static void forget() {
    const std::lock_guard lock(mutex_);
    error_.reset();
  }

 private:
  static inline std::mutex mutex_;
  static inline std::optional<Error> error_;
};

}  // namespace hearth::kernels::cuda
