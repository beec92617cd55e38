#include "coordinator/store/lease_watch.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "coordinator/store/place.h"

namespace hearth::coordinator {

TimePoint LeaseClock::now() const {
  timespec now{};
  const int failed = ::clock_gettime(CLOCK_BOOTTIME, &now);
  INVARIANT(failed == 0, "Linux has this clock");
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

LeaseWatch::LeaseWatch(const StoreUrl& url, const LeaseSelf& self, const LeaseTimes& times)
    : shown_(url.shown),
      id_(self.id),
      self_(self.peer),
      wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      store_(url, self, times.lease),
      candidate_(self.id, clock_, times) {}

LeaseWatch::~LeaseWatch() {
  {
    const MutexLock lock(mutex_);
    candidate_.release();
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<LeaseWatch>> LeaseWatch::start(const std::string& folder, std::string api,
                                                      std::string control, std::string cluster,
                                                      const LeaseTimes& times) {
  TRY(const auto url, read_store_url(folder));
  if (!url) return std::unique_ptr<LeaseWatch>();
  std::unique_ptr<LeaseWatch> watch(
      new LeaseWatch(*url, lease_self(std::move(api), std::move(control), cluster), times));
  if (!watch->wakes_.open()) {
    return Error{ErrorCode::kIo, "there is no file descriptor left for the lease's thread"};
  }
  TRY(LeaseView first, watch->store_.ask({}));
  if (!first.cluster.empty() && first.cluster != cluster) {
    return Error::of(ErrorCode::kRefused, "the store ", url->shown,
                     " belongs to coordinators with other keys than the folder ", folder,
                     "; copy cluster.key and node.key of the folder of ", first.leader.name,
                     " into this one");
  }
  {
    const MutexLock lock(watch->mutex_);
    watch->view_ = std::move(first);
  }
  watch->thread_ = std::thread([raw = watch.get()] { raw->run(); });
  return watch;
}

std::uint64_t LeaseWatch::led() const {
  const MutexLock lock(mutex_);
  return candidate_.leads() ? candidate_.epoch() : 0;
}

LeaseView LeaseWatch::view() const {
  const MutexLock lock(mutex_);
  LeaseView view = view_;
  view.left = candidate_.left();
  return view;
}

std::string LeaseWatch::away() const {
  const MutexLock lock(mutex_);
  return away_;
}

void LeaseWatch::give_back() {
  {
    const MutexLock lock(mutex_);
    candidate_.give_back();
  }
  wake();
}

void LeaseWatch::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(*wakes_, &one, sizeof one));
}

void LeaseWatch::run() {
  while (turn()) {
  }
}

// Following it would readmit nodes that were removed since.
Error LeaseWatch::older_copy(const LeaseView& view) const {
  return Error::of(ErrorCode::kUnavailable, "the store ", shown_,
                   " was replaced by an older copy (lease ", view.epoch, "; there was ",
                   candidate_.newest(),
                   "); put the newest copy back, or, to go on with this one, restart all "
                   "coordinators");
}

// One question, or one wait. False: the last one is answered.
bool LeaseWatch::turn() {
  std::optional<LeaseQuestion> question;
  TimePoint wake{};
  {
    const MutexLock lock(mutex_);
    question = candidate_.next();
    wake = candidate_.wake_at();
  }
  if (!question) {
    wait(wake);
    return true;
  }
  // Without the mutex: led() answers while the store does not.
  auto answer = store_.ask(*question);
  const MutexLock lock(mutex_);
  if (answer.ok() && answer->epoch < candidate_.newest()) answer = older_copy(*answer);
  candidate_.on_answer(answer);
  if (!answer.ok() && away_.empty()) spdlog::warn("the lease: {}", answer.error().message);
  away_ = answer.ok() ? "" : answer.error().message;
  if (answer.ok()) {
    view_ = *std::move(answer);
  }
  return !candidate_.is_over();
}

void LeaseWatch::wait(TimePoint wake) {
  const Duration left = std::max(wake - clock_.now(), Duration(0));
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  std::array<pollfd, 2> either = {pollfd{*wakes_, POLLIN, 0}, pollfd{store_.socket(), POLLIN, 0}};
  ::poll(either.data(), either.size(), static_cast<int>(most));
  std::uint64_t ignored = 0;
  static_cast<void>(!::read(*wakes_, &ignored, sizeof ignored));
  if (either[1].revents == 0) return;
  const MutexLock lock(mutex_);
  candidate_.on_notice();
}

}  // namespace hearth::coordinator
