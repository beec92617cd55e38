// The numbers of the sampler: its generator, its exponential, its logarithm.
#include <bit>

#include "node/engine/sampler.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kOne30 = 1ULL << 30;

// 2^-y for y in [0, 1), both in 2^-30 units: a polynomial of degree 6, every step rounded down.
constexpr std::uint64_t exp2_polynomial(std::uint64_t y) {
  constexpr std::uint64_t kCoefficients[6] = {744261020, 257939319, 59584400,
                                              10288824,  1371676,   118043};
  std::uint64_t sum = kCoefficients[5];
  for (int k = 4; k >= 0; --k) sum = kCoefficients[k] - ((sum * y) >> 30);
  return kOne30 - ((sum * y) >> 30);
}

struct Exp2Tables {
  std::uint32_t high[1024];  // 2^-(i / 2^10)
  std::uint32_t low[1024];   // 2^-(i / 2^20)
};

constexpr Exp2Tables make_tables() {
  Exp2Tables tables{};
  for (std::uint64_t i = 0; i < 1024; ++i) {
    tables.high[i] = static_cast<std::uint32_t>(exp2_polynomial(i << 20));
    tables.low[i] = static_cast<std::uint32_t>(exp2_polynomial(i << 10));
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

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint64_t sampler_random(std::uint64_t seed, Position position) {
  const auto words = philox({position, 0, 0, 0}, {static_cast<std::uint32_t>(seed),
                                                  static_cast<std::uint32_t>(seed >> 32)});
  return words[0] | (std::uint64_t{words[1]} << 32);
}

double sampler_log(std::uint64_t total) {
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
