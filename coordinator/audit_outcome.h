// The audits that a request asks for, and their outcome.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "ledger/policy.h"
#include "ledger/receipt.h"

namespace hearth::ledger {
class Books;
}

namespace hearth::coordinator {

// How an answer is to be verified. Draws do not depend on it (ledger/PROTOCOL.md, 4).
enum class Verify : std::uint8_t {
  kNone,  // only the draw's audits; the client gets no result
  kSpot,  // only the draw's audits; nodes of standing are preferred
  kFull,  // every window, placed likewise; the client gets the outcome
};

// A window of one stage that other nodes recomputed with the same result.
struct AuditedWindow {
  std::uint64_t entry = 0;  // of the log: its receipt
  std::uint32_t stage = 0;
  std::uint32_t window = 0;
  std::uint32_t others = 0;  // nodes
};

// Reads none, spot or full; nothing for any other text.
std::optional<Verify> verify_named(std::string_view name);
std::string_view verify_name(Verify verify);
// Reads the names of ledger::level_name().
std::optional<ledger::Level> level_named(std::string_view name);

// The last outcome of its request, unless a verdict is pending.
struct AuditOutcome {
  enum class Kind : std::uint8_t {
    kAgreed,     // all selected windows agree
    kDisputed,   // another node has another result for `entry`; not judged yet
    kFalse,      // judged: the result in `entry` is false
    kUnaudited,  // some windows could not be audited, and the others agree
  };
  Kind kind = Kind::kAgreed;
  ledger::RequestId request{};
  Epoch epoch;
  std::vector<AuditedWindow> windows = {};  // that agree
  // With kDisputed and kFalse: the first window that differs, and its node.
  std::uint64_t entry = 0;
  std::uint32_t stage = 0;
  std::uint32_t window = 0;
  std::string node = {};
  bool awaits_verdict = false;  // with kDisputed: the referee is judging
  bool is_last() const { return kind != Kind::kDisputed || !awaits_verdict; }
  // With kFalse: the true answer from its first token on. With is_cut it ends at the first
  // differing token, because the rest could not be computed.
  std::vector<TokenId> answer = {};
  bool is_cut = false;
  std::string why = {};  // of kUnaudited
};

// The standing of one node, by the log.
struct NodeStanding {
  ledger::Level level = ledger::Level::kNewcomer;
  std::int64_t audited_right = 0;
  std::int64_t faults = 0;  // that still count
  bool is_tombstoned = false;
  std::uint32_t disputes = 0;  // open ones that it is a party of
  // A newcomer's progress: windows checked, on how many days, and since when (unix seconds).
  std::int64_t checks = 0;
  std::int64_t check_days = 0;
  std::int64_t joined = 0;
  friend bool operator==(const NodeStanding&, const NodeStanding&) = default;
};
using Standings = std::map<PublicKey, NodeStanding>;
Standings standings_of(const ledger::Books& books);  // of all members of the log

}  // namespace hearth::coordinator
