// The sampling parameters that a chat can change, with the limits of the flags.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/run/run.h"

namespace hearth::cli {

// "/set temperature 0.5": changes options; a sentence when it cannot. Names are those of the flags
// and of ollama, '-' as '_': temp and temperature, n, predict and num_predict. An empty "stop"
// forgets the stop strings.
Status set_parameter(RunOptions& options, const std::string& name, const std::string& value);

// "temperature        0.8  (from 0 to 100)", one a parameter.
std::vector<std::string> parameter_lines(const RunOptions& options);

// The names that set_parameter() shows.
std::vector<std::string> parameter_names();

}  // namespace hearth::cli
