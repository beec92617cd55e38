// Latent attention (CANONICAL.md, sections 7 and 8): a position keeps one row for all heads, of
// which keys and values are made. Plain arithmetic that gives the same bits with every kernel
// table.
//
// Functions allocate nothing; one thread a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth::kernels {

inline constexpr std::uint32_t kLatentMax = 1024;  // values of a row

// Quantises a position's row (layout.head_dim) into slot `slot` of a page. False when a value is
// not finite or its magnitude is above kAttentionMax; the slot then holds no meaning.
bool latent_write(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* row);

struct LatentArgs {
  KvLayout layout;                          // the first `latent` of a row's values are values
  const float* query = nullptr;             // (head_dim), of one head, after RoPE
  const std::byte* const* pages = nullptr;  // this layer's pages, in order from position 0
  std::uint32_t end = 0;                    // one past the query's own position
  float score_scale = 0.0F;                 // before log2(e) is folded in; in [0, 2^20]
  float* scratch = nullptr;                 // (end)
  float* out = nullptr;                     // (latent)
};
// False when a value of the query is not finite or its magnitude is above kAttentionMax; out is
// then all zero.
bool latent_attention(const LatentArgs& args);

// As kv_read.
void latent_read(const KvLayout& layout, const std::byte* page, std::uint32_t slot, std::byte* out);

}  // namespace hearth::kernels
