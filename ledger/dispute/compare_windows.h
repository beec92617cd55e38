// Comparison of the roots of windows: those that receipts or auditors claim with those that
// somebody computed again. Windows are compared from the first on, and in a window stages from the
// first on: what lies behind the first difference had another input. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "ledger/dispute/recompute.h"

namespace hearth::ledger {

struct WindowPlace {
  std::uint32_t window = 0;
  std::uint32_t stage = 0;
  friend auto operator<=>(const WindowPlace&, const WindowPlace&) = default;
};
std::string place_name(const WindowPlace& place);  // "window 0, stage 1"

// Whether both have the same windows, each with a root for each of `stages`. kInvalidInput names
// the first window for which that is not so.
Status check_same_windows(const WindowRoots& claimed, const WindowRoots& found,
                          std::uint32_t stages);

// The first place at which `claimed` has another root than `found`, among the windows of `found`
// and the first `stages` stages of each. A root that `claimed` has not is another one.
std::optional<WindowPlace> first_difference(const WindowRoots& claimed, const WindowRoots& found,
                                            std::uint32_t stages);

// The place in prompt and answer of the first claimed token that the model does not sample;
// everything is sampled as claimed: the number of claimed tokens.
std::size_t first_false_token(const RefereeCase& request, const RefereeFinding& finding);

// The roots that receipts of this request have to show. They are the finding's, but for the last
// stage of windows from the first false token on: its commitment is to the true tokens.
WindowRoots true_roots(const RefereeCase& request, const RefereeFinding& finding);

}  // namespace hearth::ledger
