// VerdictDesk: how disputes end (ledger/PROTOCOL.md, 4). A referee computes the request again with
// a copy of the model of his own, and says whose root is false; where there is none, a third
// pipeline does (coordinator/proof/referee_pipeline.h), and must agree with one side. The pipeline
// of that node computes the window once more, as a request like any other, to see whether the
// deviation comes again; then the node is accused, looks at its weights and kernels, and concedes
// or contests. What follows is ledger::verdict_of(), and its evidence lies beside the log before
// the verdict is in it.
//
// Before it is accused, the two play the game of the dispute (coordinator/proof/dispute_desk.h),
// whose file lies beside that evidence: it shows a third party what the referee only says. Where
// there is none, the evidence says why. Where the game finds that the other one was wrong, nobody
// is judged.
//
// One dispute is before the referee at a time. A node that is lost is waited for, and a dispute
// without a referee stays open: the log says so, and why is in the process log. What is open when a
// process ends the next one cannot judge, for it has no prompt of it; it ends by the evidence that
// is on the disk, or unjudged (coordinator/proof/kept_verdict.h). Who was found at fault gets no
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
#include "coordinator/proof/dispute_desk.h"
#include "coordinator/proof/referee.h"
#include "coordinator/proof/referee_pipeline.h"
#include "coordinator/proof/ruling.h"
#include "ledger/books.h"
#include "ledger/verdict.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

class VerdictDesk {
 public:
  static constexpr std::size_t kDisputes = 64;
  // Of the accused to answer, twice; of its pipeline to compute a window again, once.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  using Pipelines = std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>;

  // `pipelines` that serve now, and `books`: outlive it.
  VerdictDesk(const PublicKey& cluster, const Clock& clock, const Pipelines& pipelines,
              const ledger::Books& books)
      : cluster_(cluster),
        clock_(clock),
        pipelines_(pipelines),
        books_(books),
        third_(cluster, clock, pipelines, books),
        games_(clock) {}

  // Without it no games are played.
  void set_disputes(DisputeTools tools) { games_.set_tools(std::move(tools)); }

  // An opening that disagrees is in the log. begin() is false where nobody will judge it; else
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
    RefereeCase request;
  };
  std::vector<Ask> take_asks() { return std::exchange(asks_, {}); }
  void found(std::uint64_t entry, const Result<RefereeFinding>& finding);

  // As of AuditDesk, of runs that are this desk's own.
  bool is_run(const ledger::RequestId& request) const {
    return runs_.contains(request) || third_.is_run(request) || games_.is_run(request);
  }
  void over(const ReceiptRequest& request);
  void give_up(const ledger::RequestId& run, const std::string& why);
  Status take_claim(const std::string& node, const ledger::RequestId& run,
                    const control::v1::WindowClaim& claim);
  void on_timer();

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node);
  void take(const std::string& node, const control::v1::Answer& answer);
  void take(const std::string& node, const control::v1::SelfChecked& found);
  void take(const std::string& node, const control::v1::DisputeMove& move);

  // An entry of an earlier process; of this one, as it is folded.
  void recall(const ledger::Entry& entry);
  void logged(const ledger::Entry& entry);

  struct Message {
    std::string node;
    control::v1::CoordinatorMessage body;
  };
  struct Judgement {
    ledger::VerdictEntry verdict;
    Bytes evidence;  // whose BLAKE2b the verdict names
    Bytes dispute;   // whose BLAKE2b the evidence names; empty: none
  };
  std::vector<AuditRun> take_runs();
  std::vector<Message> take_messages();
  std::vector<Judgement> take_verdicts() { return std::exchange(verdicts_, {}); }
  // What the referee says of the requests themselves.
  std::vector<AuditOutcome> take_outcomes() { return std::exchange(outcomes_, {}); }

  // It claimed a root, in an audit, below which it could show no row. No program does that by
  // mistake, and no entry of the log can say it: it is given no work while this process lives.
  void refuse(const std::string& node, const PublicKey& key);

  // Why a key may not be given work, a sentence; empty: it may.
  std::string why_barred(const PublicKey& key) const;
  std::map<PublicKey, std::string> barred() const;
  // Whether a verdict has ended it, in the log or on its way there.
  bool is_ended(const PublicKey& key) const;
  std::size_t open() const { return cases_.size(); }

 private:
  enum class State { kQueued, kRefereed, kAgain, kGame, kAccused };
  struct Case {
    explicit Case(Dispute given) : dispute(std::move(given)) {}
    Dispute dispute;
    State state = State::kQueued;
    TimePoint at{};
    std::optional<RefereeFinding> claimed;
    bool audited_asked = false;
    bool asked_twice = false;           // the referee, since it agreed with neither side
    std::vector<PublicKey> third = {};  // who judged in place of a referee, by stage
    Ruling ruling;
    std::string node;  // of the accused
    PublicKey accused;
    Hash256 root;  // that it gave
    AuditCase::Run again;
    bool was_run_again = false;
    DisputePlayed played;
    ledger::Judged judged;
    std::optional<ledger::Answer> answer;
    std::string damage;       // as it says
    std::uint32_t times = 0;  // accused
  };
  using Cases = std::map<std::uint64_t, Case>;  // by the entry in dispute

  void ask_next();
  void ask(std::uint64_t entry, RefereeCase request);
  bool ask_third(std::uint64_t entry, Case& one);
  void hear_third();
  static bool is_backed(const Case& one);
  void ruled(std::uint64_t entry, Case& one);
  void run_again(std::uint64_t entry, Case& one);
  void ran_again(Case& one);
  void play(std::uint64_t entry, Case& one);
  DisputeTable table_of(const Case& one) const;
  void take_games();
  void accuse(std::uint64_t entry, Case& one);
  void send_accusation(std::uint64_t entry, Case& one);
  void judge(Cases::iterator at);
  void pronounce(Judgement judgement);
  static AuditOutcome outcome_of(const Case& one);
  void report(const Case& one);
  void leave_open(Cases::iterator at, const std::string& why);
  void quarantine(const PublicKey& key, std::uint64_t entry);
  void send_check(const std::string& node, const PublicKey& key);
  void send_ended(const std::string& node, const PublicKey& key);
  Bytes evidence_of(std::uint64_t entry, const Case& one, ledger::Verdict verdict) const;
  static std::string game_lines(const Case& one);
  std::string node_of(const PublicKey& key) const;

  const PublicKey cluster_;
  const Clock& clock_;
  const Pipelines& pipelines_;
  const ledger::Books& books_;
  RefereePipeline third_;
  DisputeDesk games_;
  Cases cases_;
  std::optional<std::uint64_t> before_referee_;
  std::map<ledger::RequestId, std::uint64_t> runs_;  // the entry in dispute
  std::map<std::string, PublicKey> present_;
  struct Quarantine {
    std::uint64_t entry = 0;   // of the verdict's receipt
    std::uint64_t number = 0;  // of the latest SelfCheck
    TimePoint sent{};
  };
  std::map<PublicKey, Quarantine> quarantined_;
  std::set<PublicKey> refused_;
  std::set<PublicKey> ended_;  // verdicts that are on their way to the log, too
  std::uint64_t next_check_ = 1;
  std::vector<Ask> asks_;
  std::vector<AuditRun> to_run_;
  std::vector<Message> messages_;
  std::vector<Judgement> verdicts_;
  std::vector<AuditOutcome> outcomes_;
};

}  // namespace hearth::coordinator
