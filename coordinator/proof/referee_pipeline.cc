#include "coordinator/proof/referee_pipeline.h"

#include <algorithm>

#include "base/limits.h"
#include "coordinator/proof/pipeline_owners.h"

namespace hearth::coordinator {
namespace {

std::vector<TokenId> claimed_tokens(const RefereeCase& wanted) {
  std::vector<TokenId> tokens = wanted.prompt;
  tokens.insert(tokens.end(), wanted.answer.begin(), wanted.answer.end());
  return tokens;
}

// Whether a run that generated came to what is asked about, as far as that is known.
bool same_tokens(const RefereeCase& wanted, const AuditCase::Run& run) {
  const std::vector<TokenId> claimed = claimed_tokens(wanted);
  const std::size_t known =
      std::min<std::size_t>(std::size_t{wanted.positions} + 1, claimed.size());
  return run.tokens->size() >= known &&
         std::equal(claimed.begin(), claimed.begin() + static_cast<std::ptrdiff_t>(known),
                    run.tokens->begin());
}

}  // namespace

bool RefereePipeline::begin(AuditCase audited, RefereeCase wanted,
                            std::shared_ptr<const ReceiptPipeline> auditor) {
  job_ = Job{std::move(audited), std::move(wanted), std::move(auditor)};
  auto on = choose(*job_);
  if (on == nullptr) {
    job_.reset();
    return false;
  }
  run(std::move(on), false);
  return true;
}

std::shared_ptr<const ReceiptPipeline> RefereePipeline::choose(const Job& job) const {
  const ReceiptPipeline& own = job.audited.pipeline();
  const auto is_party = [&](const ReceiptPipeline& one, const ReceiptPipeline& other) {
    return share_a_node(one, other) || share_an_owner(books_, one, other);
  };
  for (const auto& [epoch, one] : pipelines_) {
    if (!same_cut(*one, own) || job.tried.contains(epoch) || is_party(*one, own)) continue;
    if (job.auditor != nullptr && is_party(*one, *job.auditor)) continue;
    if (one->checks || has_an_owner_twice(books_, *one)) continue;
    if (!is_at_level(books_, *one, job.audited.request().min_level)) continue;
    if (is_within(*one, job.audited.request().trust)) return one;
  }
  return nullptr;
}

void RefereePipeline::run(std::shared_ptr<const ReceiptPipeline> on, bool feed) {
  Hash256 own;
  random_bytes(own.bytes);
  const ledger::RequestId name =
      ledger::request_of(ledger::answer_name(clock_.unix_seconds(), own.bytes), 0);
  AuditRun order = job_->audited.generate(name);
  if (feed) {
    const RefereeCase& wanted = job_->wanted;
    const std::size_t fed = wanted.positions - wanted.prompt.size();
    order.answer.assign(wanted.answer.begin(),
                        wanted.answer.begin() + static_cast<std::ptrdiff_t>(fed));
    order.sampling.max_tokens = static_cast<std::uint32_t>(fed) + 1;
  }
  for (const ReceiptPipeline::Stage& stage : on->stages) order.nodes.push_back(stage.node);
  job_->run = {name, std::move(on), feed, {}, {}};
  job_->at = clock_.now();
  to_run_.push_back(std::move(order));
}

void RefereePipeline::over(const ReceiptRequest& request) {
  if (!is_run(request.order.request)) return;
  if (request.epoch != job_->run.pipeline->epoch) return try_again("its pipeline was lost");
  job_->run.tokens = request.tokens;
  job_->at = clock_.now();
  settle();
}

void RefereePipeline::give_up(const ledger::RequestId& name) {
  if (is_run(name)) try_again("it was not computed");
}

Status RefereePipeline::take_claim(const std::string& node, const control::v1::WindowClaim& claim) {
  TRY_VOID(job_->audited.take(job_->run, node, claim, cluster_));
  settle();
  return ok_status();
}

void RefereePipeline::try_again(const std::string& why) {
  Job& job = *job_;
  if (++job.tries >= kTries) {
    return finish(Error{ErrorCode::kUnavailable, "a third pipeline: " + why});
  }
  job.tried.insert(job.run.pipeline->epoch);
  job.run = {};
  job.generated.reset();
  job.at = clock_.now();
}

void RefereePipeline::on_timer() {
  if (!job_) return;
  const Duration waited = clock_.now() - job_->at;
  if (job_->run.pipeline != nullptr) {
    if (job_->run.tokens && waited >= kPatience) try_again("its stages did not claim all of it");
    return;
  }
  if (waited < kPause) return;
  auto on = choose(*job_);
  if (on == nullptr) {  // the one that was tried, once more
    job_->tried.clear();
    on = choose(*job_);
  }
  if (on == nullptr) {
    return finish(Error{ErrorCode::kUnavailable, "no third pipeline serves any more"});
  }
  run(std::move(on), false);
}

void RefereePipeline::settle() {
  Job& job = *job_;
  if (!job.run.is_whole()) return;
  if (!job.run.is_fed && !same_tokens(job.wanted, job.run)) {
    const auto on = job.run.pipeline;
    job.generated = std::exchange(job.run, {});
    return run(on, true);
  }
  auto finding = finding_of(job);
  if (!finding) return try_again(finding.error().message);
  finish(std::move(finding));
}

void RefereePipeline::finish(Result<RefereeFinding> finding) {
  Found found{std::move(finding), {}};
  if (job_->run.pipeline != nullptr) {
    for (const auto& stage : job_->run.pipeline->stages) found.who.push_back(stage.key);
  }
  found_ = std::move(found);
  job_.reset();
}

// The claims must fit each other: what went out of a stage is what came in at the next.
Result<RefereeFinding> RefereePipeline::finding_of(const Job& job) {
  RefereeFinding found;
  std::uint32_t positions = 0;
  for (const auto& [window, stages] : job.run.windows) {
    auto& roots = found.windows[window];
    for (const auto& claim : stages) {
      REQUIRE(roots.empty() || roots.back().out == claim->in_root,
              "what went out of a stage is not what came in at the next");
      REQUIRE(claim->positions == stages.front()->positions,
              "its stages claim windows of different lengths");
      roots.push_back({claim->in_root, claim->out_root});
    }
    positions += stages.front()->positions;
  }
  REQUIRE(positions == job.wanted.positions, "it computed " + std::to_string(positions) +
                                                 " positions of " +
                                                 std::to_string(job.wanted.positions));
  const std::vector<TokenId>& tokens = job.generated ? *job.generated->tokens : *job.run.tokens;
  const std::size_t prompt = std::min(job.wanted.prompt.size(), tokens.size());
  found.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end());
  found.sampled = found.tokens;
  return found;
}

}  // namespace hearth::coordinator
