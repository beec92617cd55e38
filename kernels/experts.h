// A mixture of experts (CANONICAL.md, "Experts"): the choice of a row's experts, and the sum of
// their outputs. Plain arithmetic that gives the same bits with every kernel table.
//
// Functions allocate nothing; one thread a call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace hearth::kernels {

inline constexpr std::uint32_t kExpertsMax = 1024;    // of a layer
inline constexpr std::uint32_t kExpertsUsedMax = 32;  // of them by a row
inline constexpr float kExpertMax = 0x1p21F;          // magnitude of what is summed

// Chooses used.size() of logits.size() experts: `used` gets their indices in ascending order,
// `weights` (as long) their weights. `bias`: added to the sigmoids for the choice alone, as long as
// the logits; or empty. The groups that a row uses have at least used.size() experts. False where a
// logit is not finite: the choice is then the first experts, with weight 0.
bool choose_experts(std::span<const float> logits, std::span<const float> bias,
                    const ExpertRouting& routing, std::span<std::uint16_t> used,
                    std::span<float> weights);

// The weight of the shared expert, by the logit of its gate. NaN and infinities give no result.
float shared_expert_weight(float logit);

// The output of one expert for a row.
struct ExpertOutput {
  const float* values = nullptr;  // (n)
  float weight = 0.0F;
};

// Adds the outputs of some experts to `sums` (n), which begin at 0: integers below 2^53, of steps
// of 2^-26, held as doubles. The sums of any shares of the experts add up, as numbers and in any
// order. False when a weighted value is not finite or above kExpertMax: sums then have no meaning.
bool add_experts(std::span<const ExpertOutput> outputs, std::uint32_t n, double* sums);
// The outputs of a layer from the sums of all its experts.
void expert_outputs(const double* sums, std::uint32_t n, float* out);

// The pairs of a row and an expert that it uses, ordered by expert, then row: an expert's weights
// are then read once for all rows of a step, and experts that no row uses are not read.
class ExpertGroups {
 public:
  struct Group {  // pairs [first, first + count) are of this expert
    std::uint32_t expert = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  // For steps of at most `rows` rows.
  ExpertGroups(std::uint32_t experts, std::uint32_t used, std::uint32_t rows);
  // The arrays that choose_experts fills for a row.
  std::span<std::uint16_t> used(std::uint32_t row) {
    return {chosen_.data() + std::size_t{row} * used_, used_};
  }
  std::span<float> weights(std::uint32_t row) {
    return {weights_.data() + std::size_t{row} * used_, used_};
  }
  // Orders the pairs of rows [0, rows), whose experts are chosen.
  void group(std::uint32_t rows);
  const std::vector<Group>& groups() const { return groups_; }
  std::uint32_t row_of(std::uint32_t pair) const { return rows_[pair]; }
  std::uint32_t expert_of(std::uint32_t pair) const { return experts_[pair]; }
  float weight_of(std::uint32_t pair) const {
    const std::size_t first = std::size_t{rows_[pair]} * used_;
    std::size_t at = first;
    while (pairs_[at] != pair) ++at;
    return weights_[at];
  }
  // The pair of a row and its expert number i.
  std::uint32_t pair_of(std::uint32_t row, std::uint32_t i) const {
    return pairs_[std::size_t{row} * used_ + i];
  }

 private:
  const std::uint32_t used_;
  std::vector<std::uint16_t> chosen_;   // (rows, used)
  std::vector<float> weights_;          // (rows, used)
  std::vector<std::uint32_t> pairs_;    // (rows, used)
  std::vector<std::uint32_t> rows_;     // of each pair
  std::vector<std::uint16_t> experts_;  // of each pair
  std::vector<std::uint32_t> next_;     // of each expert, while pairs are placed
  std::vector<Group> groups_;
};

}  // namespace hearth::kernels
