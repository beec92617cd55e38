// Auditor: the coordinator's part in audits (ledger/PROTOCOL.md, 4). It folds the log as it grows
// and draws over its checkpoints. Another pipeline with the same layer split recomputes the
// selected windows. After the claims, each stage with the audited stage's input seals its result;
// when all seals of a request are in the log, all are opened. A difference is a dispute in the log,
// which a DisputeResolver ends.
//
// A request's tokens are kept only in memory, from its end to its audit, for at most the policy's
// audit_seconds. They take at most kKeptBytes; then the oldest of the API key with the most bytes
// is dropped. The books keep the log's windows that may still be sealed here: not drawn yet,
// waiting for their audit, or in dispute. Beyond kFoldedWindows the oldest windows without kept
// tokens are no longer audited, so overload costs audits while it lasts. Missed audits are counted
// with their reason: no other node holds the layers, the tokens were lost in a restart or dropped,
// or an auditor did not seal or open its claim.
//
// A draw also gives windows to the coordinator's own referee, if there is one. It recomputes their
// requests instead of a pipeline, and so finds false results on which all holders of a layer range
// agree (coordinator/proof/own_referee.h).
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
  static constexpr std::size_t kKeptCases = 8'192;                  // each costs at least its share
  static constexpr std::size_t kFoldedWindows = 300'000;  // within the log's latest audit_seconds
  static constexpr std::size_t kRunsAtOnce = 4;
  static constexpr std::size_t kChecksAtOnce = 4;  // by newcomers, in addition
  static constexpr std::size_t kChecksKept = 256;  // waiting for such a check
  static constexpr std::uint32_t kTries = 3;       // of a pipeline to recompute a request
  // Between two draws, so that draws do not take more of the log than their receipts.
  static constexpr Duration kDrawPause = std::chrono::seconds(2);
  // Timeout of an auditor's claims, seals and openings.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  // `follows`: the log is folded even without audits, because its balances are needed. `folded`:
  // maximum of windows that may be audited.
  Auditor(SecretKey cluster, const Clock& clock, AuditMode mode, bool follows = false,
          std::size_t folded = kFoldedWindows);

  // Folds the log of earlier processes, entry by entry, each with its leaf_hash(). kInvalidInput:
  // an entry breaks the rules.
  Status recall(ByteSpan entry, const Hash256& leaf);
  // Replaces these calls for the snapshot's entries. kInvalidInput: it lacks receipts.
  Status recall(LedgerSnapshot snapshot);
  // The snapshot of all entries so far, as bytes; nothing once the books are unusable.
  std::optional<Bytes> snapshot() const;
  // Takes an entry that was written to the disk. kInvalidInput: it breaks the rules, and audits
  // stop. The books have the entry while follows().
  Status logged(ByteSpan entry);
  bool follows() const { return follows_ || mode_ != AuditMode::kOff; }
  // A draw, which must be the log's next entry. Nothing: not due.
  std::optional<ledger::DrawEntry> draw();

  void begin(const ReceiptPipeline& pipeline);
  void end(Epoch epoch);
  // Whether this request is an audit's run.
  bool is_run(const ledger::RequestId& request) const {
    return runs_.contains(request) || verdicts_.is_run(request);
  }
  void over(const ReceiptRequest& request);  // an ended request, an audit's or a client's
  // An audit's run was refused for now, or it failed.
  void put_off(const ledger::RequestId& run, const std::string& why);
  void give_up(const ledger::RequestId& run, const std::string& why);
  void take(const std::string& node, const control::v1::WindowClaims& claims);
  void take(const std::string& node, const control::v1::Seals& seals);
  void take(const std::string& node, const control::v1::Openings& openings);
  void on_timer();  // once a second or so
  // Whether windows wait for their audit or for its entries, which the rules allow for an hour.
  bool is_pending() const { return !cases_.empty() || !unlogged_.empty(); }

  // The actions since the last call, and the entries for the log.
  using Message = NodeMessage;
  using ForLog = AuditOutput::ForLog;
  using Output = AuditOutput;
  Output take_output();
  std::vector<ForLog> take_entries() { return std::exchange(out_.entries, {}); }

  // The coordinator's own referee as an auditor.
  OwnReferee& referee() { return own_referee_; }
  void refereed(std::uint64_t number, const Result<ledger::RefereeFinding>& finding);

  // Disputes, and the keys barred for them.
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
    TimePoint at{};  // begin of its state; kWaiting: the next attempt
    std::uint32_t tries = 0;
    std::set<Epoch> tried = {};
    bool has_owners_only = false;  // all possible auditors are excluded by their owners
    AuditCase::Run run = {};
    std::optional<AuditCase::Run> generated = {};  // set when `run` is fed
    std::set<std::uint64_t> refereed = {};         // entries for the referee to recompute
    SealRound seals = {};                          // of kSealing and kOpening
    std::vector<AuditedWindow> agreed = {};
    std::optional<AuditOutcome> dispute = {};
    bool is_check =
        false;  // no draw selected it: only newcomers check it, and a missed check does not count
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
  std::vector<ledger::VerdictEntry> pronounced_;  // verdicts in the log, unjudged ones included
  Cases cases_;
  KeyShares costs_;
  std::map<ledger::RequestId, Key> runs_;  // by the audit's own name
  std::map<std::uint64_t, Key> by_entry_;  // kept requests
  std::multiset<std::uint64_t> unlogged_;  // entries with unlogged seals or openings
  AuditStatus counts_;
};

}  // namespace hearth::coordinator
