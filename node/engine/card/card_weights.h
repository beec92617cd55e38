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

// Null where the family has none.
struct CardVector {
  float* data = nullptr;
  bool empty() const { return data == nullptr; }
};

// One tensor's way from the file to the card.
struct CardTensor {
  std::string name;
  const model::TensorInfo* file = nullptr;
  bool is_matrix = false;
  kernels::WeightType type = kernels::WeightType::kQ8_0;  // these three of a matrix
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::byte* data = nullptr;          // tiles, or the floats of a vector
  std::int32_t* exponents = nullptr;  // of a matrix
  std::size_t bytes = 0;              // at `data`
  std::uint64_t digest = 0;           // of what was sent, once it is loaded
};

class CardWeights : public StageTensors<kernels::cuda::CardMatrix, CardVector> {
 public:
  // Places the tensors of the range, of which the file's table alone is read and thereby checked;
  // nothing is copied.
  static Result<CardWeights> place(const model::GgufFile& file, const model::ModelSpec& spec,
                                   LayerRange layers, Placement& placement);

  // Packs with all threads of `pool` into pinned memory, one part while the other is on its way to
  // the card. `progress`: bytes of the file so far, and of all. `cancelled`: as in EngineOptions.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;
  Status load(const model::GgufFile& file, kernels::ThreadPool& pool, kernels::cuda::Stream copies,
              const Progress& progress, const std::function<bool()>& cancelled);

  // Digests of what the card's memory holds now against what was sent. `sums` and
  // `found`: a number for each tensor, in the card's memory and in pinned memory. kNumeric names
  // the first tensor that differs.
  Status verify(std::uint64_t* sums, std::byte* found, kernels::cuda::Stream stream) const;

  const std::vector<CardTensor>& tensors() const { return tensors_; }
  std::size_t bytes() const;

 private:
  std::vector<CardTensor> tensors_;
};

}  // namespace hearth::node
