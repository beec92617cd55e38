#include "cli/terminal/exit_codes.h"

#include <cstdio>

#include "cli/terminal/escape.h"

namespace hearth::cli {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable: return kExitUnreachable;
    case ErrorCode::kNoCapacity: return kExitNoCapacity;
    case ErrorCode::kCancelled: return kExitInterrupted;
    case ErrorCode::kTimeout: return kExitTimeout;
    case ErrorCode::kRefused: return kExitRefused;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
    case ErrorCode::kVersion:
    case ErrorCode::kIo:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNumeric: return kExitFailed;
  }
  return kExitFailed;
}

int fail(const Error& error) {
  // A file's or a server's words must not steer the terminal.
  std::fprintf(stderr, "hearth: %s\n", escape_lines(error.message).c_str());
  return exit_code(error.code);
}

}  // namespace hearth::cli
