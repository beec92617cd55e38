#include "coordinator/proof/audit_case.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "proto/committed_sampling.h"

namespace hearth::coordinator {
namespace {

template <typename Stages>
bool has_all(const Stages& stages, std::size_t count) {
  return stages.size() == count &&
         std::ranges::all_of(stages, [](const auto& one) { return one.has_value(); });
}

std::uint32_t stages_of(const AuditCase& request) {
  return static_cast<std::uint32_t>(request.pipeline().stages.size());
}

ledger::RefereeCase case_of(const AuditCase& request, const std::vector<TokenId>& tokens,
                            const SamplingParams& sampling) {
  ledger::RefereeCase out;
  out.model = request.pipeline().model;
  out.salt = request.request().order.salt;
  for (const ReceiptPipeline::Stage& stage : request.pipeline().stages) {
    out.split.push_back(stage.layers);
  }
  out.sampling = sampling;
  out.positions = std::min(request.positions(), static_cast<std::uint32_t>(tokens.size()));
  const auto prompt = std::min(request.request().prompt_tokens, out.positions);
  out.prompt.assign(tokens.begin(), tokens.begin() + prompt);
  // Of a prompt that was cut short there is no answer.
  const bool is_cut = prompt < request.request().prompt_tokens;
  if (!is_cut) out.answer.assign(tokens.begin() + prompt, tokens.end());
  return out;
}

}  // namespace

bool AuditCase::Run::is_whole() const {
  if (!tokens) return false;
  std::size_t claimed = 0;
  for (const auto& [window, stages] : windows) {
    if (window * limits::kWindowPositions != claimed) return false;
    if (!has_all(stages, pipeline->stages.size())) return false;
    claimed += stages.front()->positions;
  }
  return claimed + 1 >= tokens->size();
}

ledger::WindowRoots AuditCase::Run::out_roots() const {
  ledger::WindowRoots roots;
  for (const auto& [window, stages] : windows) {
    for (const auto& claim : stages) roots[window].push_back(claim ? claim->out_root : Hash256());
  }
  return roots;
}

ledger::WindowRoots AuditCase::out_roots() const {
  ledger::WindowRoots roots;
  for (const auto& [window, stages] : windows_) {
    for (const auto& logged : stages) {
      INVARIANT(logged.has_value(), "roots are compared when all receipts are there");
      roots[window].push_back(logged->out_root);
    }
  }
  return roots;
}

// To the tokens that came of it.
Hash256 AuditCase::commitment(const Run& run, std::uint32_t window, std::uint32_t positions) const {
  const std::uint32_t first = window * limits::kWindowPositions;
  const std::size_t end = std::min(first + std::size_t{positions}, run.tokens->size());
  std::vector<std::uint32_t> tokens;
  for (std::size_t i = first; i < end; ++i) {
    tokens.push_back(static_cast<std::uint32_t>((*run.tokens)[i]));
  }
  return ledger::commit_tokens(request_.order.salt, first, tokens,
                               encode_committed(request_.sampling));
}

// A root that was read is no row: what came in behind it, and what was sampled, are others.
Status AuditCase::check_whole(const Run& run) const {
  for (const auto& [window, stages] : run.windows) {
    const Hash256 ends = commitment(run, window, stages.front()->positions);
    REQUIRE(stages.front()->in_root == ends && stages.back()->out_root == ends,
            "its first or its last stage had other tokens than this server");
    for (std::size_t i = 1; i < stages.size(); ++i) {
      REQUIRE(stages[i]->in_root == stages[i - 1]->out_root, "the output of stage ", i,
              " is not the input of the next one");
    }
  }
  return ok_status();
}

bool AuditCase::has_read_tokens(const Run& run) const {
  return std::ranges::any_of(run.windows, [&](const auto& one) {
    const auto logged = windows_.find(one.first);
    if (logged == windows_.end() || !logged->second.back()) return false;
    const StageClaim& last = *one.second.back();
    return last.out_root == logged->second.back()->out_root &&
           last.out_root != commitment(run, one.first, last.positions);
  });
}

Status AuditCase::take(Run& run, const std::string& node, const control::v1::WindowClaim& claim,
                       const PublicKey& cluster) const {
  if (claim.epoch() != run.pipeline->epoch.value) return ok_status();  // it goes on elsewhere
  const std::vector<ReceiptPipeline::Stage>& stages = run.pipeline->stages;
  const auto stage = std::ranges::find(stages, node, &ReceiptPipeline::Stage::node);
  REQUIRE(stage != stages.end(), "it is not a stage of that pipeline");
  REQUIRE(claim.positions() > 0 && claim.positions() <= limits::kWindowPositions &&
              claim.window() <= positions() / limits::kWindowPositions,
          "window ", claim.window(), " with ", claim.positions(),
          " positions is outside the request");
  const auto index = static_cast<std::uint16_t>(stage - stages.begin());
  TRY(const StageClaim said, read_claim(claim, run.name, index, stage->key, cluster));
  if (index + std::size_t{1} < stages.size()) {
    TRY_VOID(check_shown(claim, said, run.name, index, request_.order.salt));
  }
  auto& window = run.windows[claim.window()];
  window.resize(stages.size());
  REQUIRE(!window[index], "a window is claimed twice");
  window[index] = said;
  return ok_status();
}

void AuditCase::add(std::uint64_t entry, const ledger::Receipt& receipt) {
  const std::size_t count = pipeline_->stages.size();
  if (receipt.slot.stage >= count) return;
  auto& stages = windows_[receipt.slot.window];
  stages.resize(count);
  stages[receipt.slot.stage] = {entry, receipt.positions, receipt.in_root, receipt.out_root};
}

bool AuditCase::is_logged() const {
  std::uint32_t window = 0;
  for (const auto& [number, stages] : windows_) {
    if (number != window++ || !has_all(stages, pipeline_->stages.size())) return false;
  }
  // The last token is never fed; that of a cancelled request may be.
  return window > 0 && positions() + 1 >= request_.tokens.size();
}

std::uint32_t AuditCase::positions() const {
  std::uint32_t sum = 0;
  for (const auto& [window, stages] : windows_) {
    if (stages.front()) sum += stages.front()->positions;
  }
  return sum;
}

std::vector<std::uint64_t> AuditCase::entries() const {
  std::vector<std::uint64_t> all;
  for (const auto& [window, stages] : windows_) {
    for (const auto& logged : stages) {
      if (logged) all.push_back(logged->entry);
    }
  }
  std::ranges::sort(all);
  return all;
}

bool AuditCase::ended_by_itself() const {
  const std::vector<TokenId>& tokens = request_.tokens;
  if (tokens.size() <= request_.prompt_tokens || positions() + 1 != tokens.size()) return false;
  const std::size_t sampled = tokens.size() - request_.prompt_tokens;
  const SamplingParams& sampling = request_.sampling;
  return sampled == sampling.max_tokens ||
         std::ranges::count(sampling.stop_tokens, tokens.back()) > 0;
}

AuditRun AuditCase::generate(const ledger::RequestId& name) const {
  const auto begin = request_.tokens.begin();
  const RequestPolicy& policy = request_.policy;
  AuditRun run{{name, request_.order.salt}, {}, {}, {}, request_.sampling, policy.min_level};
  run.cache = policy.cache;
  run.cache_owner = policy.cache_owner.value_or(policy.owner);
  const std::uint32_t prompt = std::min(request_.prompt_tokens, positions());
  run.prompt.assign(begin, begin + prompt);
  if (!ended_by_itself()) run.sampling.max_tokens = positions() - prompt + 1;
  return run;
}

AuditRun AuditCase::feed(const ledger::RequestId& name) const {
  const auto begin = request_.tokens.begin();
  AuditRun run = generate(name);
  const auto prompt = static_cast<std::uint32_t>(run.prompt.size());
  run.answer.assign(begin + prompt, begin + positions());
  run.sampling.max_tokens = positions() - prompt + 1;
  return run;
}

std::pair<AuditCase::Run, AuditRun> AuditCase::order(std::shared_ptr<const ReceiptPipeline> on,
                                                     bool is_fed, std::int64_t now) const {
  Hash256 own;
  random_bytes(own.bytes);
  const ledger::RequestId name = ledger::request_of(ledger::answer_name(now, own.bytes), 0);
  AuditRun order = is_fed ? feed(name) : generate(name);
  for (const ReceiptPipeline::Stage& stage : on->stages) order.nodes.push_back(stage.node);
  order.for_newcomers = on->checks;
  // They earn their standing by computing, and keep nothing of what others share.
  if (on->checks) order.cache = CacheScope::kOff;
  return {{name, std::move(on), is_fed, {}, {}}, std::move(order)};
}

bool AuditCase::same_tokens(const Run& run) const {
  const std::vector<TokenId>& claimed = request_.tokens;
  if (ended_by_itself()) return *run.tokens == claimed;
  const std::size_t fed = positions();
  // The next token of a prompt that was cut short is unknown.
  const std::size_t known = fed < request_.prompt_tokens ? fed : std::min(fed + 1, claimed.size());
  return run.tokens->size() >= known &&
         std::equal(claimed.begin(), claimed.begin() + static_cast<std::ptrdiff_t>(known),
                    run.tokens->begin());
}

AuditCase::Finding AuditCase::finding(const Run& run, std::uint32_t window, std::uint16_t stage,
                                      const Logged& logged) {
  const Hash256& root = run.windows.at(window)[stage]->out_root;
  return {logged.entry,       stage, window, root == logged.out_root, root, run.name,
          run.pipeline->epoch};
}

Result<bool> AuditCase::compare(const Run& run, bool last_too, std::vector<Finding>& found) const {
  const auto stages = static_cast<std::uint32_t>(pipeline_->stages.size());
  const std::uint32_t compared = last_too ? stages : stages - 1;
  const auto differs = ledger::first_difference(run.out_roots(), out_roots(), compared);
  for (const auto& [window, logged] : windows_) {
    const auto claimed = run.windows.find(window);
    REQUIRE(claimed != run.windows.end() && has_all(claimed->second, stages), "window ", window,
            " was not recomputed");
    for (std::uint32_t i = 0; i < compared; ++i) {
      const StageClaim& again = *claimed->second[i];
      REQUIRE(again.positions == logged[i]->positions, "window ", window, " has ", again.positions,
              " positions, and ", logged[i]->positions, " in its receipt");
      found.push_back(finding(run, window, static_cast<std::uint16_t>(i), *logged[i]));
      if (ledger::WindowPlace{window, i} == differs) return true;
      INVARIANT(found.back().agrees, "roots before the first difference are equal");
    }
  }
  return false;
}

// With the claimed tokens all stages before the last agree, so it had what the other one had when
// it sampled something else.
void AuditCase::blame_sampling(const Run& generated, Findings& findings) const {
  const auto [ours, theirs] = std::ranges::mismatch(request_.tokens, *generated.tokens);
  const auto at = static_cast<std::size_t>(ours - request_.tokens.begin());
  const auto window = static_cast<std::uint32_t>(at / limits::kWindowPositions);
  const auto logged = windows_.find(window);
  const auto claimed = generated.windows.find(window);
  const auto last = static_cast<std::uint16_t>(pipeline_->stages.size() - 1);
  if (at >= positions() || logged == windows_.end() || claimed == generated.windows.end() ||
      !has_all(claimed->second, pipeline_->stages.size())) {
    findings.beyond = "the last stage sampled another token at position " + std::to_string(at);
    return;
  }
  findings.all.push_back(finding(generated, window, last, *logged->second[last]));
}

Result<AuditCase::Findings> AuditCase::judge(const Run& generated, const Run* fed) const {
  Findings findings;
  if (fed == nullptr) {
    TRY_VOID(compare(generated, true, findings.all));
    return findings;
  }
  TRY(const bool differs, compare(*fed, false, findings.all));
  if (!differs) blame_sampling(generated, findings);
  return findings;
}

AuditOutcome AuditCase::disputed(const Finding& finding) const {
  AuditOutcome outcome{AuditOutcome::Kind::kDisputed, request_.order.request, request_.epoch};
  outcome.entry = finding.entry;
  outcome.stage = finding.stage;
  outcome.window = finding.window;
  outcome.node = pipeline_->stages[finding.stage].node;
  return outcome;
}

// --- the referee ---

ledger::RefereeCase claimed_case(const AuditCase& request) {
  return case_of(request, request.request().tokens, request.request().sampling);
}

ledger::RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated) {
  return case_of(request, *generated.tokens, request.generate(generated.name).sampling);
}

Result<ledger::DisputedRoots> disputed_roots(const AuditCase& request,
                                             const AuditCase::Finding& finding,
                                             const AuditCase::Run& generated,
                                             const AuditCase::Run* fed) {
  const ledger::WindowPlace place{finding.window, finding.stage};
  REQUIRE(request.is_logged() && finding.stage < stages_of(request) &&
              request.windows().contains(finding.window),
          ledger::place_name(place), " is outside the request");
  ledger::DisputedRoots out{request.out_roots(), place, finding.root};
  if (fed != nullptr) out.generated = generated.out_roots();
  return out;
}

bool is_right(const AuditCase& request, const ledger::RefereeFinding& claimed) {
  const ledger::WindowRoots logged = request.out_roots();
  return ledger::check_same_windows(logged, claimed.windows, stages_of(request)).ok() &&
         !ledger::first_difference(logged, claimed.windows, stages_of(request)) &&
         ledger::first_false_token(claimed_case(request), claimed) >=
             request.request().tokens.size();
}

Result<AuditCase::Findings> findings_of(const AuditCase& request,
                                        const ledger::RefereeFinding& claimed) {
  const ledger::WindowRoots logged = request.out_roots();
  const std::uint32_t stages = stages_of(request);
  TRY_VOID(ledger::check_same_windows(logged, claimed.windows, stages));
  const ledger::RefereeCase asked = claimed_case(request);
  const ledger::WindowRoots truth = ledger::true_roots(asked, claimed);
  const auto differs = ledger::first_difference(logged, truth, stages);
  AuditCase::Findings findings;
  for (const auto& [window, roots] : truth) {
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      const ledger::WindowPlace place{window, stage};
      const bool agrees = place != differs;
      findings.all.push_back({request.windows().at(window)[stage]->entry,
                              static_cast<std::uint16_t>(stage), window, agrees, roots[stage],
                              request.request().order.request, request.pipeline().epoch});
      if (!agrees) return findings;
    }
  }
  const std::size_t false_token = ledger::first_false_token(asked, claimed);
  if (false_token < request.request().tokens.size()) {
    findings.beyond = "token " + std::to_string(false_token) + " is not the model's";
  }
  return findings;
}

}  // namespace hearth::coordinator
