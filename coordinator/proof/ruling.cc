#include "coordinator/proof/ruling.h"

#include <algorithm>

#include "base/limits.h"
#include "proto/committed_sampling.h"

namespace hearth::coordinator {
namespace {

using Windows = std::map<std::uint32_t, std::vector<RefereeFinding::Roots>>;

std::vector<LayerRange> split_of(const ReceiptPipeline& pipeline) {
  std::vector<LayerRange> split;
  for (const ReceiptPipeline::Stage& stage : pipeline.stages) split.push_back(stage.layers);
  return split;
}

RefereeCase case_of(const AuditCase& request, const std::vector<TokenId>& tokens,
                    const SamplingParams& sampling) {
  RefereeCase out;
  out.salt = request.request().order.salt;
  out.split = split_of(request.pipeline());
  out.sampling = sampling;
  out.positions = std::min(request.positions(), static_cast<std::uint32_t>(tokens.size()));
  const auto prompt = std::min(request.request().prompt_tokens, out.positions);
  out.prompt.assign(tokens.begin(), tokens.begin() + prompt);
  // Of a prompt that was cut short nobody knows an answer.
  const bool is_cut = prompt < request.request().prompt_tokens;
  if (!is_cut) out.answer.assign(tokens.begin() + prompt, tokens.end());
  return out;
}

std::string place(std::uint32_t window, std::size_t stage) {
  return "window " + std::to_string(window) + ", stage " + std::to_string(stage);
}

// Whether the referee has each of these windows, whole.
Status check_whole(const AuditCase& request, const Windows& windows) {
  const std::size_t stages = request.pipeline().stages.size();
  for (const auto& [window, logged] : request.windows()) {
    const auto found = windows.find(window);
    REQUIRE(found != windows.end() && found->second.size() == stages,
            "the referee has not computed window " + std::to_string(window));
  }
  return ok_status();
}

// The first that is false before this place; stages before the last only. Nothing: none.
template <typename Said>
std::string false_before(const Windows& truth, std::uint32_t window, std::size_t stage,
                         std::size_t stages, Said said) {
  for (const auto& [number, roots] : truth) {
    for (std::size_t i = 0; i + 1 < stages; ++i) {
      if (number > window || (number == window && i >= stage)) return "";
      if (said(number, i) != roots[i].out) return place(number, i);
    }
  }
  return "";
}

// The first position whose token the model does not sample.
std::size_t first_false_token(const AuditCase& request, const RefereeFinding& found) {
  const std::vector<TokenId>& tokens = request.request().tokens;
  const std::size_t prompt = request.request().prompt_tokens;
  for (std::size_t i = 0; i < found.sampled.size() && prompt + i < tokens.size(); ++i) {
    if (found.sampled[i] != tokens[prompt + i]) return prompt + i;
  }
  return tokens.size();
}

Hash256 commitment(const AuditCase& request, const RefereeFinding& found, std::uint32_t window) {
  std::vector<std::uint32_t> tokens;
  const std::vector<TokenId>& claimed = request.request().tokens;
  const std::size_t prompt = std::min(request.request().prompt_tokens, request.positions());
  const std::size_t first = std::size_t{window} * limits::kWindowPositions;
  const std::size_t end =
      std::min<std::size_t>(first + limits::kWindowPositions, request.positions());
  for (std::size_t p = first; p < end && p < prompt + found.tokens.size(); ++p) {
    tokens.push_back(
        static_cast<std::uint32_t>(p < prompt ? claimed[p] : found.tokens[p - prompt]));
  }
  return ledger::commit_tokens(request.request().order.salt, static_cast<std::uint32_t>(first),
                               tokens, encode_committed(request.request().sampling));
}

}  // namespace

RefereeCase claimed_case(const AuditCase& request) {
  return case_of(request, request.request().tokens, request.request().sampling);
}

RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated) {
  return case_of(request, *generated.tokens, request.generate(generated.name).sampling);
}

bool is_right(const AuditCase& request, const RefereeFinding& claimed) {
  const std::size_t stages = request.pipeline().stages.size();
  const auto said = [&](std::uint32_t w, std::size_t s) {
    return request.windows().at(w)[s]->out_root;
  };
  return check_whole(request, claimed.windows).ok() &&
         false_before(claimed.windows, claimed.windows.rbegin()->first, stages, stages, said)
             .empty() &&
         first_false_token(request, claimed) >= request.request().tokens.size();
}

Result<AuditCase::Findings> findings_of(const AuditCase& request, const RefereeFinding& claimed) {
  TRY_VOID(check_whole(request, claimed.windows));
  AuditCase::Findings findings;
  const std::size_t last = request.pipeline().stages.size() - 1;
  const std::size_t false_token = first_false_token(request, claimed);
  for (const auto& [window, logged] : request.windows()) {
    const std::size_t end =
        std::size_t{window} * limits::kWindowPositions + logged[last]->positions;
    for (std::size_t i = 0; i <= last; ++i) {
      const bool moved = i == last && false_token < end;
      const Hash256 root =
          moved ? commitment(request, claimed, window) : claimed.windows.at(window)[i].out;
      const bool agrees = root == logged[i]->out_root;
      findings.all.push_back({logged[i]->entry, static_cast<std::uint16_t>(i), window, agrees, root,
                              request.request().order.request, request.pipeline().epoch});
      if (!agrees) return findings;
    }
  }
  if (false_token < request.request().tokens.size()) {
    findings.beyond = "token " + std::to_string(false_token) + " is not the model's";
  }
  return findings;
}

Result<Ruling> rule(const AuditCase& request, const AuditCase::Finding& finding,
                    const AuditCase::Run& generated, const AuditCase::Run* fed,
                    const RefereeFinding& claimed, const RefereeFinding* audited) {
  Ruling ruling;
  const std::size_t stages = request.pipeline().stages.size();
  const std::size_t last = stages - 1;
  const auto window = request.windows().find(finding.window);
  REQUIRE(finding.stage < stages && window != request.windows().end(),
          place(finding.window, finding.stage) + " is none of the request's");
  TRY_VOID(check_whole(request, claimed.windows));
  const std::string before = false_before(
      claimed.windows, finding.window, finding.stage, stages,
      [&](std::uint32_t w, std::size_t s) { return request.windows().at(w)[s]->out_root; });
  if (!before.empty()) {
    ruling.why = before + " is false before it, where both sides say the same";
    return ruling;
  }
  const Hash256& said = window->second[finding.stage]->out_root;
  if (finding.stage < last) {
    ruling.truth = claimed.windows.at(finding.window)[finding.stage].out;
    ruling.who = said != ruling.truth ? Ruling::False::kWorker : Ruling::False::kAuditor;
    ruling.is_alone = said != ruling.truth && finding.root != ruling.truth;
    return ruling;
  }
  const std::size_t end =
      std::size_t{finding.window} * limits::kWindowPositions + window->second[last]->positions;
  ruling.truth = commitment(request, claimed, finding.window);
  if (first_false_token(request, claimed) < end) {
    ruling.who = Ruling::False::kWorker;
    return ruling;
  }
  if (fed == nullptr) {  // the same tokens, and another commitment to them
    ruling.who = Ruling::False::kAuditor;
    return ruling;
  }
  if (audited == nullptr) {
    ruling.why = "what the auditing pipeline's own tokens give is not known";
    ruling.wants_audited = true;
    return ruling;
  }
  const std::string theirs = false_before(
      audited->windows, finding.window, last, stages, [&](std::uint32_t w, std::size_t s) {
        const auto found = generated.windows.find(w);
        const bool there = found != generated.windows.end() && s < found->second.size();
        return there && found->second[s] ? found->second[s]->out_root : Hash256();
      });
  if (theirs.empty()) {
    ruling.who = Ruling::False::kAuditor;
  } else {
    ruling.why = theirs + " of the auditing pipeline is false, which is no party of the dispute";
  }
  return ruling;
}

}  // namespace hearth::coordinator
