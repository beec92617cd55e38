// The preconditions of the kernel table's entries (kernels.h), one function an entry. Each entry of
// each table calls its own before it touches memory: a wrong shape would read or write beyond a
// buffer, and then compute a wrong answer in silence. A few integer comparisons a call.
//
// Internal linkage throughout, so that a copy compiled for one instruction set never serves
// another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/matrix_view.h"

namespace hearth::kernels {

static inline bool is_whole_blocks(std::uint32_t width) {
  return width != 0 && width % kBlock == 0;
}

static inline bool is_aligned(const void* at, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(at) % alignment == 0;
}

// Row `t` of `out` is written.
static inline void check_quantized_row(const QuantizedRows& out, std::uint32_t t) {
  INVARIANT(t < out.rows, "the row is one of the quantised rows");
  INVARIANT(is_whole_blocks(out.cols), "a quantised row consists of whole blocks");
  INVARIANT(out.values != nullptr && out.scales != nullptr && out.sums != nullptr &&
                out.block_sums != nullptr && out.exponents != nullptr,
            "quantised rows have all of their arrays");
}

// Row groups [group_begin, group_end) of w times blocks [block_begin, block_end) of all rows of x.
static inline void check_product(const MatrixView& w, const QuantizedRows& x,
                                 std::uint32_t group_begin, std::uint32_t group_end,
                                 std::uint32_t block_begin, std::uint32_t block_end,
                                 std::size_t out_stride) {
  INVARIANT(x.cols == w.blocks * kBlock, "activations are as wide as the matrix");
  INVARIANT(group_begin <= group_end && group_end <= w.groups, "the row groups are in the matrix");
  INVARIANT(block_begin <= block_end && block_end <= w.blocks, "the blocks are in the row");
  INVARIANT(x.rows <= 1 || out_stride >= w.rows, "rows of the output do not overlap");
}

static inline void check_matrix_row(const MatrixView& w, std::uint32_t row) {
  INVARIANT(row < w.groups * kRowGroup, "the row is in the matrix, or pads its last group");
}

static inline void check_norm(std::uint32_t n, float epsilon) {
  INVARIANT(is_whole_blocks(n), "a normed row consists of whole blocks");
  INVARIANT(epsilon >= 0.0F, "the norm's epsilon is not negative");
}

static inline void check_rope(std::uint32_t head_dim) {
  INVARIANT(is_whole_blocks(head_dim), "a rotated head consists of whole blocks");
}

static inline void check_softcap(float cap) {
  INVARIANT(cap > 0.0F && cap <= kSoftcapMax, "a cap is in its range");
}

static inline void check_gates(std::uint32_t n) {
  INVARIANT(is_whole_blocks(n), "gates are whole blocks");
}

static inline void check_delta_step(std::uint32_t n) {
  INVARIANT(is_whole_blocks(n) && n <= kHeadDimMax, "a head fits the kernels' stacks");
}

static inline void check_residual(int shift) {
  INVARIANT(shift >= -64 && shift <= 64, "the residual's shift is at most 64");
}

static inline void check_kv_layout(const KvLayout& layout) {
  INVARIANT(layout.kv_heads != 0 && layout.latent == 0, "a KV page has heads, with K and V");
  INVARIANT(is_whole_blocks(layout.head_dim) && layout.head_dim <= kHeadDimMax,
            "a KV head consists of whole blocks and fits the kernels' stacks");
}

// Slot `slot` of a page is read or written.
static inline void check_kv_slot(const KvLayout& layout, const std::byte* page,
                                 std::uint32_t slot) {
  check_kv_layout(layout);
  INVARIANT(slot < kPageTokens, "the slot is in the page");
  INVARIANT(page != nullptr, "a slot has a page");
}

static inline void check_attention(const AttentionArgs& args) {
  check_kv_layout(args.layout);
  INVARIANT(args.kv_head < args.layout.kv_heads, "the head is in the page");
  INVARIANT(args.group != 0, "a KV head serves at least one query head");
  INVARIANT(args.begin < args.end && args.end <= kPositionsMax, "a query sees its own position");
  INVARIANT(args.score_scale >= 0.0F && args.score_scale <= 0x1p20F,
            "the score's scale is in its range");
  INVARIANT(args.score_cap >= 0.0F && args.score_cap <= kSoftcapMax, "a score's cap is in range");
  INVARIANT(args.scratch != nullptr && is_aligned(args.scratch, alignof(float)),
            "attention has room for its scores");
}

}  // namespace hearth::kernels
