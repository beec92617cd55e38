// hearth verify --re-execute: a saved answer computed again from a model file of this machine, and
// compared with its receipts (recompute.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/ledger/recompute.h"
#include "cli/saved_answer.h"
#include "ledger/receipt.h"

namespace hearth::cli {

struct ReexecuteOptions {
  std::string model;               // a file or a pulled name; empty: as the request names it
  std::uint32_t threads = 0;       // 0: all cores
  std::uint64_t memory_bytes = 0;  // 0: what the machine has available
  std::string device = "auto";     // cli/worker/device.h
};

struct Reexecuted {
  std::optional<Difference> difference;  // nothing: all of it is proved
  std::uint32_t choices = 0;
  std::uint64_t positions = 0;  // of receipts; as many were computed, or twice where one differs
  double seconds = 0.0;
};

// `receipts`: all of the answer, as ledger::check_receipts() gives them; at least one.
Result<Reexecuted> reexecute(const ReexecuteOptions& options, const SavedAnswer& saved,
                             const std::vector<ledger::Receipt>& receipts);

}  // namespace hearth::cli
