// The planner of the API: the models on this machine, served or not, by their names.
#pragma once

#include <vector>

#include "cli/serve/offered_models.h"
#include "coordinator/http/api/options.h"

namespace hearth::cli {

coordinator::http::Planner stored_planner(const std::vector<OfferedModel>& offered);

}  // namespace hearth::cli
