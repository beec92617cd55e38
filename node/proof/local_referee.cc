#include "node/proof/local_referee.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "node/proof/recompute.h"

namespace hearth::node {
namespace {

constexpr int kNiceness = 19;  // the least there is

}  // namespace

void LocalReferee::judge(ledger::RefereeCase request, Done done) {
  const bool taken =
      worker_.post([this, request = std::move(request), done] { compute(request, done); });
  if (taken) return;
  done(Error::of(ErrorCode::kUnavailable, kQueue, " requests wait for this server's referee"));
}

void LocalReferee::compute(const ledger::RefereeCase& request, const Done& done) const {
  auto found = compute(request);
  if (!worker_.stopping()) done(std::move(found));
}

Result<ledger::RefereeFinding> LocalReferee::compute(const ledger::RefereeCase& request) const {
  // Lowers the priority of this thread and of the threads that it will start.
  if (::setpriority(PRIO_PROCESS, 0, kNiceness) != 0) {
    spdlog::warn("cannot lower the referee's priority; it competes with the server");
  }
  RefereeOptions options;
  options.threads = std::max(1U, std::thread::hardware_concurrency() / 4);
  RecomputeEvents events;
  events.stopped = [this, until = request.until] {
    return worker_.stopping() || (until != 0 && SystemClock().unix_seconds() >= until);
  };
  TRY(const std::string model, file_of_(request.model));
  auto found = compute_case(model, request, options, events);
  if (!found && found.error().code == ErrorCode::kCancelled) {
    found = Error{ErrorCode::kTimeout, "the referee did not finish the recomputation in time"};
  }
  return found;
}

}  // namespace hearth::node
