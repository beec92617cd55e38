// The vectors of an instruction set, as `vectors` and without a qualifier: what row_entries.h,
// kv_entries.h and product_entries.h are written in, one text for AVX2, AVX-512 and NEON. Floats
// multiply, add and divide by operators. The build defines HEARTH_VECTORS, the namespace of a
// file's vectors, and HEARTH_VECTORS_FILE, their header; where it does not, these headers are
// empty.
#pragma once

#if defined(HEARTH_VECTORS)
#include HEARTH_VECTORS_FILE

namespace hearth::kernels {
namespace vectors = HEARTH_VECTORS;
using namespace HEARTH_VECTORS;  // NOLINT: one set of vectors a file

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
