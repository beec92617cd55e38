#include "node/engine/device.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/tiles.h"

namespace hearth::node {

// Embedding and output stand at the ends, so that a stage in the middle takes no more.
Result<std::uint32_t> layers_within(const Device& device, const model::GgufFile& file,
                                    const model::ModelSpec& spec, EngineOptions options) {
  TRY(const std::uint64_t budget, device.budget());
  std::uint32_t fit = 0;
  for (; fit < spec.layers; ++fit) {
    std::uint64_t least = 0;
    for (const std::uint32_t begin : {0U, spec.layers - fit - 1}) {
      options.layers = {begin, begin + fit + 1};
      TRY(const StageMemory memory, device.memory(file, spec, options));
      least = std::max(least, memory.least());
    }
    if (least > budget) break;
  }
  return fit;
}

Status check_emulation(const model::ModelSpec& spec, const Device* device) {
  const bool emulates = device != nullptr && device->emulates();
  REQUIRE(
      emulates || !spec.shape_only, "the model file of ", spec.name,
      " has a shape and no weights: only an emulated GPU runs it (hearth worker --emulate GPU)");
  REQUIRE(
      spec.shape_only || !emulates, device->name(),
      " computes nothing, and the model file has weights: pass --shape NAME in place of --model");
  return ok_status();
}

std::string_view what_no_card_computes(const model::FamilyTraits& family, std::uint32_t experts) {
  if (experts > 0 || family.experts == model::Experts::kAlways) return "experts";
  if (family.delta_net) return "gated delta nets";
  if (family.latent) return "latent attention";
  if (!family.pre_norms) return "no norms before attention and feed-forward";
  if (family.head_norms == model::HeadNorms::kTogether) return "norms over all heads together";
  if (family.fused_qkv || family.fused_gate_up) return "fused matrices";
  if (family.unturned_every != 0) return "layers without RoPE";
  if (family.part_rotary) return "heads that RoPE turns in part";
  if (family.scales) return "scaled branches and logits";
  if (family.caps) return "capped scores and logits";
  if (family.own_local_heads) return "heads of two sizes";
  if (family.temperature || family.unturned_temperature) {
    return "scores that grow with the position";
  }
  return "";
}

bool card_computes(kernels::WeightType type) { return kernels::cuda::has_tiles(type); }

}  // namespace hearth::node
