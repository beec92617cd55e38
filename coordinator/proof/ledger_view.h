// LedgerView: what the API says of the ledger that its server keeps. Any thread.
#pragma once

#include <string>

namespace hearth::coordinator {

class LedgerView {
 public:
  virtual ~LedgerView() = default;
  // Why nothing is logged any more, so that answers name no receipts; empty: all is well.
  virtual std::string fault() const = 0;
};

}  // namespace hearth::coordinator
