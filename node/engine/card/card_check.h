// Self-test of a device: runs small models of a family and of a file's weight types on it and on
// the processor. The processor's kernels have their own self-test (kernels/self_test.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/device.h"

namespace hearth::node {

// kNumeric when hashes, tokens, keys or values differ: the device must then not serve. About 6 MB
// of the device's memory; about a hundred launches for a context that attention splits, whatever
// the model, and two hundred for each four types.
Status check_device(Device& device, const std::string& family,
                    const std::vector<model::TensorType>& types);

// The types of a file's weight matrices, each once.
std::vector<model::TensorType> weight_types(const model::GgufFile& file,
                                            const model::ModelSpec& spec);

}  // namespace hearth::node
