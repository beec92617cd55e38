#include "cli/exit_codes.h"

#include <cstdio>

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
  std::string text;
  for (const char c : error.message) {  // a file's or a server's words must not steer the terminal
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
    text += control ? '?' : c;
  }
  std::fprintf(stderr, "hearth: %s\n", text.c_str());
  return exit_code(error.code);
}

}  // namespace hearth::cli
