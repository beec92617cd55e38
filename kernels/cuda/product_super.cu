// Products with weights in super-blocks of one integer scale a block.
#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

const char* run_super(WeightType type, const ProductArgs& args, Grid grid, Stream stream) {
  switch (type) {
    case WeightType::kQ4_K: return run_product<WeightType::kQ4_K>(args, grid, stream);
    case WeightType::kQ5_K: return run_product<WeightType::kQ5_K>(args, grid, stream);
    default: return run_product<WeightType::kIQ4_XS>(args, grid, stream);
  }
}

}  // namespace hearth::kernels::cuda
