#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/verbs/server_verb.h"
#include "cli/watch/watch.h"

namespace hearth::cli {
namespace {

constexpr std::uint32_t kSecondsMost = 366 * 24 * 3'600;

void add_order(CLI::App& app, const char* name, const char* text, Action& action,
               Result<int> (*run)(const PauseOptions&), bool with_time = true) {
  const auto o = std::make_shared<PauseOptions>();
  const auto host = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(name, text);
  if (with_time) {
    verb->add_option("time", o->seconds, "e.g. 30m or 2h (default: until hearth resume)")
        ->transform(duration(1, kSecondsMost));
  }
  verb->add_option("--data-dir", o->data_dir, "data folder of the workers");
  verb->add_option("--node", o->node,
                   "in place of this machine's workers: this worker, by an admin key")
      ->check(text_within(limits::kNodeNameBytes));
  add_server(verb, *host, o->api_key);
  verb->callback([o, host, run, &action] {
    if (!o->node.empty()) o->api_base = server_base(*host, o->api_key);
    action = [o, run] { return run(*o); };
  });
}

}  // namespace

void add_owner_verbs(CLI::App& app, Action& action) {
  add_order(app, "pause", "Pause the workers of this machine; they free their memory at once",
            action, run_pause);
  app.get_subcommand("pause")->alias("stop");
  add_order(app, "resume", "Let the workers of this machine serve again", action, run_resume,
            false);
  add_order(app, "drain",
            "Pause the workers of this machine once other nodes took over, or their requests have "
            "ended",
            action, run_drain);
}

}  // namespace hearth::cli
