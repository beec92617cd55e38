// AuditCase: one request between its receipts and the end of its audits. It knows what its stages
// said, how to ask for it to be computed again, and what follows from what others computed.
//
// Computed again it is a request like any other, with a name of its own: the node that computes it
// cannot tell. Its salt is the request's, so that equal activations have equal roots; a salt does
// not disclose what was claimed. First it is generated anew from the prompt, so that what was
// sampled is found again too. Where other tokens come, it is computed once more with the tokens
// that were claimed, for roots of the same tokens tell which stage departed from them.
//
// Stages are judged from the first on, windows likewise, and none behind the first that differs:
// what came in there is not what the claimed stage had. Plain data and functions; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "coordinator/proof/receipt_collector.h"
#include "coordinator/proof/window_claim.h"
#include "ledger/dispute/recompute.h"
#include "ledger/dispute/verdict.h"

namespace hearth::coordinator {

// A request that is to be computed again.
struct AuditRun {
  ReceiptOrder order;
  std::vector<std::string> nodes;  // of the pipeline that computes it
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  // that is fed; from there on it goes on by itself
  SamplingParams sampling;
  ledger::Level min_level = ledger::Level::kNewcomer;  // of them
  bool for_newcomers = false;                          // who are among them
};

class AuditCase {
 public:
  // What came of one run.
  struct Run {
    ledger::RequestId name{};
    std::shared_ptr<const ReceiptPipeline> pipeline;
    bool is_fed = false;  // with the claimed tokens
    std::optional<std::vector<TokenId>> tokens;
    std::map<std::uint32_t, std::vector<std::optional<StageClaim>>> windows;  // by stage

    // It is over, and all stages claimed all of it.
    bool is_whole() const;
    // By window and stage; zeros where nothing is claimed yet.
    ledger::WindowRoots out_roots() const;
  };

  AuditCase(std::shared_ptr<const ReceiptPipeline> pipeline, ReceiptRequest request)
      : pipeline_(std::move(pipeline)), request_(std::move(request)) {}

  const ReceiptPipeline& pipeline() const { return *pipeline_; }
  const ReceiptRequest& request() const { return request_; }

  // A stage of that run claims a window. kInvalidInput when it cannot have computed that; kRefused
  // when it cannot show that it did.
  Status take(Run& run, const std::string& node, const control::v1::WindowClaim& claim,
              const PublicKey& cluster) const;

  // Whether what its stages claim fits each other and the tokens that came of it: else it is no
  // audit, and no node is a party of a dispute for what another handed it. run.is_whole().
  Status check_whole(const Run& run) const;
  // Whether its last stage commits to the tokens that the log has, and gave others. An honest one
  // that is fed others than it gave claims nothing. run.is_whole().
  bool has_read_tokens(const Run& run) const;

  // A receipt of it is in the log.
  void add(std::uint64_t entry, const ledger::Receipt& receipt);
  bool is_logged() const;                      // with all receipts of all stages
  std::uint32_t positions() const;             // of all windows
  std::vector<std::uint64_t> entries() const;  // of the log, ascending

  // It ended as its sampling says, and not because its client had enough: then it can be generated
  // anew to the very same end. Else it is generated up to where it was ended.
  bool ended_by_itself() const;
  AuditRun generate(const ledger::RequestId& name) const;
  AuditRun feed(const ledger::RequestId& name) const;
  // A run of either kind by that pipeline, under a name of its own. `now`: unix seconds.
  std::pair<Run, AuditRun> order(std::shared_ptr<const ReceiptPipeline> on, bool is_fed,
                                 std::int64_t now) const;
  // Whether a run that generated came to the tokens that were claimed.
  bool same_tokens(const Run& run) const;

  struct Finding {
    std::uint64_t entry = 0;
    std::uint16_t stage = 0;
    std::uint32_t window = 0;  // of the run
    bool agrees = false;
    Hash256 root;  // that the auditor claimed
    ledger::RequestId run{};
    Epoch epoch;
  };
  struct Findings {
    std::vector<Finding> all;
    std::string beyond;  // what differs and is in no receipt; else empty
  };
  // `fed`: null when `generated` has the same tokens. kInvalidInput when a run has not the
  // positions that it was asked for.
  Result<Findings> judge(const Run& generated, const Run* fed) const;

  // That this finding disagrees, of the node whose window it is.
  AuditOutcome disputed(const Finding& finding) const;

  // What its receipts say, by window and by stage.
  struct Logged {
    std::uint64_t entry = 0;
    std::uint32_t positions = 0;
    Hash256 in_root;
    Hash256 out_root;
  };
  const std::map<std::uint32_t, std::vector<std::optional<Logged>>>& windows() const {
    return windows_;
  }
  ledger::WindowRoots out_roots() const;  // with all receipts of all stages

  std::set<std::uint64_t> wanted;  // entries that are to be audited

 private:
  Hash256 commitment(const Run& run, std::uint32_t window, std::uint32_t positions) const;
  // Until the first that differs; true when one does.
  Result<bool> compare(const Run& run, bool last_too, std::vector<Finding>& found) const;
  void blame_sampling(const Run& generated, Findings& findings) const;
  static Finding finding(const Run& run, std::uint32_t window, std::uint16_t stage,
                         const Logged& logged);

  std::shared_ptr<const ReceiptPipeline> pipeline_;
  ReceiptRequest request_;
  std::map<std::uint32_t, std::vector<std::optional<Logged>>> windows_;
};

// --- what the coordinator asks its referee of an audited request, and reads from the answer ---

// Computes a request again with all of the model. `done` comes once, on any thread. kUnavailable:
// there is no referee now. kTimeout: not in time.
using Referee = std::function<void(ledger::RefereeCase,
                                   std::function<void(Result<ledger::RefereeFinding>)> done)>;

// What the worker's pipeline claimed.
ledger::RefereeCase claimed_case(const AuditCase& request);
// What the auditor's pipeline came to when it generated.
ledger::RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated);

// What its receipts and its auditor say. `finding` disagrees, and is of one of these runs; `fed` as
// of AuditCase::judge(). kInvalidInput when the finding is not of this request.
Result<ledger::DisputedRoots> disputed_roots(const AuditCase& request,
                                             const AuditCase::Finding& finding,
                                             const AuditCase::Run& generated,
                                             const AuditCase::Run* fed);

// Whether all that its receipts say is what the referee computed.
bool is_right(const AuditCase& request, const ledger::RefereeFinding& claimed);

// What a referee says of each window, from the first on, up to and including the first that he has
// otherwise: as an auditor. kInvalidInput when he has not computed exactly the request's windows.
Result<AuditCase::Findings> findings_of(const AuditCase& request,
                                        const ledger::RefereeFinding& claimed);

}  // namespace hearth::coordinator
