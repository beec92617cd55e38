// LedgerSummary: standings, audits and balances of the books, for people. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "ledger/books.h"

namespace hearth::coordinator {

struct MemberSummary {
  PublicKey key;
  std::string level;  // ledger::level_name(); "ended": banned after fraud or equivocation
  std::int64_t balance = 0;
  std::int64_t escrow = 0;
  std::int64_t served = 0;         // windows
  std::int64_t audited_right = 0;  // windows
  std::int64_t faults = 0;         // that count
  std::int64_t audit_rate_ppm = 0;
  std::int64_t checks = 0;       // a newcomer's right audits
  std::int64_t check_days = 0;   // a newcomer's days with such audits
  std::uint64_t in_dispute = 0;  // windows
  std::uint64_t unjudged = 0;    // disputes that ended without a verdict
};

// An account of an API key, or of a machine that only sends prompts.
struct PayerSummary {
  PublicKey key;
  std::int64_t balance = 0;
};

struct LedgerSummary {
  static constexpr std::size_t kPayers = 100;

  PublicKey cluster;  // zeros: the log is empty
  std::uint64_t entries = 0;
  std::int64_t time = 0;  // of the latest entry, unix seconds
  ledger::AuditCounts audits;
  std::uint64_t open_disputes = 0;  // windows
  std::vector<MemberSummary> members;
  std::vector<PayerSummary> payers;  // the largest accounts, at most kPayers
  std::size_t payers_total = 0;
};

LedgerSummary summary_of(const ledger::Books& books);

}  // namespace hearth::coordinator
