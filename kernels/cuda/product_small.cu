// Products with weights in blocks of 32.
#include "kernels/cuda/product_eight.cuh"

namespace hearth::kernels::cuda {

const char* run_small(WeightType type, const ListArgs& args, std::uint32_t slots, Stream stream) {
  switch (type) {
    case WeightType::kQ8_0: return run_few<WeightType::kQ8_0>(args, slots, stream);
    case WeightType::kQ4_0: return run_few<WeightType::kQ4_0>(args, slots, stream);
    case WeightType::kQ4_1: return run_few<WeightType::kQ4_1>(args, slots, stream);
    case WeightType::kQ5_0: return run_few<WeightType::kQ5_0>(args, slots, stream);
    case WeightType::kQ5_1: return run_few<WeightType::kQ5_1>(args, slots, stream);
    default: return run_few<WeightType::kIQ4_NL>(args, slots, stream);
  }
}

}  // namespace hearth::kernels::cuda
