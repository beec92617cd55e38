#include <unistd.h>

#include <boost/algorithm/string/join.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <vector>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/random.h"
#include "cli/cluster/cluster.h"
#include "cli/home/announcements.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/member.h"
#include "cli/home/own_address.h"
#include "cli/models/models.h"
#include "cli/process/background.h"
#include "cli/process/paths.h"
#include "cli/process/service_manager.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/table.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "proto/address.h"
#include "proto/join_token.h"

namespace hearth::cli {
namespace {

constexpr std::string_view kToken = "hh1.";

// Checks, before anything is asked, whether the worker could start.
Status check_model_option(const WorkerOptions& options) {
  if (options.model.empty()) return ok_status();
  TRY(const auto path, resolve_model(options.model));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY_VOID(model::ModelSpec::read(*file));
  return ok_status();
}

// The name that the user gave, else this machine's name in the cluster, else its host name.
std::string own_name(const WorkerOptions& options) {
  if (!options.name.empty()) return options.name;
  const auto before = read_member_file(options.data_dir);
  return before.ok() && *before ? (*before)->node : host_name();
}

// "desk-4711"
std::string another_name(const std::string& name) {
  const std::string digits = std::to_string(SystemRandom().next() % 9'000 + 1'000);
  return name.substr(0, limits::kNodeNameBytes - digits.size() - 1) + "-" + digits;
}

// How the worker of a machine that has joined runs, now and after a restart of the machine.
std::string worker_step(const JoinOptions& options) {
  const std::string& data_dir = options.worker.data_dir;
  const Services services = find_services(data_folder(data_dir));
  if (services == Services::kOfThisFolder) {
    return "\nto run its worker as a service, from now on and after each restart of this machine: "
           "sudo systemctl enable --now hearth-worker";
  }
  const std::string by_hand = "hearth worker" + (data_dir.empty() ? "" : " --data-dir " + data_dir);
  if (options.no_worker) return "\nto start its worker: " + by_hand;
  std::string text = options.detach ? "" : "; keep this window open, or use hearth join --detach";
  text += "\nafter a restart of this machine: " + by_hand;
  if (services == Services::kNone) return text;
  return text + "\nto have a service start it instead: sudo hearth-service join TOKEN";
}

// The next step for a person on a machine that has joined.
std::string next_step(const MemberFile& member, const JoinOptions& options) {
  if (member.role == Role::kWorker) {
    return "the coordinator assigns its layers" + worker_step(options);
  }
  if (member.api.empty()) {
    return "the API accepts only connections of its own machine; start it there with hearth serve "
           "... --host 0.0.0.0, then repeat this hearth join";
  }
  return "the API is at " + member.api +
         ", with an API key for this machine\nnext:  hearth run MODEL \"Hello\"" +
         (member.role == Role::kAdmin ? ", hearth status" : "");
}

// The coordinator would refuse a second worker with the same key, and a join token for a client
// needs another folder.
Status check_no_worker_runs(const JoinOptions& options, const JoinToken& token) {
  const std::string folder = data_folder(options.worker.data_dir);
  const auto before = read_member_file(folder);
  const bool same = before.ok() && *before && fingerprint((*before)->cluster) == token.fingerprint;
  if (!same || lock_worker(folder, (*before)->node, {}).ok()) return ok_status();
  return Error{
      ErrorCode::kRefused,
      "this machine is " + std::string(role_name((*before)->role)) + " " + (*before)->node +
          " of this cluster already, and its worker runs; to also send prompts from this machine: "
          "hearth join TOKEN --name NAME --data-dir FOLDER with a join token for a client"};
}

Result<MemberFile> join_with_token(const JoinOptions& options) {
  TRY(const JoinToken token, parse_join_token(options.target));
  TRY_VOID(check_no_worker_runs(options, token));
  const bool serves = !options.worker.model.empty();
  TRY_VOID(check_model_option(options.worker));
  const auto role = serves ? std::optional(Role::kWorker) : std::nullopt;
  auto joined = join_cluster(options.worker.data_dir, token, own_name(options.worker), role);
  // Two machines may have the same host name, and the refusal does not say that this is the reason.
  const bool refused = !joined.ok() && joined.error().code == ErrorCode::kInvalidInput;
  if (!refused || !options.worker.name.empty()) return joined;
  auto again = join_cluster(options.worker.data_dir, token, another_name(host_name()), role);
  return again.ok() ? again : joined;
}

bool is_terminal() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0; }

std::string read_answer() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

// The cluster that the user chose; nothing when the user chose none.
std::optional<FoundCluster> choose(const std::vector<FoundCluster>& found) {
  Table table({"#", "CLUSTER", "WORDS", "ADDRESS"});
  for (std::size_t i = 0; i < found.size(); ++i) {
    table.add({std::to_string(i + 1), found[i].name, three_words(found[i].key), found[i].address});
  }
  succeed(boost::algorithm::join(table.lines(), "\n"));
  std::fflush(stdout);
  if (!is_terminal()) return std::nullopt;
  std::fprintf(stderr, "number of the cluster to join (empty: none): ");
  const std::string answer = read_answer();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (answer == std::to_string(i + 1)) return found[i];
  }
  return std::nullopt;
}

Result<FoundCluster> find_named(std::vector<FoundCluster> fit, const std::string& wanted) {
  std::erase_if(fit, [&](const FoundCluster& each) {
    return each.name != wanted && three_words(each.key) != wanted;
  });
  if (fit.size() == 1) return fit.front();
  const std::string which = fit.empty() ? "no cluster on this network announces itself as "
                                        : "several clusters announce themselves as ";
  return Error::of(ErrorCode::kNotFound, which, wanted, "; hearth join lists them");
}

// The coordinator to ask, as the user chose it; nothing when the user only listed clusters or chose
// none.
Result<std::optional<node::Waiting>> find_door(const JoinOptions& options) {
  node::Waiting waiting;
  for (const std::string& text : {options.target, Address{options.target, kClusterPort}.text(),
                                  options.target + ":" + std::to_string(kClusterPort)}) {
    const auto address = parse_address(text);
    if (!address.ok()) continue;
    waiting.address = address->text();
    return std::optional(waiting);
  }
  TRY(const auto found, discover_clusters());
  std::optional<FoundCluster> chosen;
  if (!options.target.empty()) {
    TRY(chosen, find_named(found, options.target));
  } else if (found.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no cluster announces itself on this network; on the coordinator's machine run "
                 "hearth init NAME and hearth serve, with avahi-utils installed"};
  } else {
    chosen = choose(found);
  }
  if (!chosen) return std::optional<node::Waiting>();
  waiting.address = chosen->address;
  waiting.cluster = chosen->key;
  return std::optional(waiting);
}

// A person compares the words. A script, which cannot compare them, passes --yes.
bool confirm(const PublicKey& cluster, const PublicKey& own, const JoinOptions& options) {
  const std::string name = own_name(options.worker);
  std::fprintf(stderr,
               "the machine at that address holds the key of the cluster %s (%s)\nthis machine is "
               "%s, with the key %s\ncompare the words on both screens; they distinguish machines, "
               "but only a join token protects against an attacker who forges them\n",
               three_words(cluster).c_str(), fingerprint(cluster).c_str(), name.c_str(),
               three_words(own).c_str());
  if (!options.yes) {
    if (!is_terminal()) {
      std::fprintf(stderr,
                   "stdin is not a terminal: pass --yes to ask without comparing the keys\n");
      return false;
    }
    std::fprintf(stderr, "ask to join this cluster? [y/N] ");
    const std::string answer = read_answer();
    if (answer != "y" && answer != "Y" && answer != "yes") return false;
  }
  std::fprintf(stderr, "asked; on the coordinator's machine: hearth approve %s\n", name.c_str());
  return true;
}

Result<std::optional<MemberFile>> join_without_token(const JoinOptions& options) {
  TRY(auto waiting, find_door(options));
  if (!waiting) return std::optional<MemberFile>();
  TRY_VOID(check_model_option(options.worker));
  catch_interrupts();
  waiting->patience = std::chrono::seconds(options.wait_seconds);
  waiting->closed = [](const Error& why) {
    std::fprintf(stderr, "%s; waiting for it\n", escape_lines(why.message).c_str());
  };
  waiting->confirm = [&](const PublicKey& cluster, const PublicKey& own) {
    return confirm(cluster, own, options);
  };
  waiting->go_on = [] { return !interrupted(); };
  TRY(MemberFile member, wait_to_join(options.worker.data_dir, *waiting, own_name(options.worker)));
  return std::optional(std::move(member));
}

// This machine is a member already: it learns where its coordinator is now.
Result<int> find_again(const JoinOptions& options) {
  TRY(const auto door, find_door(options));
  INVARIANT(door.has_value(), "a target was named");
  TRY(const MemberFile member, find_coordinator_at(options.worker.data_dir, door->address));
  std::fprintf(stderr, "new address of the cluster %s noted: %s; %s\n",
               cluster_text(member).c_str(), member.coordinators.front().c_str(),
               member.role == Role::kWorker
                   ? "a running worker reconnects there, else start one: hearth worker"
                   : next_step(member, options).c_str());
  return kExitDone;
}

}  // namespace

std::string join_target(std::string pasted) {
  constexpr std::string_view kCommand = "hearth join ";
  std::erase_if(pasted, [](char c) { return c == '"' || c == '\'' || c == '`'; });
  boost::algorithm::trim(pasted);
  while (pasted.starts_with(kCommand)) pasted.erase(0, kCommand.size());
  if (pasted.starts_with(kToken)) std::erase_if(pasted, [](unsigned char c) { return c <= ' '; });
  return pasted;
}

Result<int> run_join(const JoinOptions& options) {
  if (options.detach) TRY_VOID(go_to_background());
  const auto before = read_member_file(options.worker.data_dir);
  const bool by_token = options.target.starts_with(kToken);
  if (before.ok() && *before && !options.target.empty() && !by_token) return find_again(options);
  std::optional<MemberFile> member;
  if (by_token) {
    TRY(member, join_with_token(options));
  } else {
    TRY(member, join_without_token(options));
  }
  if (!member) return kExitDone;
  std::fprintf(stderr, "joined the cluster %s as %s %s; %s\n", cluster_text(*member).c_str(),
               std::string(role_name(member->role)).c_str(), member->node.c_str(),
               next_step(*member, options).c_str());
  const bool works = member->role == Role::kWorker && !options.no_worker;
  return works ? run_worker(options.worker) : Result<int>(kExitDone);
}

}  // namespace hearth::cli
