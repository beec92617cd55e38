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
    default: return kExitFailed;
  }
}

int succeed(const std::string& result) {
  std::printf("%s\n", result.c_str());
  return kExitDone;
}

int fail(const Error& error) {
  // Text from a file or a server must not control the terminal.
  std::fprintf(stderr, "hearth: %s\n", escape_lines(error.message).c_str());
  return exit_code(error.code);
}

int finish_output(int code) {
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost || code != kExitDone) return code;
  return fail({ErrorCode::kIo,
               "cannot write to standard output, so the result is incomplete; free space "
               "there, or name another file"});
}

int misused(const Error& error) {
  fail(error);
  return kExitUsage;
}

}  // namespace hearth::cli
