// RefereePipeline: who judges a dispute where nobody has all of the model (ledger/PROTOCOL.md, 4):
// a third pipeline of the same cut, none of whose nodes or owners is a party, computes the request
// again. To it that is a request like any other: generated from the prompt, and once more with the
// tokens in question where it comes to others. Its word is one against two at most, so a side is
// false only where it has what the other side has (coordinator/proof/verdict_desk.h asks for that).
//
// One case at a time. Any bytes may come from a node. A plain state machine: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/proof/audit_case.h"
#include "coordinator/proof/referee.h"
#include "ledger/books.h"

namespace hearth::coordinator {

class RefereePipeline {
 public:
  static constexpr std::uint32_t kTries = 3;
  static constexpr Duration kPause = std::chrono::seconds(2);  // before the next one
  // For its stages to claim what they computed, when it is over.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  using Pipelines = std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>;

  // `pipelines` that serve now, and `books`: outlive it.
  RefereePipeline(const PublicKey& cluster, const Clock& clock, const Pipelines& pipelines,
                  const ledger::Books& books)
      : cluster_(cluster), clock_(clock), pipelines_(pipelines), books_(books) {}

  // `wanted`: as a referee is asked, of `audited` or of what its auditor came to. False when no
  // such pipeline serves. `auditor`: the other party's pipeline; null: there is none.
  bool begin(AuditCase audited, RefereeCase wanted, std::shared_ptr<const ReceiptPipeline> auditor);
  bool is_busy() const { return job_.has_value(); }
  // What came of it, once. kUnavailable: nobody computed it.
  struct Found {
    Result<RefereeFinding> finding;
    std::vector<PublicKey> who;  // by stage
  };
  std::optional<Found> take_found() { return std::exchange(found_, std::nullopt); }

  // As of AuditDesk.
  bool is_run(const ledger::RequestId& request) const {
    return job_ && job_->run.pipeline && job_->run.name == request;
  }
  void over(const ReceiptRequest& request);
  void give_up(const ledger::RequestId& run);
  Status take_claim(const std::string& node, const control::v1::WindowClaim& claim);
  void on_timer();
  std::vector<AuditRun> take_runs() { return std::exchange(to_run_, {}); }

 private:
  struct Job {
    AuditCase audited;
    RefereeCase wanted;
    std::shared_ptr<const ReceiptPipeline> auditor;
    AuditCase::Run run = {};                       // no pipeline: it waits
    std::optional<AuditCase::Run> generated = {};  // when `run` is fed
    TimePoint at{};
    std::uint32_t tries = 0;
    std::set<Epoch> tried = {};
  };

  std::shared_ptr<const ReceiptPipeline> choose(const Job& job) const;
  void run(std::shared_ptr<const ReceiptPipeline> on, bool feed);
  void try_again(const std::string& why);
  void settle();
  void finish(Result<RefereeFinding> finding);
  static Result<RefereeFinding> finding_of(const Job& job);

  const PublicKey cluster_;
  const Clock& clock_;
  const Pipelines& pipelines_;
  const ledger::Books& books_;
  std::optional<Job> job_;
  std::optional<Found> found_;
  std::vector<AuditRun> to_run_;
};

}  // namespace hearth::coordinator
