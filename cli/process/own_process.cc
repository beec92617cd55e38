#include "cli/process/own_process.h"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "cli/process/service_manager.h"
#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kFreeBytes = 64 * limits::kMiB;  // then some is given back

constexpr const char* kAdvice =
    "close other programs, or raise the limits of this process (ulimit -v, -u and -n; TasksMax and "
    "MemoryMax of systemd; --pids-limit and --memory of a container)";

// Allocates nothing, because there may be no memory.
[[noreturn]] void lack(const char* what) {
  std::fprintf(stderr,
               "hearth: the system gives this process no more memory, threads or files: %s; %s\n",
               what, kAdvice);
  _exit(kExitNoCapacity);
}

bool is_lack(const std::exception& error) {
  int code = 0;
  if (const auto* own = dynamic_cast<const std::system_error*>(&error)) code = own->code().value();
  if (const auto* boosts = dynamic_cast<const boost::system::system_error*>(&error)) {
    code = boosts->code().value();
  }
  return code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE || code == ENOBUFS;
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      lack("no memory is left");
    } catch (const std::exception& error) {
      if (is_lack(error)) lack(error.what());
      std::fprintf(stderr, "hearth: a fault of this program: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "hearth: a fault of this program\n");
    }
  }
  std::abort();
}

Status open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return ok_status();
  const rlim_t wanted = std::min<rlim_t>(files.rlim_max, limits::kDescriptors);
  if (files.rlim_cur < wanted) {
    files.rlim_cur = wanted;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur >= limits::kDescriptorsLeast) return ok_status();
  return Error::of(ErrorCode::kNoCapacity, "this process may open ", std::uint64_t{files.rlim_cur},
                   " files and connections; it needs ", limits::kDescriptorsLeast,
                   " or more: ulimit -n (LimitNOFILE of systemd)");
}

Status try_threads() {
  std::latch tried(1);
  std::vector<std::jthread> threads;
  Status status = ok_status();
  try {
    while (threads.size() < limits::kThreadsLeast) {
      threads.emplace_back([&tried] { tried.wait(); });
    }
  } catch (const std::system_error& error) {
    status = Error::of(ErrorCode::kNoCapacity, "this process can start ", threads.size(),
                       " threads; it needs ", limits::kThreadsLeast, " or more: ", error.what(),
                       "; ", kAdvice);
  }
  tried.count_down();
  return status;
}

}  // namespace

void explain_lack() { std::set_terminate(on_terminate); }

Status prepare_service() {
  find_service_manager();
  const rlimit no_core{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &no_core);
  // The core limit does not apply to a core that is piped to a program.
  (void)::prctl(PR_SET_DUMPABLE, 0);
  TRY_VOID(open_files());
  return try_threads();
}

void return_free_memory() {
  if (::mallinfo2().fordblks >= kFreeBytes) ::malloc_trim(0);
}

}  // namespace hearth::cli
