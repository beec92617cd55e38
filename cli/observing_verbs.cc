#include <CLI/CLI.hpp>
#include <limits>
#include <memory>

#include "cli/server_option.h"
#include "cli/status.h"
#include "cli/top.h"
#include "cli/values.h"
#include "cli/verbs.h"

namespace hearth::cli {
namespace {

void add_pace(CLI::App* verb, double& interval, std::uint64_t& count) {
  verb->add_option("--interval", interval, "seconds between two pictures")
      ->check(number(0.1, 3600))
      ->capture_default_str();
  verb->add_option("--count", count, "pictures, then the end (0: until q or Ctrl-C)")
      ->check(whole_number(0, std::numeric_limits<std::int32_t>::max()));
}

void add_status(CLI::App& app, Action& action) {
  auto o = std::make_shared<StatusOptions>();
  auto host = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("status", "Show the nodes, the layers they hold, and what is missing");
  add_server(verb, *host, o->api_key);
  verb->add_flag("--json", o->json, "print JSON");
  verb->add_option("--wait", o->wait_seconds, "wait up to so many seconds for the swarm")
      ->check(seconds());
  verb->add_flag("-w,--watch", o->watch, "again and again, in place on a terminal");
  add_pace(verb, o->interval_seconds, o->count);
  verb->callback([o, host, &action] {
    o->api_base = server_base(*host);
    action = [o] { return run_status(*o); };
  });
}

void add_top(CLI::App& app, Action& action) {
  auto o = std::make_shared<TopOptions>();
  auto host = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "top", "Show the nodes at work: layers, rates, share of time busy, KV; q ends it");
  add_server(verb, *host, o->api_key);
  verb->add_flag("--json", o->json, "print JSON, one line a picture");
  add_pace(verb, o->interval_seconds, o->count);
  verb->callback([o, host, &action] {
    o->api_base = server_base(*host);
    action = [o] { return run_top(*o); };
  });
}

}  // namespace

void add_observing_verbs(CLI::App& app, Action& action) {
  add_status(app, action);
  add_top(app, action);
}

}  // namespace hearth::cli
