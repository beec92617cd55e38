// The plan of a model on this machine for the nodes of a server that has measured them, perhaps
// with another model: what the web page Plan asks. Any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "placement/problem.h"

namespace hearth::cli {

struct StoredPlan {
  std::string path;           // of the model
  std::string nodes;          // cli/plan/nodes_file.h
  std::string measured_path;  // of the model with which the nodes were measured
  placement::Objective objective = placement::Objective::kAuto;
};

// The output of hearth plan --json. For another model than the measured one, this assumes that each
// node reads weights at the same rate as the measured model's.
Result<std::string> plan_stored(const StoredPlan& wish);

// The figures of nodes as rates, of the model that they were measured with.
Result<std::string> nodes_by_rate(const std::string& nodes, const placement::Model& measured);

}  // namespace hearth::cli
