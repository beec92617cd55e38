// StageWeights: the tensors of one stage, repacked for the kernels. Only its own layers are read;
// the first stage adds the embedding, the last one the final norm and the head.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/stage_tensors.h"

namespace hearth::node {

using LayerWeights = LayerTensors<kernels::PackedMatrix, std::vector<float>>;

struct StageWeights : StageTensors<kernels::PackedMatrix, std::vector<float>> {
  std::size_t bytes() const;
  // One digest for each layer, then one for the tensors outside the layers. A changed bit changes
  // the digest; they do not protect against an attacker. They are computed at the speed of memory.
  std::vector<std::uint64_t> digests(kernels::ThreadPool& pool) const;

  // Packs on all threads of `pool`, or on the caller's alone; pages of the file are released as
  // soon as they are packed. `cancelled`: as in EngineOptions. `share`: of a rank; null: all.
  static Result<StageWeights> load(const model::GgufFile& file, const model::ModelSpec& spec,
                                   LayerRange layers, kernels::ThreadPool* pool = nullptr,
                                   const std::function<bool()>& cancelled = {},
                                   const Share* share = nullptr);
  // The bytes that load() will take, from the file's table of tensors alone, which it checks.
  static Result<std::uint64_t> bytes_of(const model::GgufFile& file, const model::ModelSpec& spec,
                                        LayerRange layers, const Share* share = nullptr);
  // The same for one layer, without embedding or head.
  static Result<std::uint64_t> layer_bytes_of(const model::GgufFile& file,
                                              const model::ModelSpec& spec, std::uint32_t layer);
  // The bytes of one layer that a step of one row reads: of its experts only the used ones.
  static Result<std::uint64_t> layer_read_bytes_of(const model::GgufFile& file,
                                                   const model::ModelSpec& spec,
                                                   std::uint32_t layer);
};

}  // namespace hearth::node
