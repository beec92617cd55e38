// Products with weights in super-blocks of two integer scales a block.
#include "kernels/cuda/product_eight.cuh"

namespace hearth::kernels::cuda {

const char* run_super_two(WeightType type, const ListArgs& args, std::uint32_t slots,
                          Stream stream) {
  switch (type) {
    case WeightType::kQ2_K: return run_few<WeightType::kQ2_K>(args, slots, stream);
    case WeightType::kQ3_K: return run_few<WeightType::kQ3_K>(args, slots, stream);
    default: return run_few<WeightType::kQ6_K>(args, slots, stream);
  }
}

}  // namespace hearth::kernels::cuda
