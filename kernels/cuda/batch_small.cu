// Products of many rows with weights in blocks of 32.
#include "kernels/cuda/batch.cuh"

namespace hearth::kernels::cuda {

const char* run_batch_small(WeightType type, const ProductArgs& args, Stream stream) {
  switch (type) {
    case WeightType::kQ8_0: return run_batch<WeightType::kQ8_0>(args, stream);
    case WeightType::kQ4_0: return run_batch<WeightType::kQ4_0>(args, stream);
    case WeightType::kQ4_1: return run_batch<WeightType::kQ4_1>(args, stream);
    case WeightType::kQ5_0: return run_batch<WeightType::kQ5_0>(args, stream);
    case WeightType::kQ5_1: return run_batch<WeightType::kQ5_1>(args, stream);
    default: return run_batch<WeightType::kIQ4_NL>(args, stream);
  }
}

}  // namespace hearth::kernels::cuda
