// Typed errors. A separate code exists only where some caller reacts to it differently.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace hearth {

enum class ErrorCode {
  kInvalidInput,  // bytes or fields that break a format or a limit; the message names both
  kNotFound,      // a file, model or id that does not exist
  kUnavailable,   // a peer or pipeline that is not there now; a retry may help
  kNoCapacity,    // queue, KV pool or memory budget is full
  kCancelled,     // stopped on request
  kTimeout,       // a deadline passed
  kVersion,       // the two sides speak different protocol or canonical versions
  kIo,            // the operating system refused; the message carries errno's text
  kUnsupported,   // well-formed, but of a kind this build does not serve
  kNumeric,       // the canonical function left its range (overflow, NaN)
  kRefused,       // unauthenticated or not permitted
};

std::string_view error_code_name(ErrorCode code);

// The parts one after the other: text as it is, numbers in decimal.
template <typename... Parts>
std::string message_of(const Parts&... parts) {
  const auto written = []<typename Part>(const Part& part) {
    static_assert(!std::is_same_v<Part, char>, "a character is no number");
    if constexpr (std::is_arithmetic_v<Part>) {
      return std::to_string(part);
    } else {
      return std::string_view(part);
    }
  };
  std::string message;
  ((message += written(parts)), ...);
  return message;
}

struct Error {
  ErrorCode code = ErrorCode::kInvalidInput;
  std::string message;  // a sentence for a person: what is wrong, where, and the limit

  // The message in parts, as message_of() takes them.
  template <typename... Parts>
  static Error of(ErrorCode code, const Parts&... message) {
    return {code, message_of(message...)};
  }
  template <typename... Parts>
  static Error invalid(const Parts&... message) {
    return of(ErrorCode::kInvalidInput, message...);
  }
};

}  // namespace hearth
