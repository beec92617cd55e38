// Resumption: what differs for a request that an earlier process began: its clients may have been
// told more than this process knows, and it waits for a pipeline instead of being refused. A plain
// state machine.
#pragma once

#include "base/clock.h"
#include "base/error.h"

namespace hearth::coordinator::http {

class Resumption {
 public:
  // An earlier process accepted the request; until `deadline` a refusal is no answer to it.
  void resume(TimePoint deadline) {
    resumed_ = told_elsewhere_ = true;
    deadline_ = deadline;
  }
  // A client shows an event of an answer that this process does not have yet.
  void told_elsewhere() { told_elsewhere_ = true; }

  bool resumed() const { return resumed_; }
  bool may_have_told_more() const { return told_elsewhere_; }
  // Whether the workers may still come back, or the queue have room again.
  bool may_retry(const Error& error, TimePoint now) const {
    const bool passes =
        error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNoCapacity;
    return resumed_ && passes && now < deadline_;
  }

 private:
  bool resumed_ = false;
  bool told_elsewhere_ = false;
  TimePoint deadline_{};
};

}  // namespace hearth::coordinator::http
