#include "coordinator/proof/referee_case.h"

#include <algorithm>

namespace hearth::coordinator {
namespace {

using ledger::RefereeCase;
using ledger::RefereeFinding;
using ledger::WindowPlace;

std::uint32_t stages_of(const AuditCase& request) {
  return static_cast<std::uint32_t>(request.pipeline().stages.size());
}

RefereeCase case_of(const AuditCase& request, const std::vector<TokenId>& tokens,
                    const SamplingParams& sampling) {
  RefereeCase out;
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

RefereeCase claimed_case(const AuditCase& request) {
  return case_of(request, request.request().tokens, request.request().sampling);
}

RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated) {
  return case_of(request, *generated.tokens, request.generate(generated.name).sampling);
}

Result<ledger::DisputedRoots> disputed_roots(const AuditCase& request,
                                             const AuditCase::Finding& finding,
                                             const AuditCase::Run& generated,
                                             const AuditCase::Run* fed) {
  const WindowPlace place{finding.window, finding.stage};
  REQUIRE(request.is_logged() && finding.stage < stages_of(request) &&
              request.windows().contains(finding.window),
          ledger::place_name(place) + " is outside the request");
  ledger::DisputedRoots out{request.out_roots(), place, finding.root};
  if (fed != nullptr) out.generated = generated.out_roots();
  return out;
}

bool is_right(const AuditCase& request, const RefereeFinding& claimed) {
  const ledger::WindowRoots logged = request.out_roots();
  return ledger::check_same_windows(logged, claimed.windows, stages_of(request)).ok() &&
         !ledger::first_difference(logged, claimed.windows, stages_of(request)) &&
         ledger::first_false_token(claimed_case(request), claimed) >=
             request.request().tokens.size();
}

Result<AuditCase::Findings> findings_of(const AuditCase& request, const RefereeFinding& claimed) {
  const ledger::WindowRoots logged = request.out_roots();
  const std::uint32_t stages = stages_of(request);
  TRY_VOID(ledger::check_same_windows(logged, claimed.windows, stages));
  const RefereeCase asked = claimed_case(request);
  const ledger::WindowRoots truth = ledger::true_roots(asked, claimed);
  const auto differs = ledger::first_difference(logged, truth, stages);
  AuditCase::Findings findings;
  for (const auto& [window, roots] : truth) {
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      const WindowPlace place{window, stage};
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
