// --emulate and --shape: GPUs and models that are not there, by the figures of the catalogue
// (cli/plan/catalogue).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "node/engine/device.h"

namespace hearth::cli {

// `gpu`: a GPU of the catalogue, or the path of a .json file with figures
// (read_card_figures()).
Result<std::unique_ptr<node::Device>> open_emulated_device(const std::string& gpu);

// Writes the file of a model of the catalogue without weights (ModelSpec::shape_only) to the cache
// folder, and returns its path. `quant`: a format of the catalogue; empty: kDefaultQuant.
Result<std::string> write_shape(const std::string& shape, const std::string& quant);

// From here on, each line of this process's log says EMULATED. Called before threads start.
void mark_emulation();

}  // namespace hearth::cli
