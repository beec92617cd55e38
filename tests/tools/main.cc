// What tests and developers measure with, on one machine and without a network.

#include <CLI/CLI.hpp>

#include "cli/terminal/exit_codes.h"
#include "tests/tools/hashes.h"
#include "tests/tools/kernel_bench.h"
#include "tests/tools/make_model.h"
#include "tests/tools/perplexity.h"
#include "tests/tools/soak.h"

int main(int argc, char** argv) {
  using namespace hearth::cli;
  CLI::App app("Measures and checks the engine", "hearth-measure");
  app.require_subcommand(1);
  Action action;
  add_perplexity(app, action);
  add_hashes(app, action);
  add_soak(app, action);
  add_make_model(app, action);
  add_kernel_bench(app, action);
  CLI11_PARSE(app, argc, argv);
  const auto code = action();
  return code.ok() ? *code : fail(code.error());
}
