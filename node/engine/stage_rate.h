// StageRate: how fast this machine or its GPU runs a stage of a model. Placement uses it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"

namespace hearth::node {

inline constexpr std::uint32_t kRateRows = 16;  // of a batch: enough for full kernels

// Seconds of decoding near the beginning of a context.
struct StageRate {
  struct Rows {
    double one = 0.0;    // a row
    double batch = 0.0;  // kRateRows rows, each of a sequence of its own
  };
  double step_seconds = 0.0;  // of every step, whatever its layers
  Rows layer;                 // of a layer of mean size
  Rows head;                  // norm, head and sampling of the last stage
};

// Measures engines of a few layers of the model as they are served. It takes about two seconds, or
// more when steps are long. The file may have holes for weights. Layers, batch rows and KV budget
// of `options` are not read. The errors of Engine::load; kCancelled soon after options.cancelled
// says so.
Result<StageRate> measure_stage_rate(const std::shared_ptr<const model::GgufFile>& file,
                                     const model::ModelSpec& spec, EngineOptions options);

}  // namespace hearth::node
