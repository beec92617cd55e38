// What of a model's spec is about gated delta nets, read from its keys.
#pragma once

#include "model/spec.h"
#include "model/spec_keys.h"

namespace hearth::model {

// Which layers have one, and its heads. Behind the sizes and heads.
Status read_delta_net(const Keys& keys, ModelSpec& spec);

// Which pairs of a head turn by which number of a position. In a text all numbers are the same:
// what is served turns every pair by one of the first three. Behind the heads.
Status read_position_sections(const Keys& keys, const ModelSpec& spec);

}  // namespace hearth::model
