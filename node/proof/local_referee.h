// LocalReferee: recomputes a request in dispute on this machine's processor, layer by layer from
// its own copy of the model (recompute.h). It loads the model for a case and frees it afterwards:
// cases are rare, and workers need the memory. It computes one case at a time, on its own
// low-priority threads, a quarter of the cores.
//
// Threads: judge() may be called from any; `done` comes on the referee's own.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/worker_thread.h"
#include "ledger/dispute/recompute.h"

namespace hearth::node {

class LocalReferee {
 public:
  static constexpr std::size_t kQueue = 4;  // cases that wait

  // `model`: the file that is served.
  explicit LocalReferee(const std::string& model)
      : LocalReferee([model](const Hash256& /*id*/) { return Result<std::string>(model); }) {}
  // `file_of`: the path of a model, by its manifest's id. Called on the referee's own thread.
  using FileOf = std::function<Result<std::string>(const Hash256& model)>;
  explicit LocalReferee(FileOf file_of) : file_of_(std::move(file_of)) {}
  // Cancels every unanswered case, without calling `done`.
  ~LocalReferee() { worker_.stop(); }

  using Done = std::function<void(Result<ledger::RefereeFinding>)>;
  // kUnavailable when kQueue cases wait already, or the model cannot be computed here; kTimeout
  // when the case's time is up.
  void judge(ledger::RefereeCase request, Done done);

 private:
  void compute(const ledger::RefereeCase& request, const Done& done) const;
  Result<ledger::RefereeFinding> compute(const ledger::RefereeCase& request) const;

  const FileOf file_of_;
  WorkerThread worker_{{.max_cost = kQueue + 1}};  // last: its tasks use the above
};

}  // namespace hearth::node
