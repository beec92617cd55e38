#include "node/machine/machine_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <thread>

namespace hearth::node {
namespace {

constexpr std::chrono::milliseconds kLook{20};

}  // namespace

MachineTurn::MachineTurn(const std::filesystem::path& file, Duration limit,
                         const std::function<bool()>& cancelled) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  file_ = Descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.open()) return;
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!cancelled() && std::chrono::steady_clock::now() < until) {
    held_ = ::flock(*file_, LOCK_EX | LOCK_NB) == 0;
    if (held_) return;
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace hearth::node
