// A model file as a shape of placement/estimate.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "placement/estimate/figures.h"

namespace hearth::node {

placement::Shape shape_of(const model::ModelSpec& spec, const std::string& key);
// Bytes in the file of what a stage of these layers has: with the embedding on the first stage, and
// the head on the last.
std::uint64_t file_bytes_of(const model::GgufFile& file, const model::ModelSpec& spec,
                            LayerRange layers);
// Bits of a weight of the layers, scales included.
double weight_bits_of(const model::GgufFile& file, const model::ModelSpec& spec);

}  // namespace hearth::node
