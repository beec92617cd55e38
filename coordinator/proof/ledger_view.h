// LedgerView: the API's view of its server's ledger. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "coordinator/proof/ledger_summary.h"

namespace hearth::coordinator {

class LedgerView {
 public:
  virtual ~LedgerView() = default;
  // Why logging stopped, so that answers have no receipts; empty: it runs.
  virtual std::string fault() const = 0;
  // The log's time (ledger_clock.h), by which receipts are named; nothing: the wall clock's.
  virtual std::optional<std::int64_t> time() const { return std::nullopt; }
  // Free bytes of the log's disk; nothing: unknown.
  virtual std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }
  // The books as of the latest entry. `done` is called on any thread, or never when the ledger ends
  // before.
  virtual void summarise(std::function<void(const LedgerSummary& summary)> done) const {
    done(LedgerSummary());
  }
};

}  // namespace hearth::coordinator
