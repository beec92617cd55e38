// Exit codes of every verb. Results go to stdout, progress and errors to stderr; the last line of
// an error says what to do.
#pragma once

#include <string>

#include "base/error.h"

namespace hearth::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;  // no server there
inline constexpr int kExitNoCapacity = 4;   // no pipeline, or the queue is full
inline constexpr int kExitRefused = 5;
inline constexpr int kExitVerification = 6;
inline constexpr int kExitDevice = 7;  // the card failed or stopped answering; a new process may do
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitInterrupted = 130;  // Ctrl-C

int exit_code(ErrorCode code);
// Prints a result and a line break on stdout, and returns kExitDone.
int succeed(const std::string& result);
// Prints "hearth: message" on stderr and returns the exit code.
int fail(const Error& error);
int misused(const Error& error);  // the same, and kExitUsage
// Flushes stdout. kExitDone becomes kExitFailed, with a sentence on stderr, when anything that was
// written there since the start was lost.
int finish_output(int code);

}  // namespace hearth::cli
