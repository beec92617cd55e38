// Layers placed by hand: "den:0-9,attic:10-29", nodes in the order of their stages, with the first
// and the last layer of each.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/coordinator.h"

namespace hearth::cli {

// Every layer once, every node once. kInvalidInput says which is not.
Result<std::vector<coordinator::HandStage>> parse_hand_layers(const std::string& text);

}  // namespace hearth::cli
