// Products of a prompt's rows with weights in blocks of 32.
#include "kernels/cuda/wide.cuh"

namespace hearth::kernels::cuda {

const char* run_wide_small(WeightType type, const ProductArgs& args, Stream stream) {
  switch (type) {
    case WeightType::kQ8_0: return run_wide<WeightType::kQ8_0>(args, stream);
    case WeightType::kQ4_0: return run_wide<WeightType::kQ4_0>(args, stream);
    case WeightType::kQ4_1: return run_wide<WeightType::kQ4_1>(args, stream);
    case WeightType::kQ5_0: return run_wide<WeightType::kQ5_0>(args, stream);
    case WeightType::kQ5_1: return run_wide<WeightType::kQ5_1>(args, stream);
    default: return run_wide<WeightType::kIQ4_NL>(args, stream);
  }
}

}  // namespace hearth::kernels::cuda
