#include <CLI/CLI.hpp>

#include "base/limits.h"
#include "cli/cluster/cluster.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"

namespace hearth::cli {
namespace {

NewVerb<KeyOptions> add_key_verb(CLI::App& key, const char* name, const char* text, Action& action,
                                 Result<int> (*run)(const KeyOptions&)) {
  auto verb = add_verb(key, name, text, action, run);
  verb.app->add_option("--data-dir", verb.options->data_dir, "data folder of the server");
  verb.app->add_flag("--json", verb.options->json, "print JSON");
  return verb;
}

}  // namespace

void add_access_verbs(CLI::App& app, Action& action) {
  CLI::App* key = app.add_subcommand("key", "Create, list and revoke API keys");
  key->require_subcommand(1);

  const auto [create, made] =
      add_key_verb(*key, "create", "Create a key and print it once", action, run_key_create);
  create->add_option("name", made->name, "name of the key (default: its id)")
      ->check(text_within(limits::kApiKeyNameBytes));
  create->add_option("--models", made->models, "models that it may use (default: all)")
      ->envname("HEARTH_KEY_MODELS")  // HEARTH_MODELS is the folder of pulled models
      ->delimiter(',')
      ->check(text_within(limits::kModelNameBytes));
  create
      ->add_option("--trust", made->trust,
                   "nodes that compute its requests, unless a request names others (default: any)")
      ->envname("HEARTH_KEY_TRUST")
      ->delimiter(',')
      ->check(text_within(limits::kNodeNameBytes));
  create->add_option("--rate", made->requests_per_minute, "requests a minute (0: any number)")
      ->envname("HEARTH_KEY_RATE")
      ->check(whole_number(0, limits::kApiKeyRate));
  create
      ->add_option("--account", made->account,
                   "with credits: the node whose account pays (default: an account of its own, "
                   "which starts empty)")
      ->envname("HEARTH_KEY_ACCOUNT")
      ->check(text_within(limits::kNodeNameBytes));
  create
      ->add_option("--verify", made->verify,
                   "least verification of its answers; a request can only ask for more")
      ->envname("HEARTH_KEY_VERIFY")
      ->check(verify_text());
  create
      ->add_option("--min-level", made->min_level,
                   "least level of nodes that see its prompts; a request can only raise it")
      ->envname("HEARTH_KEY_MIN_LEVEL")
      ->check(level_text());
  create->add_flag("--admin", made->admin, "may also read status and manage the swarm")
      ->envname("HEARTH_KEY_ADMIN");

  add_key_verb(*key, "list", "List all keys, without their secrets", action, run_key_list)
      .app->alias("ls");

  const auto [revoke, revoked] =
      add_key_verb(*key, "revoke", "Revoke a key at once", action, run_key_revoke);
  revoke->add_option("key", revoked->name, "name or id of the key")
      ->required()
      ->check(text_within(limits::kApiKeyNameBytes));
}

}  // namespace hearth::cli
