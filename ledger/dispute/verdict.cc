#include "ledger/dispute/verdict.h"

#include <algorithm>

#include "base/limits.h"

namespace hearth::ledger {
namespace {

// The first difference that lies before `end`, of all stages but the last.
std::optional<WindowPlace> difference_before(const WindowRoots& claimed, const WindowRoots& found,
                                             std::uint32_t stages, const WindowPlace& end) {
  const auto place = first_difference(claimed, found, stages - 1);
  return place && *place < end ? place : std::nullopt;
}

}  // namespace

Result<Ruling> rule(const DisputedRoots& disputed, const RefereeCase& request,
                    const RefereeFinding& finding, const RefereeFinding* audited) {
  const auto stages = static_cast<std::uint32_t>(request.split.size());
  const WindowPlace& place = disputed.place;
  REQUIRE(stages > 0 && place.stage < stages && disputed.claimed.contains(place.window),
          place_name(place), " is outside the request");
  TRY_VOID(check_same_windows(disputed.claimed, finding.windows, stages));
  Ruling ruling;
  if (const auto before = difference_before(disputed.claimed, finding.windows, stages, place)) {
    ruling.why = place_name(*before) + " is false before it, where both sides say the same";
    return ruling;
  }
  const Hash256& worker = disputed.claimed.at(place.window)[place.stage];
  ruling.truth = true_roots(request, finding).at(place.window)[place.stage];
  if (place.stage + 1 < stages) {
    ruling.who = worker != ruling.truth ? Ruling::False::kWorker : Ruling::False::kAuditor;
    ruling.is_alone = worker != ruling.truth && disputed.auditor != ruling.truth;
    return ruling;
  }
  const std::size_t end = std::min<std::size_t>(
      (std::size_t{place.window} + 1) * limits::kWindowPositions, request.positions);
  if (first_false_token(request, finding) < end) {
    ruling.who = Ruling::False::kWorker;
    return ruling;
  }
  if (!disputed.generated) {  // the same tokens, and another commitment to them
    ruling.who = Ruling::False::kAuditor;
    return ruling;
  }
  if (audited == nullptr) {
    ruling.why = "the result for the auditing pipeline's own tokens is missing";
    ruling.wants_audited = true;
    return ruling;
  }
  for (const auto& [window, roots] : audited->windows) {
    REQUIRE(roots.size() == stages, "window ", window,
            " of the auditor's tokens was not computed with its ", stages, " stages");
  }
  const auto theirs =
      difference_before(*disputed.generated, audited->windows, stages, {place.window, stages - 1});
  if (!theirs) {
    ruling.who = Ruling::False::kAuditor;
  } else {
    ruling.why = place_name(*theirs) +
                 " of the auditing pipeline is false, which is no party of the dispute";
  }
  return ruling;
}

Verdict verdict_of(const Judged& judged) {
  if (judged.plea == Plea::kContested) return Verdict::kFraud;
  const bool is_sound = judged.weights_whole && judged.self_test_passed;
  return judged.same_again && is_sound ? Verdict::kFraud : Verdict::kFault;
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnjudged: return "unjudged";
    case Verdict::kFraud: return "fraud";
    case Verdict::kFault: break;
  }
  return "fault";
}

}  // namespace hearth::ledger
