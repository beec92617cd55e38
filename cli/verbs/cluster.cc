#include "cli/cluster/cluster.h"

#include <CLI/CLI.hpp>
#include <boost/algorithm/string/join.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "cli/command/network_values.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"
#include "cli/home/cluster_file.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kTokenTextBytes = 4096;

void add_init(CLI::App& app, Action& action) {
  const auto o = std::make_shared<InitOptions>();
  CLI::App* verb = app.add_subcommand(
      "init", "Create a cluster on this machine, or change its address or credits");
  verb->add_option("name", o->name, "name of the new cluster (default: change the existing one)")
      ->check(text_within(limits::kNodeNameBytes));
  verb->add_option("--address", o->host,
                   "address of this machine for other machines (default: detected)")
      ->check(numeric_host());
  verb->add_option("--control-port", o->control_port, "port for other machines")
      ->check(whole_number(1, 65'535))
      ->default_str(std::to_string(kClusterPort));
  const auto credits = std::make_shared<bool>(false);
  CLI::Option* const paid =
      verb->add_flag("--credits", *credits,
                     "accounts pay for prompts, and nodes earn by computing and auditing (default: "
                     "off for a new cluster; --credits=false switches them off)");
  verb->add_option(
          "--invite", o->invite,
          "with a new cluster: also create a join token for this many machines, valid for a day")
      ->check(whole_number(1, limits::kTokenUses));
  verb->add_option("--data-dir", o->data_dir, "data folder");
  verb->add_option("--store", o->store,
                   "with a new cluster: keep members and keys in PostgreSQL: "
                   "postgresql://USER@HOST/DATABASE (default: SQLite in the data folder)");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, credits, paid, &action] {
    if (paid->count() > 0) o->credits = *credits;
    action = [o] { return run_init(*o); };
  });
}

// The help of --owner, for nodes that join with a token or are approved.
constexpr const char* kOwnerText =
    "owner of the node; nodes of one owner do not audit each other (default: the node itself)";

template <typename Options, typename Exit>
NewVerb<Options> add_cluster_verb(CLI::App& parent, const char* name, const char* text,
                                  Action& action, Exit (*run)(const Options&)) {
  auto verb = add_verb(parent, name, text, action, run);
  verb.app->add_option("--data-dir", verb.options->data_dir, "data folder of the cluster");
  verb.app->add_flag("--json", verb.options->json, "print JSON");
  return verb;
}

void add_token(CLI::App& app, Action& action) {
  CLI::App* token = app.add_subcommand("token", "Create, list and revoke join tokens");
  token->require_subcommand(1);

  const auto [create, made] = add_cluster_verb(
      *token, "create", "Create a join token and print it once", action, run_token_create);
  create->add_option("--ttl", made->seconds, "how long it is valid, e.g. 30m, 24h, 7d")
      ->transform(duration(1, limits::kTokenSeconds))
      ->default_str("24h");
  create->add_option("--role", made->role, "role of the node: worker, client or admin")
      ->check(CLI::IsMember({"worker", "client", "admin"}))
      ->capture_default_str();
  create->add_option("--owner", made->owner, kOwnerText)
      ->check(text_within(limits::kNodeNameBytes));
  create->add_option("--uses", made->uses, "how many machines may join with it")
      ->check(whole_number(1, limits::kTokenUses))
      ->capture_default_str();
  create->add_flag("--newcomer", made->newcomer,
                   "admit the worker as a newcomer: it must audit enough windows before it serves "
                   "(hearth ledger policy)");

  add_cluster_verb(*token, "list", "List all join tokens, without their secrets", action,
                   run_token_list)
      .app->alias("ls");

  const auto [revoke, revoked] =
      add_cluster_verb(*token, "revoke", "Revoke a join token", action, run_token_revoke);
  revoke->add_option("id", revoked->id, "its id")
      ->required()
      ->check(text_within(limits::kApiKeyNameBytes));
}

void add_join(CLI::App& app, Action& action) {
  const auto o = std::make_shared<JoinOptions>();
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("join", "Join a cluster; a worker starts to serve");
  verb->add_option("token", *words,
                   "TOKEN from hearth token create; or ADDRESS[:11501], a cluster's name or its "
                   "words, to ask for admission (default: list the clusters on this network)")
      ->check(text_within(kTokenTextBytes));
  verb->callback([o, words, &action] {
    o->target = join_target(boost::algorithm::join(*words, " "));
    action = [o] { return run_join(*o); };
  });
  verb->add_option("--wait", o->wait_seconds,
                   "without a token: how long to wait for approval, e.g. 10m")
      ->transform(duration(1, limits::kTokenSeconds))
      ->default_str("10m");
  verb->add_flag("-y,--yes", o->yes, "without a token: ask without comparing the keys here");
  add_worker_options(*verb, o->worker);
  add_detach(*verb, o->detach);
  verb->add_flag("--no-worker", o->no_worker,
                 "only join; the worker is started later, by a service or by hearth worker")
      ->excludes("--detach");
}

void add_approve(CLI::App& app, Action& action) {
  const auto [verb, o] =
      add_cluster_verb(app, "approve", "Admit a node that asks to join, or list the nodes that ask",
                       action, run_approve);
  verb->add_option("node", o->node, "name of the node, or the three words of its key")
      ->check(text_within(limits::kNodeNameBytes));
  verb->add_option("--role", o->role, "what it may do: worker, client or admin")
      ->check(CLI::IsMember({"worker", "client", "admin"}))
      ->capture_default_str();
  verb->add_option("--owner", o->owner, kOwnerText)->check(text_within(limits::kNodeNameBytes));
  verb->add_flag("--newcomer", o->newcomer,
                 "admit the worker as a newcomer: it must audit enough windows before it serves");
}

void add_nodes(CLI::App& app, Action& action) {
  CLI::App* verb = add_cluster_verb(app, "nodes", "List the nodes of the cluster, or remove one",
                                    action, run_nodes)
                       .app;
  const auto [remove, removed] =
      add_cluster_verb(*verb, "rm", "Remove a node at once", action, run_nodes_rm);
  remove->add_option("name", removed->name, "name, as hearth nodes shows it")
      ->required()
      ->check(text_within(limits::kNodeNameBytes));
  add_cluster_verb(*verb, "restore",
                   "Take the members from the newest signed roster, after an older copy of the "
                   "folder was put back",
                   action, run_nodes_restore);
}

void add_store(CLI::App& app, Action& action) {
  CLI::App* store = app.add_subcommand("store", "Bring the store of members and keys elsewhere");
  store->require_subcommand(1);
  const auto [migrate, o] =
      add_cluster_verb(*store, "migrate", "Bring all rows to PostgreSQL, or back to SQLite", action,
                       run_store_migrate);
  migrate
      ->add_option("--to", o->to,
                   "postgresql://USER@HOST/DATABASE, with the password in ~/.pgpass; or sqlite")
      ->envname("HEARTH_STORE_TO")
      ->required();
}

void add_leave(CLI::App& app, Action& action) {
  const auto [verb, o] =
      add_verb(app, "leave", "Take this machine out of the cluster it joined", action, run_leave);
  verb->add_flag("--here-only", o->here_only,
                 "forget the cluster without telling the coordinator, when it is gone");
  verb->add_option("--data-dir", o->data_dir, "data folder of this machine");
  verb->add_flag("--json", o->json, "print JSON");
}

}  // namespace

void add_cluster_verbs(CLI::App& app, Action& action) {
  add_init(app, action);
  add_token(app, action);
  add_join(app, action);
  add_approve(app, action);
  add_nodes(app, action);
  add_store(app, action);
  add_leave(app, action);
}

}  // namespace hearth::cli
