// Loops: the loops of a step on all threads of a pool, and matrix products among them. QuantBuffer:
// the quantised rows that products read. The division of a loop never changes a bit of the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

namespace hearth::node {

// Memory for quantised rows.
class QuantBuffer {
 public:
  QuantBuffer() = default;
  QuantBuffer(std::uint32_t rows, std::uint32_t most_cols);
  kernels::QuantizedRows view(std::uint32_t rows, std::uint32_t cols) const;

 private:
  AlignedBuffer<std::int8_t> values_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<float> sums_;
  AlignedBuffer<std::int32_t> block_sums_;
  AlignedBuffer<std::int32_t> exponents_;
};

// Rows [first, first + count) of others.
kernels::QuantizedRows rows_from(kernels::QuantizedRows rows, std::uint32_t first,
                                 std::uint32_t count);
// Row `row` of `from` as row `t` of `to`.
void copy_row(const kernels::QuantizedRows& from, std::uint32_t row,
              const kernels::QuantizedRows& to, std::uint32_t t);

class Loops {
 public:
  // A thread claims at least this many values of a loop over rows, and row groups of a product with
  // one row.
  static constexpr std::uint32_t kRowValues = 4'096;
  static constexpr std::uint32_t kLeastGroups = 4;

  struct Product {
    const kernels::PackedMatrix* matrix;
    float* out;
  };
  struct RowsProduct {  // of rows of its own
    const kernels::PackedMatrix* matrix;
    kernels::QuantizedRows x;
    float* out;
  };

  Loops(const kernels::Kernels& kernels, kernels::ThreadPool& pool)
      : kernels_(kernels), pool_(pool) {}

  // Several products of the same rows, as one loop.
  void multiply(const kernels::QuantizedRows& x, std::initializer_list<Product> products) const;
  // `least`: row groups of a claim.
  void multiply(std::span<const RowsProduct> products, std::uint32_t least) const;
  // task(row) for every row in [0, rows), each of `width` values; inline when the work is too small
  // for other threads.
  template <typename Task>
  void for_rows(std::uint32_t rows, std::uint32_t width, const Task& task) const {
    const std::uint32_t least = std::max(1U, kRowValues / width);
    pool_.parallel_for(rows, grain_of(rows, least),
                       [&](std::uint32_t begin, std::uint32_t end, unsigned) {
                         for (std::uint32_t row = begin; row < end; ++row) task(row);
                       });
  }
  // task(begin, end, thread) for units [0, units), at least `least` at a time.
  template <typename Task>
  void for_units(std::uint32_t units, std::uint32_t least, const Task& task) const {
    pool_.parallel_for(units, grain_of(units, least), task);
  }

 private:
  // Units of one claim: few claims a thread, so that they cost little and still even out.
  std::uint32_t grain_of(std::uint32_t units, std::uint32_t least) const;

  const kernels::Kernels& kernels_;
  kernels::ThreadPool& pool_;
};

}  // namespace hearth::node
