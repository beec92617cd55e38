// The sampler's arithmetic: its exponential and its logarithm.
#include <bit>

#include "base/check.h"
#include "kernels/sampling.h"
#include "node/engine/sampler.h"

namespace hearth::node {
namespace {

struct Exp2Tables {
  std::uint32_t high[1024];  // 2^-(i / 2^10)
  std::uint32_t low[1024];   // 2^-(i / 2^20)
};

constexpr Exp2Tables make_tables() {
  Exp2Tables tables{};
  for (std::uint64_t i = 0; i < 1024; ++i) {
    tables.high[i] = static_cast<std::uint32_t>(kernels::exp2_polynomial(i << 20));
    tables.low[i] = static_cast<std::uint32_t>(kernels::exp2_polynomial(i << 10));
  }
  return tables;
}

constexpr Exp2Tables kTables = make_tables();

}  // namespace

std::uint64_t sampler_weight(std::uint64_t x) {
  const std::uint64_t whole = x >> 20;
  if (whole > 40) return 0;
  const std::uint64_t fraction =
      (std::uint64_t{kTables.high[(x >> 10) & 1023]} * kTables.low[x & 1023]) >> 30;
  return (fraction << 10) >> whole;
}

double sampler_slowness(std::uint32_t x) {
  const kernels::RaceSlowness slowness = kernels::race_slowness(x);
  const std::uint64_t rest =
      (std::uint64_t{kTables.high[slowness.rest >> 10]} * kTables.low[slowness.rest & 1023]) >> 30;
  return static_cast<double>(rest) * static_cast<double>(1ULL << slowness.whole);
}

double sampler_log(std::uint64_t total) {
  INVARIANT(total != 0, "a logarithm is of a positive number");
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
  int exponent = std::bit_width(total) - 1;
  // Below 2^53 the conversion is exact, above it rounds to nearest even: the same everywhere.
  double mantissa = static_cast<double>(total) / static_cast<double>(1ULL << exponent);
  if (mantissa > kSqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double series = 1.0 / 23.0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return static_cast<double>(exponent - 40) * kLn2 + 2.0 * s * series;
}

}  // namespace hearth::node
