// Constants and layouts of the canonical function, which CANONICAL.md specifies.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __FAST_MATH__
#error "canonical arithmetic cannot be built with fast-math"
#endif

namespace hearth::kernels {

inline constexpr std::uint32_t kCanonicalVersion = 3;

inline constexpr std::uint32_t kBlock = 32;       // weights and activations share one block length
inline constexpr std::uint32_t kRowGroup = 16;    // rows interleaved in a PackedMatrix
inline constexpr std::uint32_t kPageTokens = 32;  // positions of one KV page
inline constexpr int kGridBits = 30;              // |sum of one output| <= 2^30 grid steps
inline constexpr int kQuantMax = 127;             // int8 values are in [-127, 127]
inline constexpr int kExponentMin = -90;          // of an activation row
inline constexpr int kWeightExponentMin = -24;    // of a weight row, an all-zero one included
inline constexpr float kTiny = 0x1p-100F;         // a block or a weight below it counts as zero
inline constexpr float kAttentionMax = 0x1p40F;   // magnitude of what attention reads
inline constexpr float kSoftcapMax = 65'536.0F;   // cap of softcap
inline constexpr std::uint32_t kNormLanes = 256;  // strided partial sums of RMSNorm

enum class WeightType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIQ4_NL,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_XS,
  kMXFP4,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ1_S,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
};
inline constexpr std::uint32_t kWeightTypes = 25;
static_assert(kWeightTypes == static_cast<std::uint32_t>(WeightType::kTQ2_0) + 1);
inline constexpr std::uint32_t kSuperBlock = 256;  // of the K, IQ and TQ types but IQ4_NL
inline constexpr float kWeightMax = 0x1p64F;       // magnitude of a floating weight
inline constexpr std::uint32_t kPowerMax = 188;    // the byte of a scale 2^(byte - 128)

static_assert(kSuperBlock % kBlock == 0 && kNormLanes % kBlock == 0);
static_assert(kPageTokens % kRowGroup == 0, "keys are stored in groups of as many positions");
static_assert(kGridBits < 31, "the sum of one output fits 32 bits with a sign");
static_assert(kGridBits - kExponentMin <= 127, "the factor of the smallest row's grid is a float");
static_assert(kQuantMax * kQuantMax * kBlock < (1U << 24),
              "a block's dot product is exact in fp32");
static_assert(kQuantMax <= 127, "quants are int8");

}  // namespace hearth::kernels
