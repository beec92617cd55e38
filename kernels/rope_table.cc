// Double arithmetic of CANONICAL.md, "Angles": add, subtract, multiply and divide only.
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/kernels.h"

namespace hearth::kernels {
namespace {

constexpr double kRoundingShift = 0x1.8p52;  // adding it rounds to an integer, to nearest even

// pi/2 in two parts; the high one has 33 bits, so that its product with k < 2^20 is exact.
constexpr double kHalfPiHigh = 0x1.921fb544p+0;
constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLog2OfE = 0x1.71547652b82fep+0;
constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;

// 1 + z/(a(a+1)) * (1 + z/((a+2)(a+3)) * ...), the Taylor series of sin(r)/r (a = 2) and of cos(r)
// (a = 1) for z = -r^2, innermost factor first.
double alternating_series(double z, int first) {
  double sum = 1.0;
  for (int a = first + 14; a >= first; a -= 2) {
    sum = 1.0 + sum * (z / (static_cast<double>(a) * static_cast<double>(a + 1)));
  }
  return sum;
}

struct SinCos {
  double sine;
  double cosine;
};

SinCos sin_cos(double angle) {
  const double shifted = angle * kTwoOverPi + kRoundingShift;
  const std::uint64_t quadrant = std::bit_cast<std::uint64_t>(shifted) & 3U;
  const double k = shifted - kRoundingShift;
  const double r = (angle - k * kHalfPiHigh) - k * kHalfPiLow;
  const double z = -(r * r);
  const double s = r * alternating_series(z, 2);
  const double c = alternating_series(z, 1);
  switch (quadrant) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

double two_to(int n) {  // n in [-1022, 1023]
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// log2 of a positive normal number: exponent + 2 atanh((m - 1) / (m + 1)) / ln 2, with the mantissa
// m in (sqrt(2)/2, sqrt(2)].
double log2_of(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  if (m > kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int a = 25; a >= 1; a -= 2) sum = sum * z + 1.0 / static_cast<double>(a);
  return static_cast<double>(exponent) + (2.0 * s * sum) * kLog2OfE;
}

double exp2_in_steps(double y) {
  const double k = (y + kRoundingShift) - kRoundingShift;
  const double f = (y - k) * kLn2;
  double sum = 1.0;
  for (int a = 16; a >= 1; --a) sum = 1.0 + sum * (f / static_cast<double>(a));
  return sum * two_to(static_cast<int>(k));
}

}  // namespace

void rope_table_row(std::uint32_t position, std::span<const double> frequencies, double magnitude,
                    float* cos_sin) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const SinCos value = sin_cos(static_cast<double>(position) * frequencies[i]);
    cos_sin[2 * i] = static_cast<float>(value.cosine * magnitude);
    cos_sin[2 * i + 1] = static_cast<float>(value.sine * magnitude);
  }
}

double log2_canonical(double x) {
  if (!(x > 0.0 && x < std::numeric_limits<double>::infinity())) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  int scale = 0;
  if (x < 0x1p-1022) {  // subnormal
    x *= 0x1p64;
    scale = -64;
  }
  return log2_of(x) + static_cast<double>(scale);
}

double pow_canonical(double base, double exponent) {
  const double y = log2_canonical(base) * exponent;
  if (y != y || exponent - exponent != 0.0) return std::numeric_limits<double>::quiet_NaN();
  if (y < -1022.0) return 0.0;
  if (y >= 1023.0) return std::numeric_limits<double>::infinity();
  return exp2_in_steps(y);
}

}  // namespace hearth::kernels
