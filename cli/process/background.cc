#include "cli/process/background.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kReportBytes = 4'096;
constexpr int kSignalled = 128;  // a shell's exit code of a process that a signal ended

int report_to = -1;

[[noreturn]] void wait_for_report(pid_t child, int from) {
  std::array<char, kReportBytes> text{};
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(from, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > 0) {
    std::fwrite(text.data(), 1, size, stderr);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status));
}

}  // namespace

Status go_to_background() {
  INVARIANT(report_to < 0, "a process goes to the background once");
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error::of(ErrorCode::kIo, "--detach: cannot create a pipe: ", std::strerror(errno));
  }
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Error::of(ErrorCode::kIo, "--detach: cannot start a process: ", std::strerror(errno));
  }
  if (child > 0) {
    ::close(ends[1]);
    wait_for_report(child, ends[0]);
  }
  ::close(ends[0]);
  report_to = ends[1];
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) return Error{ErrorCode::kCancelled, "interrupted"};
  return ok_status();
}

void report_ready(const std::string& text) {
  const int to = std::exchange(report_to, -1);
  if (to < 0) return;
  ::prctl(PR_SET_PDEATHSIG, 0);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, each);
  if (nothing > STDERR_FILENO) ::close(nothing);
  const std::string line = text.substr(0, kReportBytes - 1) + "\n";
  if (::write(to, line.data(), line.size()) < 0) {
    // The parent has ended, so the report has no reader.
  }
  ::close(to);
}

}  // namespace hearth::cli
