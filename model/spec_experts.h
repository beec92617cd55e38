// Reads the part of a model's spec about feed-forwards from its keys: widths, experts, and how a
// row's experts are chosen.
#pragma once

#include "model/spec.h"
#include "model/spec_keys.h"

namespace hearth::model {

// The number of layers is read.
Status read_feed_forward(const Keys& keys, ModelSpec& spec);

}  // namespace hearth::model
