#include "node/engine/card/card_segments.h"

#include "kernels/cuda/attention.h"

namespace hearth::node {
namespace {

// From so many rows on, reading keys and values once for all of them is taken to outweigh that the
// context is not split. Not measured on a card.
constexpr std::uint32_t kPromptRowsLeast = 32;

}  // namespace

void attention_segments(std::span<const ForwardRow> rows, std::uint32_t group,
                        std::vector<AttentionSegment>& segments) {
  segments.clear();
  std::uint32_t end = 0;
  for (std::uint32_t begin = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end].pages == rows[begin].pages;) ++end;
    const bool prompt = end - begin >= kPromptRowsLeast &&
                        rows[end - 1].position < kernels::cuda::kPromptPositionsMost &&
                        group <= kernels::cuda::kPromptGroupMost;
    if (!prompt && !segments.empty() && !segments.back().prompt) {
      segments.back().rows += end - begin;
    } else {
      segments.push_back({begin, end - begin, prompt});
    }
  }
}

}  // namespace hearth::node
