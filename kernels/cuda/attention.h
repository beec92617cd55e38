// Attention over the paged int8 KV in a card's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/stream.h"
#include "kernels/kernels.h"

namespace hearth::kernels::cuda {

// One call's queries: decoding rows of many sequences, or the rows of a prompt, in any mixture. All
// pointers are to device memory.
struct AttentionRows {
  std::uint32_t tokens = 0;
  std::uint32_t heads = 0;  // query heads of a token, a multiple of layout.kv_heads
  KvLayout layout;
  const float* query = nullptr;  // (tokens, heads, head_dim), after RoPE
  // (tokens): each token's table of this layer's pages, from position 0 on; those wholly before
  // `begin` are never read. Pages are 64-byte aligned and laid out as the CPU's.
  const std::byte* const* const* pages = nullptr;
  const std::uint32_t* begins = nullptr;  // (tokens): first visible position
  const std::uint32_t* ends = nullptr;    // (tokens): one past the query's own position
  std::uint32_t pages_most = 0;           // no token's visible positions touch more pages
  float score_scale = 0.0F;               // as in AttentionArgs
  float* out = nullptr;                   // (tokens, heads, head_dim)
};

// Device memory of attention_scores(...) floats, whose contents do not matter, and of
// attention_state_bytes(...) bytes, all zero before its first use; every call leaves it so. Both
// are 16-byte aligned. Calls that may run at the same time need spaces of their own.
struct AttentionSpace {
  float* scores = nullptr;
  std::byte* state = nullptr;
};
std::size_t attention_scores(std::uint32_t tokens, std::uint32_t heads, std::uint32_t pages_most);
std::size_t attention_state_bytes(std::uint32_t tokens, std::uint32_t heads,
                                  std::uint32_t head_dim);

// As Kernels::attention for every token and kv head; `failed[token]` becomes 1 where that is false,
// and the output of the kv head's queries is then zero. kInvalidInput for heads that do not divide
// and head_dim beyond kHeadDimMax. A short context is one block's and one launch: up to 1,024
// positions by pages_most, and up to 2,048 where many blocks have at most four heads each. A longer
// one is split every 256 positions and takes three launches. No split changes a bit.
Status attention(const AttentionRows& rows, const AttentionSpace& space, std::uint32_t* failed,
                 Stream stream);

// The same bits for rows of one sequence, a prompt's: every token has the page table of the first.
// A block reads each key and value once for 16 queries, and needs no space: scores of up to 512
// positions stay in shared memory, and those of more are computed again for each of three passes.
// Accepts tokens whose visible positions end within kPromptPositionsMost, and up to
// kPromptGroupMost query heads for each kv head; kInvalidInput for more heads. `pages_most` is not
// read. `out` is 16-byte aligned.
Status attention_prompt(const AttentionRows& rows, std::uint32_t* failed, Stream stream);
inline constexpr std::uint32_t kPromptPositionsMost = 65'536;
inline constexpr std::uint32_t kPromptGroupMost = 64;
// Whether attention_prompt() is to be used. Not with OpenCL, where a driver compiles its kernel at
// run time: pocl 3.1 takes minutes.
bool has_prompt_attention();

}  // namespace hearth::kernels::cuda
