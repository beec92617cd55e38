#include <CLI/CLI.hpp>
#include <memory>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/ledger/archive.h"
#include "cli/ledger/audit.h"
#include "cli/ledger/standings.h"
#include "cli/ledger/verify.h"
#include "cli/verbs/server_verb.h"
#include "cli/worker/device.h"

namespace hearth::cli {
namespace {

constexpr int kArchiveDaysMax = 36'500;

void add_archive_option(CLI::App* verb, std::string& archive) {
  verb->add_option("--archive", archive,
                   "where the log's archived bundles are now (default: where hearth ledger archive "
                   "put them)");
}

void add_audit(CLI::App& app, Action& action) {
  const auto [verb, o] = add_verb(
      app, "audit", "Verify a ledger offline, from its files alone (exit code 6: not sound)",
      action, run_audit);
  verb->add_option("folder", o->folder, "a server's data folder, or a log's own");
  verb->add_option("--key", o->key, "the log's key, 64 hex digits (default: the key that it names)")
      ->envname("HEARTH_LEDGER_KEY");  // HEARTH_KEY_... are the API's
  CLI::Option* earlier = verb->add_option(
      "--earlier", o->earlier, "a file with an earlier checkpoint that the log must extend");
  verb->add_option(
          "--keep", o->keep,
          "a file that keeps the verified checkpoint; the next run requires the log to extend it")
      ->excludes(earlier);
  verb->add_option("--fork", o->fork,
                   "instead of a folder: a witness's file that proves two histories of one log");
  add_archive_option(verb, o->archive);
  verb->add_flag("--without-archive", o->without_archive,
                 "verify archived entries by their hashes alone; the books are not replayed then")
      ->excludes("--archive");
  verb->add_flag("--json", o->json, "print JSON");
}

void add_verify(CLI::App& app, Action& action) {
  const auto [verb, o] = add_verb(
      app, "verify",
      "Verify an answer's receipts offline, by the ledger's files alone (exit code 6: not proved)",
      action, run_verify);
  verb->add_option("receipt", o->receipt,
                   "receipt id (hearth.receipt, x-hearth-receipt), or a file with the answer "
                   "(hearth run --receipt, or a saved body)");
  verb->add_option("folder", o->folder,
                   "a server's data folder, or a log's own (default: this machine's)");
  verb->add_option("--key", o->key, "the log's key, 64 hex digits (default: the key that it names)")
      ->envname("HEARTH_LEDGER_KEY");
  add_archive_option(verb, o->archive);
  verb->add_flag("--json", o->json, "print JSON");
  verb->add_flag("--re-execute", o->re_execute,
                 "recompute the answer with a model file on this machine, and compare");
  verb->add_option("--request", o->request,
                   "a file with the body of the request, if the answer's file has none");
  verb->add_option("--model", o->machine.model,
                   "file or pulled name: with --re-execute (default: as the request names it)");
  verb->add_option("--chat-template", o->machine.chat_template,
                   "with --re-execute: the Jinja file that the server was started with");
  verb->add_option("-t,--threads", o->machine.threads,
                   "with --re-execute: compute threads (0: all cores)")
      ->check(whole_number(0, limits::kComputeThreads));
  verb->add_option("--memory", o->machine.memory_bytes,
                   "with --re-execute: memory in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  verb->add_option("--device", o->machine.device,
                   "with --re-execute: device; auto: the first GPU, if there is one")
      ->check(device_text())
      ->capture_default_str();
}

void add_log_options(CLI::App* verb, const std::shared_ptr<StandingsOptions>& o) {
  verb->add_option("--folder", o->folder,
                   "a server's data folder, or a log's own (default: this machine's)");
  verb->add_option("--key", o->key, "the log's key, 64 hex digits (default: the key that it names)")
      ->envname("HEARTH_LEDGER_KEY");
  add_archive_option(verb, o->archive);
  verb->add_flag("--json", o->json, "print JSON");
}

void add_archive(CLI::App* ledger, Action& action) {
  const auto [archive, o] =
      add_verb(*ledger, "archive",
               "Move old entries of the log to another folder, where every reader finds them",
               action, run_archive);
  archive->add_option("to", o->to, "the archive's folder, outside of the log's")->required();
  archive->add_option("--folder", o->folder,
                      "a server's data folder, or a log's own (default: this machine's)");
  archive
      ->add_option("--older-than", o->older_than_days,
                   "days by which an entry must be older than the log's latest one")
      ->check(whole_number(0, kArchiveDaysMax))
      ->capture_default_str();
  archive->add_flag("--json", o->json, "print JSON");
}

void add_policy(CLI::App* ledger, Action& action) {
  const auto [policy, o] =
      add_verb(*ledger, "policy", "Print the rules, and how much a cheat would lose under them",
               action, run_ledger_policy);
  policy->add_flag("--json", o->json, "print JSON");
}

void add_grant(CLI::App* ledger, Action& action) {
  const auto [grant, o] =
      add_server_verb(*ledger, "grant", "Grant credits to an account, in a cluster with credits",
                      action, run_grant);
  grant->add_option("account", o->to, "a node's or an API key's name, or 64 hex digits")
      ->required()
      ->check(text_within(limits::kApiKeyNameBytes));
  grant->add_option("amount", o->amount, "credits")->required();
  grant->add_flag("--json", o->json, "print JSON");
}

void add_ledger(CLI::App& app, Action& action) {
  auto o = std::make_shared<StandingsOptions>();
  CLI::App* ledger = app.add_subcommand("ledger",
                                        "Show standing, credits and history of nodes, from a "
                                        "ledger's files (exit code 6: not sound)");
  ledger->add_option("node", o->node, "a node's name or key (default: all)");
  add_log_options(ledger, o);
  ledger->callback([o, ledger, &action] {
    if (ledger->get_subcommands().empty()) action = [o] { return run_standings(*o); };
  });
  add_archive(ledger, action);
  add_policy(ledger, action);
  add_grant(ledger, action);

  auto t = std::make_shared<StandingsOptions>();
  t->by_work = true;
  t->most = 10;
  CLI::App* top = ledger->add_subcommand("top", "List the nodes that served most");
  top->add_option("-n,--most", t->most, "rows (0: all)");
  add_log_options(top, t);
  // Options stand on either side of the word.
  top->callback([o, t, ledger, top, &action] {
    const auto is_before = [&](const char* name) {
      return ledger->count(name) > 0 && top->count(name) == 0;
    };
    if (is_before("--folder")) t->folder = o->folder;
    if (is_before("--key")) t->key = o->key;
    if (is_before("--archive")) t->archive = o->archive;
    if (is_before("--json")) t->json = o->json;
    action = [t] { return run_standings(*t); };
  });
}

}  // namespace

void add_ledger_verbs(CLI::App& app, Action& action) {
  add_audit(app, action);
  add_verify(app, action);
  add_ledger(app, action);
}

}  // namespace hearth::cli
