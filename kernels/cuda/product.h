// Matrix product of quantised rows with a packed matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tiles.h"
#include "kernels/kernels.h"

namespace hearth::kernels::cuda {

// Sums of shares of the columns, and how many shares of a tile of rows are there: device memory for
// product_sums(rows) and product_tickets(rows) numbers. It must be all zero before its first use,
// and every product leaves it all zero. Products that may run at the same time need separate
// memory.
struct ProductSpace {
  std::int32_t* sums = nullptr;
  std::uint32_t* tickets = nullptr;
};
std::size_t product_sums(std::uint32_t rows);
std::size_t product_tickets(std::uint32_t rows);

// out[t * out_stride + r] for every row r of w and every row t of x, as Kernels::matmul. Up to
// eight rows of x take the kernel of decoding, more those of the integer tensor cores, whose tiles
// have 32 rows of x, beyond 32 of them 64; floating weights always take those of decoding.
// `tiles_of_block`, tiles of 32 rows that a block takes one after the other with the same
// activations, changes no bit; 0 leaves it to the product. Pointers as in rows.h, but x.values
// 16-byte aligned. kInvalidInput where x.cols is not w.cols.
Status product(const CardMatrix& w, const QuantizedRows& x, float* out, std::size_t out_stride,
               const ProductSpace& space, Stream stream, std::uint32_t tiles_of_block = 0);

// out (count, w.cols): the dequantised rows of w that `rows`, in the card's memory, names. Each
// must be below w.rows.
Status dequantize_rows(const CardMatrix& w, const std::uint32_t* rows, std::uint32_t count,
                       float* out, Stream stream);

}  // namespace hearth::kernels::cuda
