// AuditCase: one request between its receipts and the end of its audits. It holds the stages'
// claims, makes the orders to recompute the request, and judges the results.
//
// The recomputation is a request like any other, with its own name, so the computing node cannot
// recognise it. It uses the request's salt, so that equal activations have equal roots; the salt
// does not disclose the claims. First it is generated from the prompt, which also checks the
// sampling. If other tokens come, it is recomputed once more with the claimed tokens as input, so
// that the roots show which stage deviates.
//
// Windows and stages are judged in order up to the first difference, because later ones had another
// input. Plain data and functions; one thread.
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
  std::vector<TokenId> answer;  // fed tokens; after them it generates
  SamplingParams sampling;
  ledger::Level min_level = ledger::Level::kNewcomer;  // of them
  // Whose kept pages it may use, as RequestPolicy has it: those of the audited request. None where
  // its nodes must compute every row now.
  CacheScope cache = CacheScope::kOff;
  std::string cache_owner = {};
  bool for_newcomers = false;  // who are among them
};

class AuditCase {
 public:
  // The result of one run.
  struct Run {
    ledger::RequestId name{};
    std::shared_ptr<const ReceiptPipeline> pipeline;
    bool is_fed = false;  // with the claimed tokens
    std::optional<std::vector<TokenId>> tokens;
    std::map<std::uint32_t, std::vector<std::optional<StageClaim>>> windows;  // by stage

    // Whether it has ended and all stages have claimed all of it.
    bool is_whole() const;
    // The outgoing roots by window and stage; zeros for missing claims.
    ledger::WindowRoots out_roots() const;
  };

  AuditCase(std::shared_ptr<const ReceiptPipeline> pipeline, ReceiptRequest request)
      : pipeline_(std::move(pipeline)), request_(std::move(request)) {}

  const ReceiptPipeline& pipeline() const { return *pipeline_; }
  const ReceiptRequest& request() const { return request_; }

  // A stage of that run claims a window. kInvalidInput when the claim is impossible; kRefused when
  // the stage cannot show a row below its root.
  Status take(Run& run, const std::string& node, const control::v1::WindowClaim& claim,
              const PublicKey& cluster) const;

  // Checks that the stages' claims agree with each other and with the run's tokens. Otherwise it is
  // not an audit, so that no node is in a dispute because of another's input. Requires
  // run.is_whole().
  Status check_whole(const Run& run) const;
  // Whether its last stage commits to the log's tokens although it sampled others. An honest stage
  // claims nothing when it is fed other tokens than it sampled. Requires run.is_whole().
  bool has_read_tokens(const Run& run) const;

  // Adds a receipt of the request, which is in the log.
  void add(std::uint64_t entry, const ledger::Receipt& receipt);
  bool is_logged() const;                      // with all receipts of all stages
  std::uint32_t positions() const;             // of all windows
  std::vector<std::uint64_t> entries() const;  // of the log, ascending

  // Whether it ended by its sampling and not by its client. Then it can be generated to the same
  // end; else it is generated up to where it was ended.
  bool ended_by_itself() const;
  AuditRun generate(const ledger::RequestId& name) const;
  AuditRun feed(const ledger::RequestId& name) const;
  // Orders a run of either kind by that pipeline, under its own name. `now`: unix seconds.
  std::pair<Run, AuditRun> order(std::shared_ptr<const ReceiptPipeline> on, bool is_fed,
                                 std::int64_t now) const;
  // Whether a generating run produced the claimed tokens.
  bool same_tokens(const Run& run) const;

  struct Finding {
    std::uint64_t entry = 0;
    std::uint16_t stage = 0;
    std::uint32_t window = 0;  // of the run
    bool agrees = false;
    Hash256 root;  // the auditor's claimed root
    ledger::RequestId run{};
    Epoch epoch;
  };
  struct Findings {
    std::vector<Finding> all;
    std::string beyond;  // a difference that no receipt covers; else empty
  };
  // `fed`: null when `generated` has the same tokens. kInvalidInput when a run does not have the
  // ordered positions.
  Result<Findings> judge(const Run& generated, const Run* fed) const;

  // The outcome for a finding that disagrees with a node's window.
  AuditOutcome disputed(const Finding& finding) const;

  // Its receipts, by window and by stage.
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

  std::set<std::uint64_t> wanted;  // entries to audit

 private:
  Hash256 commitment(const Run& run, std::uint32_t window, std::uint32_t positions) const;
  // Compares up to the first difference; true when there is one.
  Result<bool> compare(const Run& run, bool last_too, std::vector<Finding>& found) const;
  void blame_sampling(const Run& generated, Findings& findings) const;
  static Finding finding(const Run& run, std::uint32_t window, std::uint16_t stage,
                         const Logged& logged);

  std::shared_ptr<const ReceiptPipeline> pipeline_;
  ReceiptRequest request_;
  std::map<std::uint32_t, std::vector<std::optional<Logged>>> windows_;
};

// --- the referee's cases of an audited request, and their results ---

// Recomputes a request with the whole model. `done` is called once, on any thread. kUnavailable: no
// referee now. kTimeout: not in time.
using Referee = std::function<void(ledger::RefereeCase,
                                   std::function<void(Result<ledger::RefereeFinding>)> done)>;

// The case of the worker's pipeline.
ledger::RefereeCase claimed_case(const AuditCase& request);
// The case of the auditor's pipeline's own tokens.
ledger::RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated);

// The roots of its receipts and its auditor. `finding` disagrees and belongs to one of these runs;
// `fed` as in AuditCase::judge(). kInvalidInput when the finding is of another request.
Result<ledger::DisputedRoots> disputed_roots(const AuditCase& request,
                                             const AuditCase::Finding& finding,
                                             const AuditCase::Run& generated,
                                             const AuditCase::Run* fed);

// Whether all its receipts agree with the referee.
bool is_right(const AuditCase& request, const ledger::RefereeFinding& claimed);

// The referee's findings as an auditor, window by window, up to and including the first difference.
// kInvalidInput when it has not computed exactly the request's windows.
Result<AuditCase::Findings> findings_of(const AuditCase& request,
                                        const ledger::RefereeFinding& claimed);

}  // namespace hearth::coordinator
