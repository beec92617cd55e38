// What a request asks of audits, and what came of those of one request.
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

// How an answer is to be verified. Draws do not know of it (ledger/PROTOCOL.md, 4).
enum class Verify : std::uint8_t {
  kNone,  // as the draw says, and the client is not told
  kSpot,  // as the draw says; placed on nodes of standing where there is a choice
  kFull,  // every window besides, placed likewise, and who asked is told what came of it
};

// A window of one stage that others computed again with the same result.
struct AuditedWindow {
  std::uint64_t entry = 0;  // of the log: its receipt
  std::uint32_t stage = 0;
  std::uint32_t window = 0;
  std::uint32_t others = 0;  // nodes
};

// none, spot, full; nothing for other words.
std::optional<Verify> verify_named(std::string_view name);
std::string_view verify_name(Verify verify);
// As ledger::level_name() says it.
std::optional<ledger::Level> level_named(std::string_view name);

// The last of its request, unless it waits for a verdict.
struct AuditOutcome {
  enum class Kind : std::uint8_t {
    kAgreed,     // all windows that were to be audited
    kDisputed,   // another node has another result for `entry`; not judged yet
    kFalse,      // judged: that of `entry` is false
    kUnaudited,  // not all windows could be, and none differs
  };
  Kind kind = Kind::kAgreed;
  ledger::RequestId request{};
  Epoch epoch;
  std::vector<AuditedWindow> windows = {};  // that agree
  // Of kDisputed and kFalse: the first window that differs, and whose it is.
  std::uint64_t entry = 0;
  std::uint32_t stage = 0;
  std::uint32_t window = 0;
  std::string node = {};
  bool awaits_verdict = false;  // of kDisputed: somebody is asked who is right
  bool is_last() const { return kind != Kind::kDisputed || !awaits_verdict; }
  // Of kFalse: the answer as it is right, from its first token on. Where is_cut, the rest could not
  // be computed, and its last token is the first that differs.
  std::vector<TokenId> answer = {};
  bool is_cut = false;
  std::string why = {};  // of kUnaudited
};

// Of one node, as the log says.
struct NodeStanding {
  ledger::Level level = ledger::Level::kNewcomer;
  std::int64_t audited_right = 0;
  std::int64_t faults = 0;  // that still count
  bool is_tombstoned = false;
  std::uint32_t disputes = 0;  // open ones that it is a party of
  // A newcomer's dues so far: windows checked, on so many days, since then (unix seconds).
  std::int64_t checks = 0;
  std::int64_t check_days = 0;
  std::int64_t joined = 0;
  friend bool operator==(const NodeStanding&, const NodeStanding&) = default;
};
using Standings = std::map<PublicKey, NodeStanding>;
Standings standings_of(const ledger::Books& books);  // of all members of the log

}  // namespace hearth::coordinator
