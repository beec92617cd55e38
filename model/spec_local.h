// Of families whose local layers have heads of another size and number than the others.
#pragma once

#include "base/result.h"
#include "model/spec.h"
#include "model/spec_keys.h"

namespace hearth::model {

// Which layers are local, the heads of both kinds, and what a layer has by its tensors.
Status read_local_heads(const Keys& keys, ModelSpec& spec);

}  // namespace hearth::model
