#include "base/error.h"

namespace hearth {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput: return "invalid_input";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kNoCapacity: return "no_capacity";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kVersion: return "version_mismatch";
    case ErrorCode::kIo: return "io_error";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNumeric: return "numeric_range";
    case ErrorCode::kRefused: return "refused";
  }
  return "unknown";
}

}  // namespace hearth
