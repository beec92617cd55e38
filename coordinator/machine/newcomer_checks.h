// NewcomerChecks: submits canaries for newcomers to check (ledger/PROTOCOL.md, 4), and explains
// what a newcomer waits for.
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

  // Submits due canaries while newcomers can check them.
  void on_timer();
  // A client's request was admitted; canaries imitate it.
  void saw(const GenerateRequest& request);
  // One sentence for people: what a newcomer does or waits for. Empty for other nodes.
  std::string describe(const NodeStatus& node) const;
  std::uint64_t total() const { return total_; }

 private:
  Canaries canaries_;
  std::uint64_t total_ = 0;
};

// A newcomer's progress by the log, "12 of 100 windows, on 2 of 3 days". Without a standing: no
// windows yet.
std::string dues_text(const std::optional<NodeStanding>& standing);

}  // namespace hearth::coordinator
