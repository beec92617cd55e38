// CardWeights: the tensors of one stage in a card's memory, in the layout of kernels/cuda/tiles.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/tiles.h"
#include "kernels/thread_pool.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/card/placement.h"
#include "node/engine/stage_tensors.h"

namespace hearth::node {

// Null when the family has no such vector.
struct CardVector {
  float* data = nullptr;
  bool empty() const { return data == nullptr; }
};

// One tensor, from the file to the GPU.
struct CardTensor {
  std::string name;
  const model::TensorInfo* file = nullptr;
  bool is_matrix = false;
  kernels::WeightType type = kernels::WeightType::kQ8_0;  // this and the next two for a matrix
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::byte* data = nullptr;          // tiles, or the floats of a vector
  std::int32_t* exponents = nullptr;  // of a matrix
  std::size_t bytes = 0;              // at `data`
  std::uint64_t digest = 0;           // of the bytes sent, once it is loaded
};

class CardWeights : public StageTensors<kernels::cuda::CardMatrix, CardVector> {
 public:
  // Places the tensors of the range. It reads and checks only the file's table, and copies nothing.
  static Result<CardWeights> place(const model::GgufFile& file, const model::ModelSpec& spec,
                                   LayerRange layers, Placement& placement);

  // Packs with all threads of `pool` into pinned memory, one part while the other is copied to the
  // GPU. `progress`: bytes of the file so far, and of all. `cancelled`: as in EngineOptions.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;
  Status load(const model::GgufFile& file, kernels::ThreadPool& pool, kernels::cuda::Stream copies,
              const Progress& progress, const std::function<bool()>& cancelled);

  // Compares digests of the GPU's memory with those of the bytes sent. `sums` and `found`: a number
  // for each tensor, in the card's memory and in pinned memory. kNumeric names the first tensor
  // that differs.
  Status verify(std::uint64_t* sums, std::byte* found, kernels::cuda::Stream stream) const;

  const std::vector<CardTensor>& tensors() const { return tensors_; }
  std::size_t bytes() const;

 private:
  std::vector<CardTensor> tensors_;
};

}  // namespace hearth::node
