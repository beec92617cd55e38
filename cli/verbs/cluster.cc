#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/limits.h"
#include "cli/cluster/approve.h"
#include "cli/cluster/init.h"
#include "cli/cluster/join.h"
#include "cli/cluster/nodes.h"
#include "cli/cluster/tokens.h"
#include "cli/command/network_values.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kTokenTextBytes = 4096;

void add_init(CLI::App& app, Action& action) {
  const auto o = std::make_shared<InitOptions>();
  CLI::App* verb = app.add_subcommand(
      "init", "Make a cluster that other machines can join, or give the one here another address");
  verb->add_option(
          "name", o->name,
          "what people call it (left out: the cluster that is here gets another --address)")
      ->check(text_within(limits::kNodeNameBytes));
  verb->add_option("--address", o->host,
                   "address of this machine that the others dial (default: found)")
      ->check(numeric_host());
  verb->add_option("--control-port", o->control_port, "port that they dial")
      ->check(whole_number(1, 65'535))
      ->default_str(std::to_string(kClusterPort));
  const auto credits = std::make_shared<bool>(false);
  CLI::Option* const paid = verb->add_flag(
      "--credits", *credits,
      "who sends prompts pays, and who computes or checks earns (default: the ledger is a log "
      "only; without a name, of the cluster that is here; --credits=false switches them off)");
  verb->add_option("--data-dir", o->data_dir, "folder of its keys and its state");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, credits, paid, &action] {
    if (paid->count() > 0) o->credits = *credits;
    action = [o] { return run_init(*o); };
  });
}

// Of who joins by a token, or is let in.
constexpr const char* kOwnerText =
    "whose machine it is: no two of one owner check each other (default: nobody's but its own)";

CLI::App* add_token_verb(CLI::App& token, const char* name, const char* text, Action& action,
                         const std::shared_ptr<TokenOptions>& o, int (*go)(const TokenOptions&)) {
  CLI::App* verb = token.add_subcommand(name, text);
  verb->add_option("--data-dir", o->data_dir, "folder of the cluster");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, go, &action] { action = [o, go] { return go(*o); }; });
  return verb;
}

void add_token(CLI::App& app, Action& action) {
  CLI::App* token = app.add_subcommand("token", "Make, list and revoke words to join with");
  token->require_subcommand(1);

  const auto made = std::make_shared<TokenOptions>();
  CLI::App* create = add_token_verb(*token, "create", "Make a join token and print it, once",
                                    action, made, run_token_create);
  create->add_option("--ttl", made->seconds, "how long it is good for, e.g. 30m, 24h, 7d")
      ->transform(duration(1, limits::kTokenSeconds))
      ->default_str("24h");
  create->add_option("--role", made->role, "what the machine may do: worker, client or admin")
      ->check(CLI::IsMember({"worker", "client", "admin"}))
      ->capture_default_str();
  create->add_option("--owner", made->owner, kOwnerText)
      ->check(text_within(limits::kNodeNameBytes));
  create->add_option("--uses", made->uses, "how many machines may join with it")
      ->check(whole_number(1, limits::kTokenUses))
      ->capture_default_str();
  create->add_flag("--newcomer", made->newcomer,
                   "do not vouch for the worker: it checks others' results, and serves nobody "
                   "before it has checked enough (hearth ledger policy)");

  const auto listed = std::make_shared<TokenOptions>();
  add_token_verb(*token, "list", "List all join tokens, without their secrets", action, listed,
                 run_token_list)
      ->alias("ls");

  const auto revoked = std::make_shared<TokenOptions>();
  add_token_verb(*token, "revoke", "Let nobody join with a token any more", action, revoked,
                 run_token_revoke)
      ->add_option("id", revoked->id, "its id")
      ->required()
      ->check(text_within(limits::kApiKeyNameBytes));
}

void add_join(CLI::App& app, Action& action) {
  const auto o = std::make_shared<JoinOptions>();
  CLI::App* verb = app.add_subcommand("join", "Join a cluster; as a worker, serve");
  verb->add_option("token", o->target,
                   "hh1...., of hearth token create on the cluster's machine; or its address, name "
                   "or words, to ask without one (default: list the clusters of this network)")
      ->check(text_within(kTokenTextBytes));
  verb->add_option("--wait", o->wait_seconds,
                   "without a token: how long to wait to be let in, e.g. 10m")
      ->transform(duration(1, limits::kTokenSeconds))
      ->default_str("10m");
  verb->add_flag("-y,--yes", o->yes, "without a token: ask to be let in without a question here");
  add_worker_options(*verb, o->worker);
  verb->callback([o, &action] { action = [o] { return run_join(*o); }; });
}

void add_approve(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ApproveOptions>();
  CLI::App* verb = app.add_subcommand("approve", "Let a node in that asks, or list those that do");
  verb->add_option("node", o->node, "its name, or the three words of its key")
      ->check(text_within(limits::kNodeNameBytes));
  verb->add_option("--role", o->role, "what it may do: worker, client or admin")
      ->check(CLI::IsMember({"worker", "client", "admin"}))
      ->capture_default_str();
  verb->add_option("--owner", o->owner, kOwnerText)->check(text_within(limits::kNodeNameBytes));
  verb->add_flag("--newcomer", o->newcomer,
                 "do not vouch for the worker: it checks others' results before it serves");
  verb->add_option("--data-dir", o->data_dir, "folder of the cluster");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, &action] { action = [o] { return run_approve(*o); }; });
}

void add_nodes(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("nodes", "List the nodes of the cluster, or remove one");
  const auto listed = std::make_shared<NodesOptions>();
  verb->add_option("--data-dir", listed->data_dir, "folder of the cluster");
  verb->add_flag("--json", listed->json, "print JSON");

  const auto removed = std::make_shared<NodesOptions>();
  CLI::App* remove = verb->add_subcommand("rm", "Let a node take part no more, at once");
  remove->add_option("name", removed->name, "as hearth nodes shows it")
      ->required()
      ->check(text_within(limits::kNodeNameBytes));
  remove->add_option("--data-dir", removed->data_dir, "folder of the cluster");
  remove->add_flag("--json", removed->json, "print JSON");

  const auto restored = std::make_shared<NodesOptions>();
  CLI::App* restore = verb->add_subcommand(
      "restore",
      "After an older copy of the folder was put back: take the members from the newest "
      "signed roster");
  restore->add_option("--data-dir", restored->data_dir, "folder of the cluster");
  restore->add_flag("--json", restored->json, "print JSON");
  verb->callback([listed, removed, restored, remove, restore, &action] {
    if (restore->parsed()) {
      action = [restored] { return run_nodes_restore(*restored); };
    } else if (remove->parsed()) {
      action = [removed] { return run_nodes_rm(*removed); };
    } else {
      action = [listed] { return run_nodes(*listed); };
    }
  });
}

void add_leave(CLI::App& app, Action& action) {
  const auto o = std::make_shared<NodesOptions>();
  CLI::App* verb = app.add_subcommand("leave", "Take this machine out of the cluster it joined");
  verb->add_flag("--here-only", o->here_only,
                 "forget the cluster without asking the coordinator, when it is gone");
  verb->add_option("--data-dir", o->data_dir, "folder of this machine's state");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, &action] { action = [o] { return run_leave(*o); }; });
}

}  // namespace

void add_cluster_verbs(CLI::App& app, Action& action) {
  add_init(app, action);
  add_token(app, action);
  add_join(app, action);
  add_approve(app, action);
  add_nodes(app, action);
  add_leave(app, action);
}

}  // namespace hearth::cli
