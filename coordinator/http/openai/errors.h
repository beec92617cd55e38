// ApiError: an error as an HTTP client gets it: {"error":{message,type,param,code}}, all four keys
// present, `code` a string or null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/result.h"

namespace hearth::coordinator::http {

struct ApiError {
  unsigned status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::optional<std::string> param;  // the field that is wrong
  std::optional<std::string> code;
  std::optional<std::uint32_t> retry_after = {};  // seconds, 1 to 3600
  bool final = false;                             // adds x-should-retry: false

  static ApiError invalid(std::string message, std::optional<std::string> param = std::nullopt,
                          std::string code = "invalid_value");
  static ApiError not_found(std::string message, std::string code);
  static ApiError of(unsigned status, std::string message, std::string code,
                     std::string type = "invalid_request_error");
  static ApiError not_supported(std::string message, std::string param,
                                std::string code = "unsupported_value");
};

// The error of a coordinator, as a table maps it. `retry_after`: the predicted wait in seconds.
// `code`: the error's own, instead of the table's.
ApiError from_coordinator(const Error& error, std::uint32_t retry_after,
                          const char* code = nullptr);
std::string error_body(const ApiError& error);  // JSON

// A value or an ApiError; TRY works with it.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT
  ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  bool ok() const { return state_.index() == 0; }
  T& operator*() { return checked(); }
  T* operator->() { return &checked(); }
  T&& value() && { return std::move(checked()); }
  const ApiError& error() const {
    INVARIANT(!ok(), "error() of a value");
    return std::get<1>(state_);
  }

 private:
  T& checked() {
    INVARIANT(ok(), "value of an error");
    return std::get<0>(state_);
  }
  std::variant<T, ApiError> state_;
};

}  // namespace hearth::coordinator::http
