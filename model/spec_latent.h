// Reads the part of a model's spec about latent attention from its keys.
#pragma once

#include "model/spec.h"
#include "model/spec_keys.h"

namespace hearth::model {

// The heads, and what a position keeps for all of them.
Status read_latent_heads(const Keys& keys, ModelSpec& spec);

}  // namespace hearth::model
