// Entries of the scalar table that live in files of their own.
#pragma once

#include "kernels/kernels.h"

namespace hearth::kernels::scalar {

void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
            std::uint32_t group_end, float* out, std::size_t out_stride);
void matmul_partial(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                    std::uint32_t group_end, std::uint32_t block_begin, std::uint32_t block_end,
                    std::int32_t* out, std::size_t out_stride);
void dequantize_row(const PackedMatrix& w, std::uint32_t row, float* out);
bool kv_write(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* k,
              const float* v);
bool attention(const AttentionArgs& args);
// The inverse of kv_read: a slot of a page from its bytes, of which any are taken.
void kv_place(const KvLayout& layout, const std::byte* stored, std::byte* page, std::uint32_t slot);

}  // namespace hearth::kernels::scalar
