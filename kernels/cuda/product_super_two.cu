// Products with weights in super-blocks of two integer scales a block.
#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

const char* run_super_two(WeightType type, const ProductArgs& args, Grid grid, Stream stream) {
  switch (type) {
    case WeightType::kQ2_K: return run_product<WeightType::kQ2_K>(args, grid, stream);
    case WeightType::kQ3_K: return run_product<WeightType::kQ3_K>(args, grid, stream);
    default: return run_product<WeightType::kQ6_K>(args, grid, stream);
  }
}

}  // namespace hearth::kernels::cuda
