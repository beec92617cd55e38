// Reads the part of a model's spec about RoPE from its keys and factors.
#pragma once

#include "model/spec.h"
#include "model/spec_keys.h"

namespace hearth::model {

// The base is read; sets scale, YaRN and magnitude.
Status read_rope_scale(const Keys& keys, ModelSpec& spec);
// The heads and the context are read.
Status read_rope_factors(const Keys& keys, ModelSpec& spec);

}  // namespace hearth::model
