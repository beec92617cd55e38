// NewcomerChecks: the requests that the coordinator makes itself so that newcomers have something
// to check (Canaries, ledger/PROTOCOL.md section 4), and what a newcomer waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/random.h"
#include "coordinator/machine/canaries.h"
#include "coordinator/machine/machine_parts.h"
#include "ledger/policy.h"

namespace hearth::coordinator {

class NewcomerChecks : MachineParts {
 public:
  // `random` outlives this object.
  NewcomerChecks(const MachineParts& parts, Random& random)
      : MachineParts(parts),
        canaries_(options_.canary_words, options_.shape, ledger::Policy().canary_rate, random) {}

  // Submits the canaries that are due, while there are newcomers to check them.
  void on_timer();
  // A client's request was admitted: canaries look like those.
  void saw(const GenerateRequest& request);
  // One sentence for people: what a newcomer does or waits for. Empty for other nodes.
  std::string describe(const NodeStatus& node) const;
  std::uint64_t total() const { return total_; }

 private:
  Canaries canaries_;
  std::uint64_t total_ = 0;
};

// "12 of 100 windows, on 2 of 3 days" of the dues that the log shows; nothing there: none yet.
std::string dues_text(const std::optional<NodeStanding>& standing);

}  // namespace hearth::coordinator
