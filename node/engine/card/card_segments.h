// Which rows of a step attend together on a card.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "node/engine/stage_forward.h"

namespace hearth::node {

struct AttentionSegment {
  std::uint32_t begin = 0;
  std::uint32_t rows = 0;
  bool prompt = false;  // rows of one sequence, for cuda::attention_prompt; else cuda::attention
};

// The segments of a step, in order; neighbours that decode are one. `group`: query heads a kv head.
void attention_segments(std::span<const ForwardRow> rows, std::uint32_t group,
                        std::vector<AttentionSegment>& segments);

}  // namespace hearth::node
