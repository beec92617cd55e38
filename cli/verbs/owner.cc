#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>

#include "cli/command/values.h"
#include "cli/command/verbs.h"
#include "cli/watch/watch.h"

namespace hearth::cli {
namespace {

constexpr std::uint32_t kSecondsMost = 366 * 24 * 3'600;

CLI::App* add_order(CLI::App& app, const char* name, const char* text, Action& action,
                    Result<int> (*run)(const PauseOptions&)) {
  const auto [verb, o] = add_verb(app, name, text, action, run);
  verb->add_option("time", o->seconds, "e.g. 30m or 2h (default: until hearth resume)")
      ->transform(duration(1, kSecondsMost));
  verb->add_option("--data-dir", o->data_dir, "data folder of the workers");
  return verb;
}

}  // namespace

void add_owner_verbs(CLI::App& app, Action& action) {
  add_order(app, "pause", "Pause the workers of this machine; they free their memory at once",
            action, run_pause)
      ->alias("stop");

  const auto folder = std::make_shared<std::string>();
  CLI::App* resume = app.add_subcommand("resume", "Let the workers of this machine serve again");
  resume->add_option("--data-dir", *folder, "data folder of the workers");
  resume->callback([folder, &action] { action = [folder] { return run_resume(*folder); }; });

  add_order(app, "drain",
            "Pause the workers of this machine once other nodes took over, or their requests have "
            "ended",
            action, run_drain);
}

}  // namespace hearth::cli
