#include "coordinator/http/openai/errors.h"

#include <algorithm>
#include <array>

#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {
namespace {

enum class Retry : std::uint8_t {
  kUnsaid,        // the client decides
  kAfterTheWait,  // Retry-After: the predicted wait
  kNever,         // x-should-retry: false; the same request fails again
};

// A row maps an error of the coordinator to an HTTP error. Every other error becomes a 500.
struct ErrorRow {
  ErrorCode error;
  unsigned status;
  const char* type;
  const char* code;
  Retry retry;
};

constexpr std::array kRows = {
    ErrorRow{ErrorCode::kInvalidInput, 400, "invalid_request_error", "invalid_value",
             Retry::kUnsaid},
    ErrorRow{ErrorCode::kUnsupported, 400, "not_supported_error", "unsupported_value",
             Retry::kUnsaid},
    ErrorRow{ErrorCode::kRefused, 403, "permission_error", "outside_trust_set", Retry::kUnsaid},
    ErrorRow{ErrorCode::kNoCapacity, 429, "rate_limit_error", "rate_limit_exceeded",
             Retry::kAfterTheWait},
    ErrorRow{ErrorCode::kNumeric, 500, "server_error", "numeric_range", Retry::kNever},
    ErrorRow{ErrorCode::kUnavailable, 503, "unavailable_error", "no_pipeline",
             Retry::kAfterTheWait},
    ErrorRow{ErrorCode::kTimeout, 504, "unavailable_error", "timeout", Retry::kUnsaid},
};

}  // namespace

ApiError ApiError::invalid(std::string message, std::optional<std::string> param,
                           std::string code) {
  return {400, "invalid_request_error", std::move(message), std::move(param), std::move(code)};
}

ApiError ApiError::not_found(std::string message, std::string code) {
  return of(404, std::move(message), std::move(code), "not_found_error");
}

ApiError ApiError::of(unsigned status, std::string message, std::string code, std::string type) {
  return {status, std::move(type), std::move(message), std::nullopt, std::move(code)};
}

ApiError ApiError::not_supported(std::string message, std::string param, std::string code) {
  ApiError error = invalid(std::move(message), std::move(param), std::move(code));
  error.type = "not_supported_error";
  return error;
}

ApiError from_coordinator(const Error& error, std::uint32_t retry_after, const char* code) {
  ApiError out;
  out.message = error.message;
  const auto row = std::ranges::find(kRows, error.code, &ErrorRow::error);
  if (row == kRows.end()) {
    out.status = 500;
    out.type = "server_error";
    out.code = std::string(error_code_name(error.code));
    return out;
  }
  out.status = row->status;
  out.type = row->type;
  out.code = code != nullptr ? code : row->code;
  if (row->retry == Retry::kAfterTheWait) out.retry_after = retry_after;
  out.final = row->retry == Retry::kNever;
  return out;
}

std::string error_body(const ApiError& error) {
  OrderedJson inner = {{"message", error.message}, {"type", error.type}};
  inner["param"] = error.param ? OrderedJson(*error.param) : OrderedJson(nullptr);
  inner["code"] = error.code ? OrderedJson(*error.code) : OrderedJson(nullptr);
  return dump(OrderedJson{{"error", std::move(inner)}});
}

}  // namespace hearth::coordinator::http
