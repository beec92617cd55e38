#include "node/proof/local_referee.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "node/proof/recompute.h"

namespace hearth::node {
namespace {

constexpr int kNiceness = 19;  // the least there is

}  // namespace

LocalReferee::~LocalReferee() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LocalReferee::judge(ledger::RefereeCase request, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < kQueue) {
      waiting_.emplace_back(std::move(request), std::move(done));
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      wake_.notify_one();
      return;
    }
  }
  done(Error{ErrorCode::kUnavailable,
             std::to_string(kQueue) + " requests wait for this server's referee"});
}

void LocalReferee::run() {
  // Of this thread, and of those that it will start.
  if (::setpriority(PRIO_PROCESS, 0, kNiceness) != 0) {
    spdlog::warn("the referee computes at the priority of the server");
  }
  const auto stopped = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    auto [request, done] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const std::int64_t until = request.until;
    const auto late = [until] { return until != 0 && SystemClock().unix_seconds() >= until; };
    RefereeOptions options;
    options.threads = std::max(1U, std::thread::hardware_concurrency() / 4);
    RecomputeEvents events;
    events.stopped = [&] { return stopped() || late(); };
    auto found = compute_case(model_, request, options, events);
    if (!found && found.error().code == ErrorCode::kCancelled) {
      found = Error{ErrorCode::kTimeout, "this machine does not compute it in time"};
    }
    if (!stopped()) done(std::move(found));
    lock.lock();
  }
}

}  // namespace hearth::node
