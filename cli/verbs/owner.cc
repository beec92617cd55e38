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
  verb.add_option("--data-dir", o->data_dir, "folder of the workers");
  return o;
}

}  // namespace

void add_owner_verbs(CLI::App& app, Action& action) {
  CLI::App* pause = app.add_subcommand(
      "pause", "Take this machine for yourself: its workers give their memory back at once");
  const auto paused = add_order(*pause);
  pause->callback([paused, &action] { action = [paused] { return run_pause(*paused); }; });

  const auto folder = std::make_shared<std::string>();
  CLI::App* resume = app.add_subcommand("resume", "Let this machine's workers serve again");
  resume->add_option("--data-dir", *folder, "folder of the workers");
  resume->callback([folder, &action] { action = [folder] { return run_resume(*folder); }; });

  CLI::App* drain = app.add_subcommand(
      "drain", "Hand over what this machine's workers serve, or let it end; then they stop");
  const auto drained = add_order(*drain);
  drain->callback([drained, &action] { action = [drained] { return run_drain(*drained); }; });
}

}  // namespace hearth::cli
