// DisputeResolver: how disputes end (ledger/PROTOCOL.md, 4). The referee computes the request again
// with its own copy of the model, and says whose root is false. The pipeline of that node computes
// the window once more, as a request like any other, to see whether the deviation comes again; then
// the node is accused, looks at its weights and kernels, and concedes or contests. What follows is
// ledger::verdict_of(). The evidence lies beside the log before the verdict is in it, and has all
// that a repetition of the referee's work needs (ledger/dispute/evidence.h).
//
// One dispute is before the referee at a time. A node that is lost is waited for, and a dispute
// without a referee stays open: the log says so, and why is in the process log. What is open when a
// process ends the next one cannot judge, for it has no prompt of it; it ends by the evidence that
// is on the disk, or unjudged (ledger/dispute/evidence.h). Who was found at fault gets no
// work until it has looked at itself; who was found a fraud gets none.
//
// Any bytes may come from a node. A plain state machine: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "coordinator/audit_outcome.h"
#include "coordinator/proof/audit_case.h"
#include "coordinator/proof/barred_keys.h"
#include "ledger/books.h"
#include "ledger/dispute/verdict.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

// What audits and disputes want done, in order.
struct AuditOutput {
  // An entry for the log, behind the membership of its member.
  struct ForLog {
    PublicKey member;  // the empty key: the entry is of no member
    ledger::EntryBody body;
    Bytes evidence = {};  // of a verdict, which is on the disk before the entry is
  };
  std::vector<AuditRun> runs;
  std::vector<NodeMessage> messages;
  std::vector<AuditOutcome> outcomes;  // of requests of which windows were to be audited
  std::vector<ForLog> entries;
};

class DisputeResolver {
 public:
  static constexpr std::size_t kDisputes = 64;
  // Of the accused to answer, twice; of its pipeline to compute a window again, once.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  using Pipelines = std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>;

  // `pipelines` that serve now, `books`, and `out`, where it puts what it wants: outlive it.
  DisputeResolver(const PublicKey& cluster, const Clock& clock, const Pipelines& pipelines,
                  const ledger::Books& books, AuditOutput& out)
      : cluster_(cluster),
        clock_(clock),
        pipelines_(pipelines),
        books_(books),
        out_(out),
        keys_(cluster, clock, books, out.messages) {}

  // An opening that disagrees is in the log. begin() is false where it will not be judged; else
  // what it comes to is the last outcome of its request.
  struct Dispute {
    AuditCase request;
    AuditCase::Finding finding;
    AuditCase::Run generated;
    std::optional<AuditCase::Run> fed;
    std::string auditor;
    PublicKey auditor_key;
    // Of the request, by their entries.
    std::map<std::uint64_t, std::array<std::byte, ledger::kReceiptBytes>> receipts;
    ledger::SealEntry seal;
    Hash256 opened_salt;
    const std::array<std::byte, ledger::kReceiptBytes>& receipt() const {
      return receipts.at(finding.entry);
    }
  };
  bool begin(Dispute dispute);
  // Those that are open in the books of earlier processes, before the first of this one: each ends
  // by the verdict that it has evidence of among these, or unjudged.
  void take_up(const std::vector<Bytes>& kept);

  // Requests for the referee since the last call, by the entries in dispute, and what comes of one.
  struct Ask {
    std::uint64_t entry = 0;
    ledger::RefereeCase request;
  };
  std::vector<Ask> take_asks() { return std::exchange(asks_, {}); }
  void found(std::uint64_t entry, const Result<ledger::RefereeFinding>& finding);

  // As of Auditor, of runs that are this desk's own.
  bool is_run(const ledger::RequestId& request) const { return runs_.contains(request); }
  void over(const ReceiptRequest& request);
  void give_up(const ledger::RequestId& run);
  Status take_claim(const std::string& node, const ledger::RequestId& run,
                    const control::v1::WindowClaim& claim);
  void on_timer();

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node) { keys_.lose(node); }
  void on_answer(const std::string& node, const control::v1::Answer& answer);

  // Who may be given no work, by verdicts among others.
  BarredKeys& keys() { return keys_; }
  const BarredKeys& keys() const { return keys_; }

  std::size_t open() const { return cases_.size(); }

 private:
  enum class State { kQueued, kRefereed, kAgain, kAccused };
  struct Case {
    explicit Case(Dispute given) : dispute(std::move(given)) {}
    Dispute dispute;
    State state = State::kQueued;
    TimePoint at{};
    std::optional<ledger::RefereeFinding> claimed;
    bool audited_asked = false;
    bool rests_on_audited = false;  // the ruling, on what the auditor's own tokens give
    bool asked_twice = false;       // the referee, since it agreed with neither side
    ledger::Ruling ruling;
    std::string node;  // of the accused
    PublicKey accused;
    Hash256 root;  // that it gave
    AuditCase::Run again;
    bool was_run_again = false;
    ledger::Judged judged;
    std::optional<ledger::Answer> answer;
    std::string damage;       // as it says
    std::uint32_t times = 0;  // accused
  };
  using Cases = std::map<std::uint64_t, Case>;  // by the entry in dispute

  void ask_next();
  void ask(std::uint64_t entry, ledger::RefereeCase request);
  static Result<ledger::Ruling> rule(const Dispute& dispute, const ledger::RefereeFinding& claimed,
                                     const ledger::RefereeFinding* audited);
  void ruled(std::uint64_t entry, Case& one);
  void run_again(std::uint64_t entry, Case& one);
  void ran_again(Case& one);
  void accuse(std::uint64_t entry, Case& one);
  void send_accusation(std::uint64_t entry, Case& one);
  void judge(Cases::iterator at);
  // `evidence`: whose BLAKE2b the verdict names.
  void pronounce(const ledger::VerdictEntry& verdict, Bytes evidence);
  void report(const Case& one);
  void leave_open(Cases::iterator at, const std::string& why);
  Bytes evidence_of(std::uint64_t entry, const Case& one, ledger::Verdict verdict) const;

  const PublicKey cluster_;
  const Clock& clock_;
  const Pipelines& pipelines_;
  const ledger::Books& books_;
  AuditOutput& out_;
  BarredKeys keys_;
  Cases cases_;
  std::optional<std::uint64_t> before_referee_;
  std::map<ledger::RequestId, std::uint64_t> runs_;  // the entry in dispute
  std::vector<Ask> asks_;
};

}  // namespace hearth::coordinator
