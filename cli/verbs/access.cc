#include <CLI/CLI.hpp>
#include <memory>

#include "base/limits.h"
#include "cli/cluster/keys.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"

namespace hearth::cli {
namespace {

CLI::App* add_key_verb(CLI::App& key, const char* name, const char* text, Action& action,
                       const std::shared_ptr<KeyOptions>& o, int (*go)(const KeyOptions&)) {
  CLI::App* verb = key.add_subcommand(name, text);
  verb->add_option("--data-dir", o->data_dir, "folder of the server's state");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, go, &action] { action = [o, go] { return go(*o); }; });
  return verb;
}

}  // namespace

void add_access_verbs(CLI::App& app, Action& action) {
  CLI::App* key = app.add_subcommand("key", "Make, list and revoke keys of the API");
  key->require_subcommand(1);

  auto made = std::make_shared<KeyOptions>();
  CLI::App* create =
      add_key_verb(*key, "create", "Make a key and print it, once", action, made, run_key_create);
  create->add_option("name", made->name, "to know it by (default: its id)")
      ->check(text_within(limits::kApiKeyNameBytes));
  create->add_option("--models", made->models, "names of the models it may use (default: all)")
      ->envname("HEARTH_KEY_MODELS")  // HEARTH_MODELS is the folder of pulled models
      ->delimiter(',')
      ->check(text_within(limits::kModelNameBytes));
  create
      ->add_option("--trust", made->trust,
                   "nodes that its requests stay on unless they name others (default: any)")
      ->envname("HEARTH_KEY_TRUST")
      ->delimiter(',')
      ->check(text_within(limits::kNodeNameBytes));
  create->add_option("--rate", made->requests_per_minute, "requests a minute (0: any number)")
      ->envname("HEARTH_KEY_RATE")
      ->check(whole_number(0, limits::kApiKeyRate));
  create
      ->add_option("--account", made->account,
                   "where the cluster runs with credits: the node whose credit it spends (default: "
                   "an account of its own, which is empty at first)")
      ->envname("HEARTH_KEY_ACCOUNT")
      ->check(text_within(limits::kNodeNameBytes));
  create
      ->add_option("--verify", made->verify,
                   "how its answers are verified at least, whatever a request says")
      ->envname("HEARTH_KEY_VERIFY")
      ->check(verify_text());
  create
      ->add_option("--min-level", made->min_level,
                   "nodes below this level see none of its prompts; a request can only raise it")
      ->envname("HEARTH_KEY_MIN_LEVEL")
      ->check(level_text());
  create->add_flag("--admin", made->admin, "it may also read state and metrics")
      ->envname("HEARTH_KEY_ADMIN");

  auto listed = std::make_shared<KeyOptions>();
  add_key_verb(*key, "list", "List all keys, without their secrets", action, listed, run_key_list)
      ->alias("ls");

  auto revoked = std::make_shared<KeyOptions>();
  add_key_verb(*key, "revoke", "Make a key worthless at once", action, revoked, run_key_revoke)
      ->add_option("key", revoked->name, "its name or id")
      ->required()
      ->check(text_within(limits::kApiKeyNameBytes));
}

}  // namespace hearth::cli
