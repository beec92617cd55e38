// Matrix product of quantised rows with a packed matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tiles.h"
#include "kernels/kernels.h"

namespace hearth::kernels::cuda {

// Sums of shares of the columns, and how many shares of a tile of rows are there: device memory for
// product_sums(rows) and product_tickets(rows) numbers. It must be all zero before its first use,
// and every product leaves it all zero. Products that may run at the same time need separate
// memory. `sums` is 8-byte aligned.
struct ProductSpace {
  std::int32_t* sums = nullptr;
  std::uint32_t* tickets = nullptr;
};
// For matrices of up to `rows` rows, and for lists that have up to product_list_rows(rows) rows
// together, each matrix counted in whole tiles.
std::size_t product_sums(std::uint32_t rows);
std::size_t product_tickets(std::uint32_t rows);
std::uint32_t product_list_rows(std::uint32_t rows);

// A matrix and where its product goes: out[t * out_stride + r] for every row r of w and every row t
// of x.
struct ProductOutput {
  CardMatrix w;
  float* out = nullptr;
  std::size_t out_stride = 0;
};

// The products of x with each matrix of the list, as Kernels::matmul. Up to 16 rows of x take the
// kernels of decoding, eight rows a launch. More rows take the kernels of many rows, whose tiles
// have 32 rows of x, beyond 32 of them 64. Floating weights always take those of decoding. One
// launch takes up to three matrices of one type, and in decoding with those of Q4_K and Q5_K the
// Q6_K that follow. `blocks`, the blocks of a kernel that a GPU runs at once, changes no bit; 0
// leaves it to the GPU. Pointers as in rows.h, but x.values 16-byte aligned. kInvalidInput where
// x.cols is not the w.cols of every matrix.
Status products(std::span<const ProductOutput> list, const QuantizedRows& x,
                const ProductSpace& space, Stream stream, std::uint32_t blocks = 0);
// That of one matrix.
Status product(const CardMatrix& w, const QuantizedRows& x, float* out, std::size_t out_stride,
               const ProductSpace& space, Stream stream, std::uint32_t blocks = 0);

// out (count, w.cols): the dequantised rows of w that `rows`, in the card's memory, names. Each
// must be below w.rows.
Status dequantize_rows(const CardMatrix& w, const std::uint32_t* rows, std::uint32_t count,
                       float* out, Stream stream);

}  // namespace hearth::kernels::cuda
