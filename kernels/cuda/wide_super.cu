// Products of a prompt's rows with weights in super-blocks.
#include "kernels/cuda/wide.cuh"

namespace hearth::kernels::cuda {

const char* run_wide_super(WeightType type, const ProductArgs& args, Stream stream) {
  switch (type) {
    case WeightType::kQ4_K: return run_wide<WeightType::kQ4_K>(args, stream);
    case WeightType::kQ5_K: return run_wide<WeightType::kQ5_K>(args, stream);
    case WeightType::kIQ4_XS: return run_wide<WeightType::kIQ4_XS>(args, stream);
    case WeightType::kQ2_K: return run_wide<WeightType::kQ2_K>(args, stream);
    case WeightType::kQ3_K: return run_wide<WeightType::kQ3_K>(args, stream);
    default: return run_wide<WeightType::kQ6_K>(args, stream);
  }
}

}  // namespace hearth::kernels::cuda
