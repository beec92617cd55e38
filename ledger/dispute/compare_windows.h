// Compares the claimed roots of windows, from receipts or auditors, with recomputed ones. Windows,
// and stages in a window, are compared in order, because everything after the first difference had
// another input. Pure functions, any thread.
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
// and the first `stages` stages of each. A missing claimed root counts as different.
std::optional<WindowPlace> first_difference(const WindowRoots& claimed, const WindowRoots& found,
                                            std::uint32_t stages);

// The index, in prompt and answer together, of the first claimed answer token that the model does
// not sample. If all are right: the number of tokens of prompt and answer.
std::size_t first_false_token(const RefereeCase& request, const RefereeFinding& finding);

// The right roots for this request's receipts: those of the finding, except for the last stage in
// windows from the first false token's on. There the root is the commitment to the true tokens.
WindowRoots true_roots(const RefereeCase& request, const RefereeFinding& finding);

}  // namespace hearth::ledger
