// hearth-measure make-model: a complete GGUF file with random weights, of any family, shape and
// weight type, to measure and to test with. The same options give the same bytes everywhere.
#pragma once

#include "cli/command/verbs.h"

namespace hearth::cli {

void add_make_model(CLI::App& app, Action& action);

}  // namespace hearth::cli
