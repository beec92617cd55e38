#include "node/engine/loops.h"

#include <array>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kClaims = 8;  // of a loop, on each thread
constexpr std::size_t kProducts = 4;  // of the same rows, in a loop

}  // namespace

QuantBuffer::QuantBuffer(std::uint32_t rows, std::uint32_t most_cols)
    : values_(std::size_t{rows} * most_cols),
      scales_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      sums_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      block_sums_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      exponents_(rows) {}

kernels::QuantizedRows QuantBuffer::view(std::uint32_t rows, std::uint32_t cols) const {
  INVARIANT(rows <= exponents_.size() && std::size_t{rows} * cols <= values_.size(),
            "the buffer holds the quantised rows");
  kernels::QuantizedRows out;
  out.rows = rows;
  out.cols = cols;
  out.values = values_.data();
  out.scales = scales_.data();
  out.sums = sums_.data();
  out.block_sums = block_sums_.data();
  out.exponents = exponents_.data();
  return out;
}

kernels::QuantizedRows rows_from(kernels::QuantizedRows rows, std::uint32_t first,
                                 std::uint32_t count) {
  INVARIANT(first + count <= rows.rows, "some rows of others are among them");
  const std::size_t blocks = std::size_t{first} * (rows.cols / kernels::kBlock);
  rows.rows = count;
  rows.values += std::size_t{first} * rows.cols;
  rows.scales += blocks;
  rows.sums += blocks;
  rows.block_sums += blocks;
  rows.exponents += first;
  return rows;
}

void copy_row(const kernels::QuantizedRows& from, std::uint32_t row,
              const kernels::QuantizedRows& to, std::uint32_t t) {
  const kernels::QuantizedRows in = rows_from(from, row, 1);
  const kernels::QuantizedRows out = rows_from(to, t, 1);
  const std::size_t blocks = in.cols / kernels::kBlock;
  std::copy_n(in.values, in.cols, out.values);
  std::copy_n(in.scales, blocks, out.scales);
  std::copy_n(in.sums, blocks, out.sums);
  std::copy_n(in.block_sums, blocks, out.block_sums);
  *out.exponents = *in.exponents;
}

std::uint32_t Loops::grain_of(std::uint32_t units, std::uint32_t least) const {
  return std::max(least, units / (kClaims * pool_.threads()));
}

void Loops::multiply(const kernels::QuantizedRows& x,
                     std::initializer_list<Product> products) const {
  std::array<RowsProduct, kProducts> all;
  INVARIANT(x.rows != 0 && products.size() <= all.size(), "a product has rows");
  std::size_t count = 0;
  for (const Product& product : products) all[count++] = {product.matrix, x, product.out};
  multiply({all.data(), count}, std::max(1U, kLeastGroups / x.rows));
}

void Loops::multiply(std::span<const RowsProduct> products, std::uint32_t least) const {
  std::uint32_t groups = 0;
  for (const RowsProduct& product : products) groups += product.matrix->groups();
  const auto part = [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    std::uint32_t first = 0;  // group of the whole at which this product begins
    for (const RowsProduct& product : products) {
      const std::uint32_t last = first + product.matrix->groups();
      const std::uint32_t from = std::max(begin, first);
      const std::uint32_t to = std::min(end, last);
      if (from < to) {
        kernels_.matmul(*product.matrix, product.x, from - first, to - first, product.out,
                        product.matrix->rows());
      }
      first = last;
    }
  };
  pool_.parallel_for(groups, grain_of(groups, least), part);
}

}  // namespace hearth::node
