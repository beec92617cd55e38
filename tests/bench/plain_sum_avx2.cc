// The AVX2 product with a plain float sum in place of the order-free one.
#define HEARTH_ENTRIES avx2_plain
#define HEARTH_PLAIN_FLOAT_SUM
#include "kernels/x86/avx2_matmul.cc"  // NOLINT: the same source
