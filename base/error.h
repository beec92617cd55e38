// Typed errors. A separate code exists only where some caller reacts to it differently.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace hearth {

enum class ErrorCode {
  kInvalidInput,  // bytes or fields that break a format or a limit; the message names both
  kNotFound,      // a file, model or id that does not exist
  kUnavailable,   // a peer or pipeline that is not there now; trying again may help
  kNoCapacity,    // queue, KV pool or memory budget is full
  kCancelled,     // stopped because somebody asked for it
  kTimeout,       // a deadline passed
  kVersion,       // the two sides speak different protocol or canonical versions
  kIo,            // the operating system refused; the message carries errno's text
  kUnsupported,   // well-formed, but of a kind this build does not serve
  kNumeric,       // the canonical function left its range (overflow, NaN)
  kRefused,       // who asks may not: no credential, a wrong one, or one without this right
};

std::string_view error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidInput;
  std::string message;  // a sentence for a person: what is wrong, where, and the limit

  static Error invalid(std::string message) {
    return {ErrorCode::kInvalidInput, std::move(message)};
  }
};

}  // namespace hearth
