// What a server's desk of disputes asks of the model that it serves
// (coordinator/proof/dispute_desk.h): the shape of a trace, and who is wrong by a dispute's file.
// The file is opened for each question; disputes are rare.
#pragma once

#include <string>

#include "coordinator/proof/dispute_desk.h"

namespace hearth::cli {

// `model`: the file that is served. `build`: of the receipts' program.
coordinator::DisputeTools dispute_tools(const std::string& model, const std::string& build);

}  // namespace hearth::cli
