// Products with floating weights.
#include "kernels/cuda/product_eight.cuh"

namespace hearth::kernels::cuda {

const char* run_floating(WeightType type, const ListArgs& args, std::uint32_t slots,
                         Stream stream) {
  switch (type) {
    case WeightType::kF32: return run_few<WeightType::kF32>(args, slots, stream);
    case WeightType::kF16: return run_few<WeightType::kF16>(args, slots, stream);
    default: return run_few<WeightType::kBF16>(args, slots, stream);
  }
}

}  // namespace hearth::kernels::cuda
