// Layers placed by hand: "den:0-9,attic:10-29", nodes in the order of their stages, with the first
// and the last layer of each.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

// Every layer and every node must appear exactly once. kInvalidInput names the one that does not.
Result<std::vector<HandStage>> parse_hand_layers(const std::string& text);

}  // namespace hearth::coordinator
