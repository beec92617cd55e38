// Entries of the scalar table that live in files of their own.
#pragma once

#include "kernels/tables.h"

namespace hearth::kernels::scalar {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;
Entry<decltype(Kernels::dequantize_row)> dequantize_row;
Entry<decltype(Kernels::kv_write)> kv_write;
Entry<decltype(Kernels::attention)> attention;

}  // namespace hearth::kernels::scalar
