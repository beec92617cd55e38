#include "coordinator/http/openai/errors.h"

#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {

ApiError ApiError::invalid(std::string message, std::optional<std::string> param,
                           std::string code) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

ApiError ApiError::not_found(std::string message, std::string code) {
  ApiError error = invalid(std::move(message), std::nullopt, std::move(code));
  error.status = 404;
  error.type = "not_found_error";
  return error;
}

ApiError ApiError::not_supported(std::string message, std::string param, std::string code) {
  ApiError error = invalid(std::move(message), std::move(param), std::move(code));
  error.type = "not_supported_error";
  return error;
}

ApiError from_coordinator(const Error& error, std::uint32_t retry_after) {
  ApiError out;
  out.message = error.message;
  switch (error.code) {
    case ErrorCode::kInvalidInput: out.code = "invalid_value"; break;
    case ErrorCode::kUnavailable:
      out.status = 503;
      out.type = "unavailable_error";
      out.code = "no_pipeline";
      out.retry_after = retry_after;
      break;
    case ErrorCode::kNoCapacity:
      out.status = 429;
      out.type = "rate_limit_error";
      out.code = "rate_limit_exceeded";
      out.retry_after = retry_after;
      break;
    case ErrorCode::kRefused:
      out.status = 403;
      out.type = "permission_error";
      out.code = "outside_trust_set";
      break;
    case ErrorCode::kTimeout:
      out.status = 504;
      out.type = "unavailable_error";
      out.code = "timeout";
      break;
    case ErrorCode::kUnsupported:
      out.type = "not_supported_error";
      out.code = "unsupported_value";
      break;
    case ErrorCode::kNumeric:
      // The same prompt leaves the numeric range again: trying again cannot help.
      out.status = 500;
      out.type = "server_error";
      out.code = "numeric_range";
      out.final = true;
      break;
    default:
      out.status = 500;
      out.type = "server_error";
      out.code = std::string(error_code_name(error.code));
      break;
  }
  return out;
}

ApiError out_of_credit(std::string message) {
  ApiError error = ApiError::invalid(std::move(message), std::nullopt, "insufficient_quota");
  error.status = 429;
  error.type = "insufficient_quota";
  error.final = true;
  return error;
}

std::string error_body(const ApiError& error) {
  OrderedJson inner = {{"message", error.message}, {"type", error.type}};
  inner["param"] = error.param ? OrderedJson(*error.param) : OrderedJson(nullptr);
  inner["code"] = error.code ? OrderedJson(*error.code) : OrderedJson(nullptr);
  OrderedJson body;
  body["error"] = std::move(inner);
  return dump(body);
}

}  // namespace hearth::coordinator::http
