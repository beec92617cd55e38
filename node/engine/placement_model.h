// The sizes of a model for placement, from its file's header alone.
#pragma once

#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "placement/problem.h"

namespace hearth::node {

// Bytes are those of a stage on the processor. Errors for shapes and types are those of a stage's
// load.
Result<placement::Model> placement_model(const model::GgufFile& file, const model::ModelSpec& spec);

}  // namespace hearth::node
