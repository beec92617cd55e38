// Auditor: the coordinator's part in audits (ledger/PROTOCOL.md, 4). It folds the log as it
// grows, draws over its checkpoints, and has what a draw selects computed again by a pipeline of
// others with the same cut. When their stages have claimed their windows, each that had the audited
// one's input seals what it found; when all seals of a request are in the log, all are opened. What
// differs stands in the log as a dispute, which a DisputeResolver ends.
//
// A request's tokens are kept in memory from its end to its audit, and never written: for at most
// the policy's audit_seconds, and within kKeptBytes, where the oldest of the API key that holds
// most gives way. The books keep of the log's windows those that may still be sealed here: that no
// draw was over yet, that wait for their audit, or that are in dispute. Of more windows than
// kFoldedWindows the oldest are not audited any more, but those whose tokens are kept: a load that
// is too high costs audits while it lasts. What cannot be audited is counted and said: where no
// other node holds the layers, where a restart or the limit took the tokens, where an auditor does
// not seal or open what it claimed.
//
// Where the coordinator has a referee of its own, a draw gives him windows too. He computes their
// requests in place of a pipeline, and so finds what all holders of a layer range agree on and is
// false (coordinator/proof/own_referee.h).
//
// Any bytes may come from a node. A plain state machine: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "coordinator/audit_outcome.h"
#include "coordinator/coordinator.h"
#include "coordinator/proof/audit_case.h"
#include "coordinator/proof/dispute_resolver.h"
#include "coordinator/proof/key_shares.h"
#include "coordinator/proof/ledger_snapshot.h"
#include "coordinator/proof/own_referee.h"
#include "coordinator/proof/seal_round.h"
#include "ledger/books.h"

namespace hearth::coordinator {

class Auditor {
 public:
  static constexpr std::size_t kKeptBytes = std::size_t{16} << 20;  // of tokens and grammars
  static constexpr std::size_t kKeptCases = 8'192;                  // each costs its part at least
  static constexpr std::size_t kFoldedWindows = 300'000;  // of the log's latest audit_seconds
  static constexpr std::size_t kRunsAtOnce = 4;
  static constexpr std::size_t kChecksAtOnce = 4;  // of newcomers, besides
  static constexpr std::size_t kChecksKept = 256;  // that wait for one of them
  static constexpr std::uint32_t kTries = 3;       // to have a request computed again by a pipeline
  // Between two draws, so that a draw is no larger part of a log than the receipts it is over.
  static constexpr Duration kDrawPause = std::chrono::seconds(2);
  // Of an auditor, to claim, to seal and to open.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  // `follows`: the log is folded whatever becomes of audits, for its balances are needed. `folded`:
  // windows that may be audited, at most.
  Auditor(SecretKey cluster, const Clock& clock, AuditMode mode, bool follows = false,
          std::size_t folded = kFoldedWindows);

  // The log of earlier processes, entry by entry, each with its leaf_hash(). kInvalidInput: the
  // rules do not allow it.
  Status recall(ByteSpan entry, const Hash256& leaf);
  // In place of that for each of its entries. kInvalidInput: receipts are missing in it.
  Status recall(LedgerSnapshot snapshot);
  // As bytes, of all entries so far; nothing once the books cannot be used.
  std::optional<Bytes> snapshot() const;
  // What follows, as it is on the disk. kInvalidInput likewise: nothing is audited any more. The
  // entry is in the books while follows().
  Status logged(ByteSpan entry);
  bool follows() const { return follows_ || mode_ != AuditMode::kOff; }
  // To be the very next entry, when nothing else waits to be one. Nothing: it is not time.
  std::optional<ledger::DrawEntry> draw();

  void begin(const ReceiptPipeline& pipeline);
  void end(Epoch epoch);
  // Whether a request of this name is an audit's.
  bool is_run(const ledger::RequestId& request) const {
    return runs_.contains(request) || verdicts_.is_run(request);
  }
  void over(const ReceiptRequest& request);  // one that is over, an audit's or not
  // An audit's request was not taken, for now; or it failed.
  void put_off(const ledger::RequestId& run, const std::string& why);
  void give_up(const ledger::RequestId& run, const std::string& why);
  void take(const std::string& node, const control::v1::WindowClaims& claims);
  void take(const std::string& node, const control::v1::Seals& seals);
  void take(const std::string& node, const control::v1::Openings& openings);
  void on_timer();  // once a second or so
  // Whether windows wait for their audit or for its entries: the rules allow these for an hour.
  bool is_pending() const { return !cases_.empty() || !unlogged_.empty(); }

  // What is to be done since the last call but for the log, and what is for the log.
  using Message = NodeMessage;
  using ForLog = AuditOutput::ForLog;
  using Output = AuditOutput;
  Output take_output();
  std::vector<ForLog> take_entries() { return std::exchange(out_.entries, {}); }

  // The coordinator's own referee as an auditor, and what came of what it was asked.
  OwnReferee& referee() { return own_referee_; }
  void refereed(std::uint64_t number, const Result<ledger::RefereeFinding>& finding);

  // Disputes, and who is given no work for one.
  DisputeResolver& verdicts() { return verdicts_; }

  AuditStatus status() const;
  const ledger::Books& books() const { return books_; }

 private:
  using Key = std::pair<ledger::RequestId, Epoch>;  // of the audited request
  enum class State { kKept, kRefereed, kWaiting, kRunning, kSealing, kOpening };
  struct Kept {
    AuditCase request;
    std::size_t cost = 0;    // of kKeptBytes
    std::int64_t since = 0;  // unix seconds
    State state = State::kKept;
    TimePoint at{};  // when it came to its state; kWaiting: when it may be tried
    std::uint32_t tries = 0;
    std::set<Epoch> tried = {};
    bool has_owners_only = false;  // who could audit it, but for their owners
    AuditCase::Run run = {};
    std::optional<AuditCase::Run> generated = {};  // when `run` is fed
    std::set<std::uint64_t> refereed = {};         // entries that the referee is to compute again
    SealRound seals = {};                          // of kSealing and kOpening
    std::vector<AuditedWindow> agreed = {};
    std::optional<AuditOutcome> dispute = {};
    bool is_check =
        false;  // no draw wants it: newcomers do it, and if none does, nothing is missed
    std::map<std::uint64_t, std::array<std::byte, ledger::kReceiptBytes>> receipts = {};

    void enter(State next, TimePoint now) {
      state = next;
      at = now;
    }
    AuditOutcome outcome(AuditOutcome::Kind kind) const;
  };
  using Cases = std::map<Key, Kept>;  // the oldest request first: names begin with a time

  void bound_windows();
  template <typename Said>  // a seal or an opening
  void say(const PublicKey& auditor, const Said& said) {
    unlogged_.insert(said.receipt);
    out_.entries.push_back({auditor, said});
  }
  void on_receipt(std::uint64_t entry, const ledger::ReceiptEntry& receipt);
  void on_drawn();
  void on_entry(const ledger::SealEntry& seal);
  void on_entry(const ledger::OpeningEntry& opening);
  void hand_out(Cases::iterator one);
  bool is_for_newcomers(const Kept& kept) const;
  void start_runs();
  void run(const Key& key, Kept& kept, std::shared_ptr<const ReceiptPipeline> on, bool feed);
  Status take_claim(const std::string& node, const control::v1::WindowClaim& claim);
  void refuse(const std::string& node, const control::v1::WindowClaim& claim);
  void settle(const Key& key, Kept& kept);
  void ask_for_seals(const Key& key, Kept& kept, const AuditCase::Findings& findings);
  Result<SealRound*> round_of(const std::string& node, std::uint64_t entry, State state);
  void try_again(const Key& key, Kept& kept, const std::string& why);
  void forget(Cases::iterator one, const std::string& why);
  void report_beyond(const Key& key, const Kept& kept, const std::string& what);
  void report_opening(Kept& kept, std::uint64_t entry, const AuditCase::Finding& finding,
                      bool judged);

  const SecretKey cluster_;
  const Clock& clock_;
  AuditMode mode_;
  bool follows_;
  const std::size_t folded_;
  ledger::Books books_;
  bool is_folded_ = true;      // the books have taken every entry
  std::uint64_t undrawn_ = 0;  // receipts since the latest draw
  TimePoint next_draw_{};
  DisputeResolver::Pipelines pipelines_;
  AuditOutput out_;
  DisputeResolver verdicts_;
  OwnReferee own_referee_;
  std::vector<ledger::VerdictEntry> pronounced_;  // by the log, with those that are unjudged
  Cases cases_;
  KeyShares costs_;
  std::map<ledger::RequestId, Key> runs_;  // by the audit's own name
  std::map<std::uint64_t, Key> by_entry_;  // of what is kept
  std::multiset<std::uint64_t> unlogged_;  // entries of which seals and openings are to be logged
  AuditStatus counts_;
};

}  // namespace hearth::coordinator
