// A fixed sequence of float operations whose result shows how the compiler built it: products fused
// into sums, sums in another order, quotients as products with an inverse, and registers wider than
// fp32 each give other bits. Internal linkage: every file that calls it checks its own flags.
#pragma once

namespace hearth::kernels {

// Names the first fault, or nullptr when every operation runs as written.
static inline const char* float_order_fault() {
  volatile float source[] = {0x1.001p0F, -0x1.002p0F, 0x1p24F, 1.0F, 5.0F};
  const float a = source[0];
  const float c = source[1];
  const float big = source[2];
  const float one = source[3];

  // a * a = 1 + 2^-11 + 2^-24, which fp32 rounds to -c; anything wider keeps the last bit.
  if (a * a + c != 0.0F) return "a product is fused with a sum, or wider than fp32";
  // 2^24 + 1 rounds to 2^24; a compiler that reorders the sum keeps the 1.
  if ((big + one) - big != 0.0F) return "a sum is not computed in the order written";
  float terms[64];
  for (int i = 0; i < 64; ++i) terms[i] = i % 2 == 0 ? source[3] : source[3] * 0x1p-24F;
  float sum = big;
  for (const float term : terms) sum += term;
  if (sum != 0x1p24F) return "the terms of a sum are added in another order";
  const float quotient = source[4] / 3.0F;
  if (quotient != 0x1.aaaaaap0F) return "a quotient is a product with an inverse";
  return nullptr;
}

}  // namespace hearth::kernels
