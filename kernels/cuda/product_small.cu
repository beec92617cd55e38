// Products with weights in blocks of 32.
#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

const char* run_small(WeightType type, const ProductArgs& args, Grid grid, Stream stream) {
  switch (type) {
    case WeightType::kQ8_0: return run_product<WeightType::kQ8_0>(args, grid, stream);
    case WeightType::kQ4_0: return run_product<WeightType::kQ4_0>(args, grid, stream);
    case WeightType::kQ4_1: return run_product<WeightType::kQ4_1>(args, grid, stream);
    case WeightType::kQ5_0: return run_product<WeightType::kQ5_0>(args, grid, stream);
    case WeightType::kQ5_1: return run_product<WeightType::kQ5_1>(args, grid, stream);
    default: return run_product<WeightType::kIQ4_NL>(args, grid, stream);
  }
}

}  // namespace hearth::kernels::cuda
