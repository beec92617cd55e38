// hearth-measure kernels: the time of each kernel, beside the peak of this machine.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command/verbs.h"

namespace hearth::cli {

void add_kernel_bench(CLI::App& app, Action& action);

}  // namespace hearth::cli
