// The families that the engine runs, one row each.
#include <algorithm>
#include <array>

#include "model/spec.h"

namespace hearth::model {
namespace {

constexpr std::array<FamilyTraits, 1> kFamilies{{
    {.architecture = "llama",
     .rope = kernels::RopeStyle::kAdjacent,
     .activation = Activation::kSilu,
     .qkv_bias = false,
     .qk_norm = false,
     .post_norms = false,
     .scale_embeddings = false,
     .residual_shift = 6},
}};

}  // namespace

const FamilyTraits* find_family(std::string_view architecture) {
  const auto* found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const FamilyTraits& family) { return family.architecture == architecture; });
  return found == kFamilies.end() ? nullptr : found;
}

std::vector<std::string_view> known_families() {
  std::vector<std::string_view> names;
  for (const FamilyTraits& family : kFamilies) names.push_back(family.architecture);
  return names;
}

}  // namespace hearth::model
