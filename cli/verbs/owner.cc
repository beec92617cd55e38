#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>

#include "cli/command/values.h"
#include "cli/command/verbs.h"
#include "cli/watch/pause.h"

namespace hearth::cli {
namespace {

constexpr std::uint32_t kSecondsMost = 366 * 24 * 3'600;

std::shared_ptr<PauseOptions> add_order(CLI::App& verb) {
  const auto o = std::make_shared<PauseOptions>();
  verb.add_option("time", o->seconds, "e.g. 30m or 2h (default: until hearth resume)")
      ->transform(duration(1, kSecondsMost));
  verb.add_option("--data-dir", o->data_dir, "data folder of the workers");
  return o;
}

}  // namespace

void add_owner_verbs(CLI::App& app, Action& action) {
  CLI::App* pause = app.add_subcommand(
      "pause", "Pause the workers of this machine; they free their memory at once");
  const auto paused = add_order(*pause);
  pause->callback([paused, &action] { action = [paused] { return run_pause(*paused); }; });

  const auto folder = std::make_shared<std::string>();
  CLI::App* resume = app.add_subcommand("resume", "Let the workers of this machine serve again");
  resume->add_option("--data-dir", *folder, "data folder of the workers");
  resume->callback([folder, &action] { action = [folder] { return run_resume(*folder); }; });

  CLI::App* drain = app.add_subcommand(
      "drain",
      "Pause the workers of this machine once other nodes took over, or their requests have ended");
  const auto drained = add_order(*drain);
  drain->callback([drained, &action] { action = [drained] { return run_drain(*drained); }; });
}

}  // namespace hearth::cli
