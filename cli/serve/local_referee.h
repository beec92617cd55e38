// LocalReferee: computes a request in dispute again on the processor of this machine, with its own
// copy of the model (coordinator/proof/referee.h). Nothing is loaded before it is asked, and
// nothing is kept when it has answered: cases are rare, and memory is the workers'. One case at a
// time, on threads of its own, a quarter of the cores, that yield to whatever else the machine
// computes.
//
// Threads: judge() may be called from any; `done` comes on the referee's own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "coordinator/proof/referee.h"

namespace hearth::cli {

class LocalReferee {
 public:
  static constexpr std::size_t kQueue = 4;  // cases that wait

  // `model`: the file that is served.
  explicit LocalReferee(std::string model) : model_(std::move(model)) {}
  // What is being computed is given up; nobody hears of it.
  ~LocalReferee();

  using Done = std::function<void(Result<coordinator::RefereeFinding>)>;
  // kUnavailable when kQueue cases wait already, or the model cannot be computed here; kTimeout
  // when the case's time is up.
  void judge(coordinator::RefereeCase request, Done done);

 private:
  void run();

  const std::string model_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<coordinator::RefereeCase, Done>> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // from the first case on
};

// The same on the caller's thread. kCancelled once `stopped` says so; kUnavailable where the model
// has no room here, or is another one than the case's.
Result<coordinator::RefereeFinding> compute_case(const std::string& model,
                                                 const coordinator::RefereeCase& request,
                                                 const std::function<bool()>& stopped);

}  // namespace hearth::cli
