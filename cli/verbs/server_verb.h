// Verbs that call a server.
#pragma once

#include "cli/command/network_values.h"
#include "cli/command/verbs.h"
#include "cli/home/own_server.h"

namespace hearth::cli {

// As add_verb(), with --host and --api-key; options->api_base is the server's address.
template <typename Options, typename Exit>
NewVerb<Options> add_server_verb(CLI::App& parent, const char* name, const char* text,
                                 Action& action, Exit (*run)(const Options&)) {
  auto verb = add_verb(parent, name, text, action, run);
  const auto host = std::make_shared<std::string>();
  add_server(verb.app, *host, verb.options->api_key);
  verb.app->callback([o = verb.options, host, run, &action] {
    if constexpr (requires { o->host; }) o->host = *host;
    o->api_base = server_base(*host, o->api_key);
    action = [o, run] { return run(*o); };
  });
  return verb;
}

}  // namespace hearth::cli
