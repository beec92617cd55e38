#include "model/random_weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "model/gguf/quantize.h"

namespace hearth::model {
namespace {

// Where the fp16 numbers of a block are and what uniformly random bits elsewhere amount to.
struct RandomBlock {
  TensorType type;
  std::size_t scale_offset;
  float deviation;  // of the weights for a scale of 1
  float minimum;    // m or dmin for a scale of 1 that brings the mean to 0; 0: the type has none
};

constexpr std::array<RandomBlock, 9> kBlocks{{
    {TensorType::kQ5_0, 0, 9.25F, 0.0F},
    {TensorType::kQ5_1, 0, 9.23F, -15.5F},
    {TensorType::kIQ4_NL, 0, 67.4F, 0.0F},
    {TensorType::kQ2_K, 80, 13.9F, 1.5F},
    {TensorType::kQ3_K, 108, 43.4F, 0.0F},
    {TensorType::kQ4_K, 0, 258.0F, 7.5F},
    {TensorType::kQ5_K, 0, 527.0F, 15.5F},
    {TensorType::kQ6_K, 208, 1365.0F, 0.0F},
    {TensorType::kIQ4_XS, 0, 1246.0F, 0.0F},
}};

const RandomBlock* find(TensorType type) {
  const auto* found = std::find_if(kBlocks.begin(), kBlocks.end(),
                                   [&](const RandomBlock& block) { return block.type == type; });
  return found == kBlocks.end() ? nullptr : found;
}

void put_half(float value, std::byte* at) {
  const std::uint16_t half = half_from_float(value);
  std::memcpy(at, &half, sizeof half);
}

}  // namespace

bool has_random_blocks(TensorType type) { return find(type) != nullptr; }

void fill_random_blocks(TensorType type, float deviation,
                        const std::function<std::uint64_t()>& next, MutableByteSpan row) {
  const RandomBlock* block = find(type);
  INVARIANT(block != nullptr, "the caller asked has_random_blocks");
  for (std::size_t at = 0; at < row.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = next();
    std::memcpy(row.data() + at, &bits, std::min(sizeof bits, row.size() - at));
  }
  const std::size_t bytes = tensor_type_info(static_cast<std::uint32_t>(type))->block_bytes;
  const float scale = deviation / block->deviation;
  for (std::size_t at = 0; at < row.size(); at += bytes) {
    std::byte* halves = row.data() + at + block->scale_offset;
    put_half(scale, halves);
    if (block->minimum != 0.0F) put_half(scale * block->minimum, halves + 2);
  }
}

}  // namespace hearth::model
