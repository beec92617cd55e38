// Products with floating weights.
#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

const char* run_floating(WeightType type, const ProductArgs& args, Grid grid, Stream stream) {
  switch (type) {
    case WeightType::kF32: return run_product<WeightType::kF32>(args, grid, stream);
    case WeightType::kF16: return run_product<WeightType::kF16>(args, grid, stream);
    default: return run_product<WeightType::kBF16>(args, grid, stream);
  }
}

}  // namespace hearth::kernels::cuda
