// Result<T>: a value or an Error, returned by everything that can fail on input or environment.
// No exceptions cross a public function; libraries that throw are wrapped where they are called.
//
//   Result<Header> parse(ByteSpan bytes);
//   TRY(Header header, parse(bytes));        // returns the error to our own caller
//   TRY_VOID(check(header));
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace hearth {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    INVARIANT(ok(), "value() of an error");
    return std::get<0>(state_);
  }
  const T& value() const& {
    INVARIANT(ok(), "value() of an error");
    return std::get<0>(state_);
  }
  T&& value() && {
    INVARIANT(ok(), "value() of an error");
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

  const Error& error() const& {
    INVARIANT(!ok(), "error() of a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    INVARIANT(!ok(), "error() of a value");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;
inline Status ok_status() { return Done{}; }

}  // namespace hearth

#define HEARTH_CONCAT_(a, b) a##b
#define HEARTH_CONCAT(a, b) HEARTH_CONCAT_(a, b)

// TRY(declaration, expression): declares from the value, or returns the error.
#define TRY(declaration, ...)                                       \
  auto HEARTH_CONCAT(try_result_, __LINE__) = (__VA_ARGS__);        \
  if (!HEARTH_CONCAT(try_result_, __LINE__).ok())                   \
    return std::move(HEARTH_CONCAT(try_result_, __LINE__)).error(); \
  declaration = std::move(HEARTH_CONCAT(try_result_, __LINE__)).value()

#define TRY_VOID(...)                                             \
  do {                                                            \
    auto try_status_ = (__VA_ARGS__);                             \
    if (!try_status_.ok()) return std::move(try_status_).error(); \
  } while (0)

// REQUIRE(condition, message...): input that breaks a rule becomes a typed error, never an abort.
// The message is in parts, as message_of() takes them, and is evaluated only on failure.
#define REQUIRE(condition, ...)                                     \
  do {                                                              \
    if (!(condition)) return ::hearth::Error::invalid(__VA_ARGS__); \
  } while (0)
