// Known answers of a device: small models of a family and of the weight types that a file has, run
// on it and on the processor, whose own kernels have answered theirs (kernels/self_test.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/device.h"

namespace hearth::node {

// kNumeric when hashes, tokens, keys or values differ: such a device must not serve. About 6 MB of
// the device's memory; about a hundred launches for a context that attention splits, whatever the
// model, and two hundred for each four types.
Status check_device(Device& device, const std::string& family,
                    const std::vector<model::TensorType>& types);

// The types of a file's weight matrices, each once.
std::vector<model::TensorType> weight_types(const model::GgufFile& file,
                                            const model::ModelSpec& spec);

}  // namespace hearth::node
