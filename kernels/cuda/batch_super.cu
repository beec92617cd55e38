// Products of many rows with weights in super-blocks.
#include "kernels/cuda/batch.cuh"

namespace hearth::kernels::cuda {

const char* run_batch_super(WeightType type, const ProductArgs& args, Stream stream) {
  switch (type) {
    case WeightType::kQ4_K: return run_batch<WeightType::kQ4_K>(args, stream);
    case WeightType::kQ5_K: return run_batch<WeightType::kQ5_K>(args, stream);
    case WeightType::kIQ4_XS: return run_batch<WeightType::kIQ4_XS>(args, stream);
    case WeightType::kQ2_K: return run_batch<WeightType::kQ2_K>(args, stream);
    case WeightType::kQ3_K: return run_batch<WeightType::kQ3_K>(args, stream);
    default: return run_batch<WeightType::kQ6_K>(args, stream);
  }
}

}  // namespace hearth::kernels::cuda
