// A model as placement sees it, from its file's header alone.
#pragma once

#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "placement/problem.h"

namespace hearth::cli {

// Bytes as a stage on the processor holds them. The errors of a stage's load for shapes and types.
Result<placement::Model> placement_model(const model::GgufFile& file, const model::ModelSpec& spec);

}  // namespace hearth::cli
