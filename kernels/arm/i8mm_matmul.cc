// The entries of the i8mm table.
#define HEARTH_ENTRIES i8mm
#include "kernels/arm/neon_matmul.cc"  // NOLINT: one source, three instruction sets
