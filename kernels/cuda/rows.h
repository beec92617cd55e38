// The kernels of a card that work on rows: quantiser, norms, gates, RoPE with the KV write, sums
// and the residual. Same bits as the entries of the scalar table (kernels.h) whose names they bear.
//
// Every pointer is to device memory and holds for all rows at once, one after the other: row t of
// an (rows, n) array begins at t * n. Floats and the residual's bits are aligned to 16 bytes, all
// else as its type. Work is queued on the stream; nothing waits for it and nothing is allocated. An
// Error is of the launch alone (kInvalidInput for a shape, kIo with the runtime's words); failures
// of a row are reported per token: `failed[token]` becomes 1 where the scalar function returns
// false, and is never cleared here. It is 0 or 1 before, and nothing else touches it meanwhile, for
// the blocks of a row count in it. A failed row has the contents that kernels.h says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/stream.h"
#include "kernels/kernels.h"

namespace hearth::kernels::cuda {

// x (out.rows, out.cols) to `out`. One failure flag a row.
Status quantize(const float* x, const QuantizedRows& out, std::uint32_t* failed, Stream stream);

// `normed`, when not null, also gets the unquantised values; those of a failed row hold no meaning.
Status rms_norm_quantize(const float* x, const float* weight, float epsilon,
                         const QuantizedRows& out, float* normed, std::uint32_t* failed,
                         Stream stream);

// x (rows, n) to out (rows, n); `out` may be x. Row r sets the flag r / rows_of_token: the heads of
// a token are rows of their own.
Status rms_norm(const float* x, const float* weight, float epsilon, std::uint32_t rows,
                std::uint32_t n, std::uint32_t rows_of_token, float* out, std::uint32_t* failed,
                Stream stream);

Status swiglu_quantize(const float* gate, const float* up, const QuantizedRows& out,
                       std::uint32_t* failed, Stream stream);
Status geglu_quantize(const float* gate, const float* up, const QuantizedRows& out,
                      std::uint32_t* failed, Stream stream);

// x += y, and x += the bias (n) in every row.
Status add(float* x, const float* y, std::uint32_t rows, std::uint32_t n, Stream stream);
Status add_bias(float* x, const float* bias, std::uint32_t rows, std::uint32_t n, Stream stream);

// |shift| <= 64.
Status residual_round(float* x, std::uint16_t* bits, std::uint32_t rows, std::uint32_t n, int shift,
                      std::uint32_t* failed, Stream stream);
Status residual_expand(const std::uint16_t* bits, float* x, std::uint32_t rows, std::uint32_t n,
                       int shift, Stream stream);

// The end of a half of a layer, in one launch: y becomes rms_norm(y, post_norm), unless post_norm
// is null; x += y; residual_round of x, unless bits is null; then rms_norm_quantize(x, norm) to
// `out`, unless norm is null: `out` then gives rows and cols alone. The bits are those of the calls
// one after the other, but that y stays as it is, and that a row that has failed holds no meaning.
struct ResidualStep {
  float* x = nullptr;        // (out.rows, out.cols)
  const float* y = nullptr;  // (out.rows, out.cols)
  const float* post_norm = nullptr;
  std::uint16_t* bits = nullptr;
  int shift = 0;  // |shift| <= 64
  const float* norm = nullptr;
  float epsilon = 0.0F;  // of both norms
};
Status residual_step(const ResidualStep& step, const QuantizedRows& out, std::uint32_t* failed,
                     Stream stream);

// RoPE of the query in place; RoPE of the key and kv_write of key and value, which stay as they
// are.
struct RopeAndStore {
  std::uint32_t tokens = 0;
  std::uint32_t heads = 0;  // of the query
  KvLayout layout;
  RopeStyle style = RopeStyle::kAdjacent;
  float* query = nullptr;                // (tokens, heads, head_dim)
  const float* key = nullptr;            // (tokens, kv_heads, head_dim)
  const float* value = nullptr;          // (tokens, kv_heads, head_dim)
  const float* cos_sin = nullptr;        // (tokens, head_dim / 2, 2)
  std::byte* const* pages = nullptr;     // (tokens): this layer's page of each token's position
  const std::uint32_t* slots = nullptr;  // (tokens): the position's slot in it
};
Status rope_and_store(const RopeAndStore& args, std::uint32_t* failed, Stream stream);

}  // namespace hearth::kernels::cuda
