// DisputeResolver: ends disputes (ledger/PROTOCOL.md, 4). The referee recomputes the request with
// its own copy of the model and finds the false root. That node's pipeline recomputes the window
// once more, as a request like any other, to see whether the deviation recurs. Then the node is
// accused, checks its weights and kernels, and concedes or contests. ledger::verdict_of() gives the
// verdict. The evidence is stored beside the log before the verdict is logged, and has everything
// to repeat the referee's work (ledger/dispute/evidence.h).
//
// The referee judges one dispute at a time. A lost node is waited for. A dispute without a referee
// stays open in the log, and the process log has the reason. The next process cannot judge an open
// dispute, because it lacks the prompt; the dispute ends by stored evidence or unjudged
// (ledger/dispute/evidence.h). A node at fault gets no work until its self-check; a fraudulent one
// gets no more work.
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

// The actions that audits and disputes request, in order.
struct AuditOutput {
  // An entry for the log, after its member's membership entry.
  struct ForLog {
    PublicKey member;  // the empty key: the entry concerns no member
    ledger::EntryBody body;
    Bytes evidence = {};  // of a verdict; stored before the entry is logged
  };
  std::vector<AuditRun> runs;
  std::vector<NodeMessage> messages;
  std::vector<AuditOutcome> outcomes;  // of audited requests
  std::vector<ForLog> entries;
};

class DisputeResolver {
 public:
  static constexpr std::size_t kDisputes = 64;
  // Timeout of the accused's answer, twice, and of its pipeline's recomputation, once.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  using Pipelines = std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>;

  // `pipelines` that serve now, `books`, and `out` for its requests outlive it.
  DisputeResolver(const PublicKey& cluster, const Clock& clock, const Pipelines& pipelines,
                  const ledger::Books& books, AuditOutput& out)
      : cluster_(cluster),
        clock_(clock),
        pipelines_(pipelines),
        books_(books),
        out_(out),
        keys_(cluster, clock, books, out.messages) {}

  // A disagreeing opening in the log. begin() returns false when it will not be judged; else its
  // result is the last outcome of its request.
  struct Dispute {
    AuditCase request;
    AuditCase::Finding finding;
    AuditCase::Run generated;
    std::optional<AuditCase::Run> fed;
    std::string auditor;
    PublicKey auditor_key;
    // The request's receipts, by entry.
    std::map<std::uint64_t, std::array<std::byte, ledger::kReceiptBytes>> receipts;
    ledger::SealEntry seal;
    Hash256 opened_salt;
    const std::array<std::byte, ledger::kReceiptBytes>& receipt() const {
      return receipts.at(finding.entry);
    }
  };
  bool begin(Dispute dispute);
  // Ends the open disputes of earlier processes, before the first new one: each by the verdict for
  // which `kept` has evidence, or unjudged.
  void take_up(const std::vector<Bytes>& kept);

  // New requests for the referee, by the entries in dispute, and the result of one.
  struct Ask {
    std::uint64_t entry = 0;
    ledger::RefereeCase request;
  };
  std::vector<Ask> take_asks() { return std::exchange(asks_, {}); }
  void found(std::uint64_t entry, const Result<ledger::RefereeFinding>& finding);

  // As in Auditor, for this class's own runs.
  bool is_run(const ledger::RequestId& request) const { return runs_.contains(request); }
  void over(const ReceiptRequest& request);
  void give_up(const ledger::RequestId& run);
  Status take_claim(const std::string& node, const ledger::RequestId& run,
                    const control::v1::WindowClaim& claim);
  void on_timer();

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node) { keys_.lose(node); }
  void on_answer(const std::string& node, const control::v1::Answer& answer);

  // The barred keys, by verdicts and other reasons.
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
    bool rests_on_audited = false;  // the ruling rests on the auditor's own tokens
    bool asked_twice = false;       // the referee agreed with neither side and was asked again
    ledger::Ruling ruling;
    std::string node;  // the accused node
    PublicKey accused;
    Hash256 root;  // that it gave
    AuditCase::Run again;
    bool was_run_again = false;
    ledger::Judged judged;
    std::optional<ledger::Answer> answer;
    std::string damage;       // by its own report
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
  // `evidence`: the bytes whose BLAKE2b the verdict names.
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
