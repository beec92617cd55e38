#include "node/machine/weight_rate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/thread_pool.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kRows = 16'384;
constexpr std::uint32_t kCols = 2'048;
constexpr std::size_t kBlockBytes = 34;  // Q8_0: a half-precision scale and 32 values
constexpr std::uint32_t kGroupsAtOnce = 32;
constexpr int kRounds = 5;  // the first one warms up; the best counts

static_assert(kCols % kernels::kBlock == 0 && kRows % kernels::kRowGroup == 0,
              "the matrix has whole blocks and whole groups of rows");
static_assert(kBlockBytes == sizeof(std::uint16_t) + kernels::kBlock,
              "a Q8_0 block is a scale and one byte for each value");
static_assert(kRounds > 1, "at least one round counts");

}  // namespace

Result<double> measure_weight_rate(const kernels::Kernels& kernels, std::uint32_t threads) {
  const Bytes blocks(std::size_t{kRows} * kCols / kernels::kBlock * kBlockBytes);
  TRY(const kernels::PackedMatrix weights,
      kernels::PackedMatrix::pack(kernels::WeightType::kQ8_0, kRows, kCols, blocks));
  TRY(const auto pool, kernels::ThreadPool::create(threads));

  std::vector<std::int8_t> values(kCols + 64);
  std::vector<float> scales(kCols / kernels::kBlock + 16);
  std::vector<float> sums(kCols / kernels::kBlock + 16);
  std::vector<std::int32_t> block_sums(kCols / kernels::kBlock + 16);
  std::int32_t exponent = 0;
  kernels::QuantizedRows x;
  x.rows = 1;
  x.cols = kCols;
  x.values = values.data();
  x.scales = scales.data();
  x.sums = sums.data();
  x.block_sums = block_sums.data();
  x.exponents = &exponent;
  std::vector<float> out(std::size_t{weights.groups()} * kernels::kRowGroup + 16);

  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begun = std::chrono::steady_clock::now();
    pool->parallel_for(weights.groups(), kGroupsAtOnce,
                       [&](std::uint32_t begin, std::uint32_t end, unsigned) {
                         kernels.matmul(weights, x, begin, end, out.data(), out.size());
                       });
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
    if (round > 0) best = std::max(best, static_cast<double>(weights.bytes()) / spent.count());
  }
  return best;
}

}  // namespace hearth::node
