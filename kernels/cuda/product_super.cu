// Products with weights in super-blocks of one integer scale a block.
#include "kernels/cuda/product_eight.cuh"

namespace hearth::kernels::cuda {

const char* run_super(WeightType type, const ListArgs& args, std::uint32_t slots, Stream stream) {
  switch (type) {
    case WeightType::kQ4_K: return run_few<WeightType::kQ4_K>(args, slots, stream);
    case WeightType::kQ5_K: return run_few<WeightType::kQ5_K>(args, slots, stream);
    default: return run_few<WeightType::kIQ4_XS>(args, slots, stream);
  }
}

}  // namespace hearth::kernels::cuda
