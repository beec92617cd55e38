#include "model/random_weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "model/gguf/quantize.h"

namespace hearth::model {
namespace {

// The places of the fp16 numbers of a block, and the deviation of its weights when all other bits
// are uniformly random.
struct RandomBlock {
  TensorType type;
  std::size_t scale_offset;
  float deviation;  // of the weights for a scale of 1
  float minimum;    // m or dmin for a scale of 1 that brings the mean to 0; 0: the type has none
};

constexpr std::array<RandomBlock, 18> kBlocks{{
    {TensorType::kQ5_0, 0, 9.25F, 0.0F},
    {TensorType::kQ5_1, 0, 9.23F, -15.5F},
    {TensorType::kIQ4_NL, 0, 67.4F, 0.0F},
    {TensorType::kQ2_K, 80, 13.9F, 1.5F},
    {TensorType::kQ3_K, 108, 43.4F, 0.0F},
    {TensorType::kQ4_K, 0, 258.0F, 7.5F},
    {TensorType::kQ5_K, 0, 527.0F, 15.5F},
    {TensorType::kQ6_K, 208, 1365.0F, 0.0F},
    {TensorType::kIQ4_XS, 0, 1246.0F, 0.0F},
    {TensorType::kIQ2_XXS, 0, 53.4F, 0.0F},
    {TensorType::kIQ2_XS, 0, 55.9F, 0.0F},
    {TensorType::kIQ2_S, 0, 56.5F, 0.0F},
    {TensorType::kIQ3_XXS, 0, 142.5F, 0.0F},
    {TensorType::kIQ3_S, 0, 140.2F, 0.0F},
    {TensorType::kIQ1_S, 0, 7.21F, 0.0F},
    {TensorType::kIQ1_M, 48, 7.20F, 0.0F},
    {TensorType::kTQ1_0, 52, 0.817F, 0.0F},
    {TensorType::kTQ2_0, 64, 0.707F, 0.0F},
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

// In IQ1_M the number is in the highest four bits of four uint16.
void put_scattered(float value, std::byte* at) {
  const std::uint16_t half = half_from_float(value);
  for (unsigned i = 0; i < 4; ++i) {
    std::byte& high = at[2 * i + 1];
    high = (high & std::byte{0x0F}) | static_cast<std::byte>((half >> (4 * i) & 15) << 4);
  }
}

// TQ2_0 could hold a quant of 2, which its quantiser never writes and which would move the mean, so
// it becomes 0.
void remove_twos(std::byte* quants) {
  for (std::size_t i = 0; i < 64; ++i) quants[i] &= ~((quants[i] & std::byte{0x55}) << 1);
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
    if (type == TensorType::kTQ2_0) remove_twos(row.data() + at);
    if (type == TensorType::kIQ1_M) {
      put_scattered(scale, halves);
      continue;
    }
    put_half(scale, halves);
    if (block->minimum != 0.0F) put_half(scale * block->minimum, halves + 2);
  }
}

}  // namespace hearth::model
