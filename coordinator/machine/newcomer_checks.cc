#include "coordinator/machine/newcomer_checks.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "coordinator/machine/sequence_lifecycle.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/proof/ledger_service.h"
#include "coordinator/scheduling/scheduler.h"

namespace hearth::coordinator {
namespace {

// The owner of canaries in the scheduler's turns. No API key's id has a space.
constexpr char kOwner[] = "the canaries";

// Hands the model's answer back: later canaries are made of it.
class CanaryEvents final : public SequenceEvents {
 public:
  explicit CanaryEvents(Canaries& canaries) : canaries_(canaries) {}
  void on_admitted() override {}
  void on_token(const SampledToken& token) override {
    answer_.push_back(token.token);
    if (token.finish != FinishReason::kNone) canaries_.heard(answer_);
  }
  void on_hashes(std::vector<RowHash>) override {}
  void on_error(const Error& error) override {
    spdlog::debug("a canary got no answer: {}", error.message);
  }

 private:
  Canaries& canaries_;
  std::vector<TokenId> answer_;
};

}  // namespace

void NewcomerChecks::saw(const GenerateRequest& request) {
  canaries_.saw(request, scheduler_.has_checkers());
}

void NewcomerChecks::on_timer() {
  if (options_.receipts == nullptr || !scheduler_.has_checkers() || !scheduler_.serves()) return;
  const bool idle = scheduler_.has_idle_checkers() && scheduler_.waiting() == 0;
  while (canaries_.due(clock_.now(), idle)) {
    GenerateRequest request = canaries_.make();
    Hash256 own;
    random_bytes(own.bytes);
    ReceiptOrder order;
    // As requests of clients are named, so that no node can tell.
    const std::int64_t now = options_.receipts->time().value_or(clock_.unix_seconds());
    order.request = ledger::request_of(ledger::answer_name(now, own.bytes), 0);
    random_bytes(order.salt.bytes);
    request.receipt = order;
    request.policy.owner = kOwner;
    std::vector<Submission> one;
    one.push_back({std::move(request), std::make_shared<CanaryEvents>(canaries_)});
    if (!sequences_.submit(std::move(one)).sequences.ok()) return;
    ++total_;
  }
}

std::string NewcomerChecks::describe(const NodeStatus& node) const {
  const bool here = node.state != "lost" && !node.away && node.barred.empty();
  if (!node.newcomer || !here) return "";
  if (options_.receipts == nullptr) return "waits: this server keeps no ledger";
  if (options_.receipts->audits().mode == AuditMode::kOff)
    return "waits: audits are off on this server (--audit off)";
  const std::string dues = dues_text(node.standing);
  if (node.state == "checking") return "checks others' results, " + dues;
  if (node.state == "loading") return "loads layers to check others' results, " + dues;
  if (node.build != options_.receipts->build()) {
    return "waits: its build " + (node.build.empty() ? "is unknown" : node.build) +
           ", this server's is " + options_.receipts->build() +
           "; install the same version on both";
  }
  const std::string& why = pipelines_.why_newcomers_wait();
  return "waits" + (why.empty() ? "" : ": " + why) + "; " + dues;
}

std::string dues_text(const std::optional<NodeStanding>& standing) {
  const ledger::Policy policy;
  const NodeStanding one = standing.value_or(NodeStanding());
  return message_of(one.checks, " of ", policy.newcomer_audits, " windows, on ", one.check_days,
                    " of ", policy.newcomer_days, " days");
}

}  // namespace hearth::coordinator
