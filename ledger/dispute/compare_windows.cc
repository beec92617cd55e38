#include "ledger/dispute/compare_windows.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "ledger/receipt.h"
#include "proto/committed_sampling.h"

namespace hearth::ledger {
namespace {

// To the tokens of a window that the model gives; they may end before it does.
Hash256 true_commitment(const RefereeCase& request, const RefereeFinding& finding,
                        std::uint32_t window) {
  const std::size_t first = std::size_t{window} * limits::kWindowPositions;
  const std::size_t end =
      std::min<std::size_t>(first + limits::kWindowPositions, request.positions);
  std::vector<std::uint32_t> tokens;
  tokens.reserve(end - first);
  const std::size_t prompt = request.prompt.size();
  for (std::size_t p = first; p < end && p < prompt + finding.tokens.size(); ++p) {
    const TokenId token = p < prompt ? request.prompt[p] : finding.tokens[p - prompt];
    tokens.push_back(static_cast<std::uint32_t>(token));
  }
  return commit_tokens(request.salt, static_cast<std::uint32_t>(first), tokens,
                       encode_committed(request.sampling));
}

}  // namespace

std::string place_name(const WindowPlace& place) {
  return message_of("window ", place.window, ", stage ", place.stage);
}

Status check_same_windows(const WindowRoots& claimed, const WindowRoots& found,
                          std::uint32_t stages) {
  for (const auto& [window, roots] : claimed) {
    const auto other = found.find(window);
    REQUIRE(other != found.end() && roots.size() == stages && other->second.size() == stages,
            "window ", window, " was not computed with its ", stages, " stages");
  }
  for (const auto& [window, roots] : found) {
    REQUIRE(claimed.contains(window), "window ", window,
            " was computed, and the request has none of it");
  }
  return ok_status();
}

std::optional<WindowPlace> first_difference(const WindowRoots& claimed, const WindowRoots& found,
                                            std::uint32_t stages) {
  for (const auto& [window, roots] : found) {
    INVARIANT(roots.size() >= stages, "a window that was computed has a root for each stage");
    const auto other = claimed.find(window);
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      const bool is_there = other != claimed.end() && stage < other->second.size();
      if (!is_there || other->second[stage] != roots[stage]) return WindowPlace{window, stage};
    }
  }
  return std::nullopt;
}

std::size_t first_false_token(const RefereeCase& request, const RefereeFinding& finding) {
  const auto [ours, theirs] = std::ranges::mismatch(finding.sampled, request.answer);
  const bool is_false = ours != finding.sampled.end() && theirs != request.answer.end();
  const auto right = static_cast<std::size_t>(theirs - request.answer.begin());
  return request.prompt.size() + (is_false ? right : request.answer.size());
}

WindowRoots true_roots(const RefereeCase& request, const RefereeFinding& finding) {
  WindowRoots roots = finding.windows;
  const std::size_t false_token = first_false_token(request, finding);
  for (auto& [window, stages] : roots) {
    INVARIANT(!stages.empty(), "a window that was computed has stages");
    const std::size_t end = std::min<std::size_t>(
        (std::size_t{window} + 1) * limits::kWindowPositions, request.positions);
    if (false_token < end) stages.back() = true_commitment(request, finding, window);
  }
  return roots;
}

}  // namespace hearth::ledger
