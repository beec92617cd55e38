#include "cli/process/spawn.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace hearth::cli {
namespace {

// Uses only calls that are allowed between fork and exec in a process with threads.
[[noreturn]] void become(const char* program, char* const* arguments, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent had ended before the line above took effect
  dup2(log, STDERR_FILENO);
  dup2(log, STDOUT_FILENO);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (syscall(SYS_close_range, 3U, ~0U, 0U) != 0) {
    for (int descriptor = 3; descriptor < 65'536; ++descriptor) close(descriptor);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program, arguments);
  for (const char* text : {"cannot run ", program, "\n"}) (void)!write(2, text, std::strlen(text));
  _exit(127);
}

// This program's path. Without /proc, as in some containers, the name with which it was started.
const char* own_program() {
  constexpr const char* kSelf = "/proc/self/exe";
  const auto* started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return access(kSelf, X_OK) == 0 || started == nullptr ? kSelf : started;
}

// With which status the process ended; nothing: the system does not say.
std::optional<int> wait_for(pid_t process) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(process, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == process ? std::optional(status) : std::nullopt;
}

}  // namespace

Result<std::pair<pid_t, int>> spawn(const ChildSpec& spec) {
  const char* program = spec.program.empty() ? own_program() : spec.program.c_str();
  std::vector<std::string> all = {spec.program.empty() ? "hearth" : spec.program};
  all.insert(all.end(), spec.words.begin(), spec.words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return Error::of(ErrorCode::kIo, "cannot make a pipe for a process: ", std::strerror(errno));
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(program, arguments.data(), pipe_ends[1], parent);
  close(pipe_ends[1]);
  if (child < 0) {
    close(pipe_ends[0]);
    return Error::of(ErrorCode::kIo, "cannot start a process: ", std::strerror(errno));
  }
  return std::pair(child, pipe_ends[0]);
}

Result<std::unique_ptr<Capture>> Capture::start(const std::vector<std::string>& words) {
  TRY(const auto spawned, spawn({"", words}));
  return std::unique_ptr<Capture>(new Capture(spawned.first, spawned.second));
}

Capture::~Capture() {
  close(output_);
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  wait_for(process_);
}

int Capture::end() {
  INVARIANT(process_ != 0, "a process ends once");
  const std::optional<int> status = wait_for(std::exchange(process_, 0));
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
}

}  // namespace hearth::cli
