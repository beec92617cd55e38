// LedgerView: what the API says of the ledger that its server keeps. Any thread.
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
  // Why nothing is logged any more, so that answers name no receipts; empty: all is well.
  virtual std::string fault() const = 0;
  // The log's time (ledger_clock.h), by which receipts are named; nothing: that of the wall clock.
  virtual std::optional<std::int64_t> time() const { return std::nullopt; }
  // Of the disk that has the log; nothing: unknown.
  virtual std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }
  // The books as of the latest entry. `done` is called on any thread, and not at all where the
  // ledger ends before.
  virtual void summarise(std::function<void(const LedgerSummary& summary)> done) const {
    done(LedgerSummary());
  }
};

}  // namespace hearth::coordinator
