// The entries of the dotprod table.
#define HEARTH_ENTRIES dotprod
#include "kernels/arm/neon_matmul.cc"  // NOLINT: one source, three instruction sets
