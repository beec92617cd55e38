// What the kernels of the product have in common: the arguments of those for many rows of x, the
// grid steps of a block of 32 columns, and the meeting of sums. product_few.cuh and
// product_eight.cuh take up to 16 rows of x, eight a launch; batch.cuh and wide.cuh take more.
#pragma once

#include <cmath>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/weights.cuh"

namespace hearth::kernels::cuda {

inline constexpr unsigned kProductWarps = 8;
inline constexpr unsigned kProductThreads = kProductWarps * 32;
inline constexpr std::uint32_t kUnitBlocks = 8;  // of 32 columns, of an item or a warp
inline constexpr std::uint32_t kListMost = 3;    // matrices of a launch

// One matrix of a list on the tensor cores.
struct ProductMatrix {
  Global<const std::byte> tiles;
  Global<const std::int32_t> exponents;
  Global<float> out;
  std::size_t out_stride;
  std::uint32_t rows;
  std::uint32_t row_tiles;
  std::uint32_t first_group;  // of the list's groups of rows; that of no matrix is behind all
};

struct ProductArgs {
  ProductMatrix matrices[kListMost];
  std::size_t tile_bytes;
  std::uint32_t blocks;   // of 32 columns
  std::uint32_t records;  // of a row
  std::uint32_t tokens;   // at most the kernel's
  std::uint32_t slots;    // blocks that the card runs at once
  std::uint32_t token_tiles;
  std::uint32_t shared_tiles;  // of outputs that the space has room for
  Global<const std::int8_t> values;
  Global<const float> scales;
  Global<const float> sums;
  Global<const std::int32_t> block_sums;
  Global<const std::int32_t> exponents;
  Global<std::int32_t> shared_sums;
  Global<std::uint32_t> tickets;
  std::uint32_t shares;        // of the columns, at least one
  std::uint32_t share_blocks;  // of a share, the last one's apart
};

// Where the share ends that begins at block `begin`.
HEARTH_DEVICE std::uint32_t share_end(const ProductArgs& args, std::uint32_t begin) {
  return args.blocks - begin < args.share_blocks ? args.blocks : begin + args.share_blocks;
}

HEARTH_DEVICE std::uint32_t half_sums(const Words4& low, const Words4& high) {
  std::int32_t first = 0;
  std::int32_t second = 0;
  HEARTH_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    first = dot_signed(0x01010101U, low.at[i], first);
    second = dot_signed(0x01010101U, high.at[i], second);
  }
  return (static_cast<std::uint32_t>(first) & 0xFFFFU) | static_cast<std::uint32_t>(second) << 16;
}

HEARTH_DEVICE std::int32_t half_sum(std::uint32_t both, unsigned r) {
  return static_cast<std::int16_t>(both >> (16 * r) & 0xFFFFU);
}

// The further value that a type needs of a block of activations: for types with a minimum, the sum
// as a float; for stored quants with a zero, the sum of the quants; for two scales, the sums of
// both halves in 16 bits each. `at`: the block's place in the arrays of x.
template <WeightType kType, typename Args>
HEARTH_DEVICE std::uint32_t extra_of(const Args& args, std::size_t at) {
  using R = Record<kType>;
  if constexpr (R::kTwoScales) {
    const auto values = args.values.template as<const Words4>();
    return half_sums(values.get(2 * at), values.get(2 * at + 1));
  } else if constexpr (R::kLayout.minimum) {
    return std::bit_cast<std::uint32_t>(args.sums.get(at));
  } else if constexpr (R::kZero != 0) {
    return static_cast<std::uint32_t>(args.block_sums.get(at));
  } else {
    return 0;
  }
}

// Grid steps of one block with one token: CANONICAL.md, "Matrix product". `dots`: of the stored
// quants, of the halves where the type has two scales; `row`: the scales with d and m times the
// row's factor.
template <WeightType kType>
HEARTH_DEVICE std::int32_t grid_steps(const std::int32_t (&dots)[2], const BlockScales& row,
                                      float scale, std::uint32_t extra) {
  using R = Record<kType>;
  const float unit = row.d * scale;
  if constexpr (R::kTwoScales) {
    const std::int32_t sums[2] = {half_sum(extra, 0), half_sum(extra, 1)};
    const std::int32_t dot =
        row.s[0] * (dots[0] - R::kZero * sums[0]) + row.s[1] * (dots[1] - R::kZero * sums[1]);
    if constexpr (!R::kLayout.minimum) return round_even(unit * static_cast<float>(dot));
    const float low = static_cast<float>(row.t[0] * sums[0] + row.t[1] * sums[1]);
    return round_even(std::fma(unit, static_cast<float>(dot), row.m * (scale * low)));
  } else if constexpr (R::kLayout.minimum) {
    const float offset = row.m * std::bit_cast<float>(extra);
    return round_even(std::fma(unit, static_cast<float>(dots[0]), offset));
  } else {
    const std::int32_t dot = dots[0] - R::kZero * static_cast<std::int32_t>(extra);
    return round_even(unit * static_cast<float>(dot));
  }
}

// The records that a warp has under way at once: some 90 to 210 bytes a lane, as many
// as every architecture has registers for.
template <WeightType kType>
struct Batch {
  static constexpr std::uint32_t kRecords = Record<kType>::kLayout.blocks == 8 ? 1
                                            : Record<kType>::kBytes <= 20      ? 8
                                            : Record<kType>::kBytes <= 34      ? 4
                                            : Record<kType>::kBytes <= 64      ? 2
                                                                               : 1;
  static constexpr std::uint32_t kBatches =
      kUnitBlocks / Record<kType>::kLayout.blocks / kRecords;  // of a unit
  Record<kType> records[kRecords];
};

// Turns the sum of a row and token into the output.
HEARTH_DEVICE void finish(const ProductArgs& args, const ProductMatrix& matrix, std::uint32_t row,
                          std::uint32_t token, std::int32_t sum) {
  const float row_factor = power_of_two(matrix.exponents.get(row));
  const float token_factor = power_of_two(args.exponents.get(token) - kGridBits);
  matrix.out.put(token * matrix.out_stride + row,
                 (static_cast<float>(sum) * row_factor) * token_factor);
}

// Whether this block is the last of args.shares to come here with `ticket`, after it has added its
// sums to args.shared_sums; what the others added is then seen. All threads call it; `word`: one
// that no thread needs any more.
template <typename Words>
HEARTH_DEVICE bool last_of_shares(const ProductArgs& args, std::uint32_t ticket, Words& word) {
  fence_device();
  sync_threads();
  if (thread_index() == 0) {
    word.put(0, atomic_add(args.tickets, ticket, 1U) + 1 == args.shares ? 1U : 0U);
  }
  sync_threads();
  if (word.get(0) == 0) return false;
  fence_device();
  if (thread_index() == 0) atomic_exchange(args.tickets, ticket, 0U);
  return true;
}

// The matrix of group `group` of rows.
HEARTH_DEVICE const ProductMatrix& matrix_of(const ProductArgs& args, std::uint32_t group) {
  const std::uint32_t second = group >= args.matrices[1].first_group ? 1 : 0;
  return args.matrices[group >= args.matrices[2].first_group ? 2 : second];
}

// Deals the row tiles of all matrices to groups of `tiles`; how many groups there are.
inline std::uint32_t deal_groups(ProductArgs& args, std::uint32_t tiles) {
  std::uint32_t groups = 0;
  for (ProductMatrix& matrix : args.matrices) {
    matrix.first_group = matrix.row_tiles == 0 ? ~0U : groups;
    groups += (matrix.row_tiles + tiles - 1) / tiles;
  }
  return groups;
}

// Cuts the columns into shares of whole steps of `step` blocks, as many as let the tiles of
// `groups` groups of rows take the fewest steps one after the other. A block takes about a step
// more than its share, and another one where sums of shares meet.
inline void cut_shares(ProductArgs& args, std::uint32_t groups, std::uint32_t step) {
  const std::uint32_t tiles = groups * args.token_tiles;
  const std::uint32_t steps = (args.blocks + step - 1) / step;
  const std::uint32_t most = tiles > args.shared_tiles ? 1 : 2 * args.slots / tiles + 1;
  std::uint64_t best = ~0ULL;
  for (std::uint32_t wanted = 1; wanted <= most && wanted <= steps; ++wanted) {
    const std::uint32_t each = (steps + wanted - 1) / wanted;
    const std::uint32_t shares = (steps + each - 1) / each;
    const std::uint64_t waves = (std::uint64_t{tiles} * shares + args.slots - 1) / args.slots;
    const std::uint64_t cost = waves * (each + (shares == 1 ? 1 : 2));
    if (cost >= best) continue;
    best = cost;
    args.shares = shares;
    args.share_blocks = each * step;
  }
}

}  // namespace hearth::kernels::cuda
