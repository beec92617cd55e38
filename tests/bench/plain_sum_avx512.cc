// The AVX-512 product with a plain float sum in place of the order-free one.
#define HEARTH_ENTRIES avx512_plain
#define HEARTH_PLAIN_FLOAT_SUM
#include "kernels/x86/avx512_matmul.cc"  // NOLINT: the same source
