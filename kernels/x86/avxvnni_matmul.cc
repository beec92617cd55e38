// The 256-bit matrix product with vpdpbusd, compiled for AVX-VNNI.
#define HEARTH_ENTRIES avxvnni
#include "kernels/x86/avx2_matmul.cc"  // NOLINT: one source, two instruction sets
