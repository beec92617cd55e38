// The vectors of the instruction set that a file is compiled for, as `vectors` and without a
// qualifier: what row_entries.h, kv_entries.h and product_entries.h are written in, one text for
// AVX2 and AVX-512. Floats multiply, add and divide by operators.
#pragma once

#if defined(__AVX512VNNI__)
#include "kernels/x86/avx512.h"
namespace hearth::kernels {
namespace vectors = avx512;
using namespace avx512;  // NOLINT: one set of vectors a file
}  // namespace hearth::kernels
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/x86/avx2.h"
namespace hearth::kernels {
namespace vectors = avx2;
using namespace avx2;  // NOLINT: one set of vectors a file
}  // namespace hearth::kernels
#endif

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
namespace hearth::kernels {
namespace {

class Softcap {
 public:
  explicit Softcap(float cap)
      : cap_(splat(cap)), twice_(splat(cap + cap)), rate_(splat(softcap_rate(cap))) {}
  Floats operator()(Floats x) const { return cap_ - twice_ / (splat(1.0F) + exp2_of(x * rate_)); }

 private:
  Floats cap_;
  Floats twice_;
  Floats rate_;
};

}  // namespace
}  // namespace hearth::kernels
#endif
