#include "cli/cluster/join.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <vector>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/random.h"
#include "cli/home/discovery.h"
#include "cli/home/member.h"
#include "cli/home/own_address.h"
#include "cli/models/models.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/table.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "proto/address.h"
#include "proto/join_token.h"

namespace hearth::cli {
namespace {

// Before anything is asked: what would keep the worker from starting.
Status check_model(const WorkerOptions& options) {
  if (options.model.empty()) return ok_status();
  TRY(const auto path, resolve_model(options.model));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY_VOID(model::ModelSpec::read(*file));
  return ok_status();
}

// As it was given, as this machine is called here already, or its host name.
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

// What a person does next on a machine that has joined.
std::string next_step(const MemberFile& member) {
  if (member.role == Role::kWorker) {
    return "its coordinator says what this machine shall hold\nafter a restart: hearth worker";
  }
  if (member.api.empty()) {
    return "its API serves its own machine alone; there: hearth serve ... --host 0.0.0.0, then "
           "here again: hearth join, with the same word or address";
  }
  return "the API is at " + member.api +
         ", with a key of this machine's own\nnext: hearth run MODEL \"Hello\"" +
         (member.role == Role::kAdmin ? ", hearth status" : "");
}

Result<MemberFile> join_with_token(const JoinOptions& options) {
  TRY(const JoinToken token, parse_join_token(options.target));
  const bool serves = !options.worker.model.empty();
  TRY_VOID(check_model(options.worker));
  const auto role = serves ? std::optional(Role::kWorker) : std::nullopt;
  auto joined = join_cluster(options.worker.data_dir, token, own_name(options.worker), role);
  // Two machines may have one host name, and the refusal does not say that it is for this.
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

// The one that the user chose; nothing when he chose none.
std::optional<FoundCluster> choose(const std::vector<FoundCluster>& found) {
  Table table({"#", "CLUSTER", "WORDS", "ADDRESS"});
  for (std::size_t i = 0; i < found.size(); ++i) {
    table.add({std::to_string(i + 1), found[i].name, three_words(found[i].key), found[i].address});
  }
  for (const std::string& line : table.lines()) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  if (!is_terminal()) return std::nullopt;
  std::fprintf(stderr, "number of the one to ask (none: leave it): ");
  const std::string answer = read_answer();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (answer == std::to_string(i + 1)) return found[i];
  }
  return std::nullopt;
}

Result<FoundCluster> find_named(const std::vector<FoundCluster>& found, const std::string& wanted) {
  std::vector<FoundCluster> fit;
  for (const FoundCluster& each : found) {
    if (each.name == wanted || three_words(each.key) == wanted) fit.push_back(each);
  }
  if (fit.size() == 1) return fit.front();
  const std::string which = fit.empty() ? "no cluster of this network announces itself as "
                                        : "more than one cluster announces itself as ";
  return Error{ErrorCode::kNotFound, which + wanted + "; hearth join lists those that do"};
}

// Whom to ask, as the user says; nothing when he has only looked, or chosen none.
Result<std::optional<Waiting>> find_door(const JoinOptions& options) {
  Waiting waiting;
  if (const auto address = parse_address(options.target); address.ok()) {
    waiting.address = address->text();
    return std::optional(waiting);
  }
  TRY(const auto found, discover_clusters());
  std::optional<FoundCluster> chosen;
  if (!options.target.empty()) {
    TRY(chosen, find_named(found, options.target));
  } else if (found.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no cluster announces itself on this network; on the machine that answers "
                 "requests: hearth init NAME, hearth serve (and avahi-utils)"};
  } else {
    chosen = choose(found);
  }
  if (!chosen) return std::optional<Waiting>();
  waiting.address = chosen->address;
  waiting.cluster = chosen->key;
  return std::optional(waiting);
}

// A person compares the words; who has none to look, as a script, says so with --yes.
bool confirm(const PublicKey& cluster, const PublicKey& own, const JoinOptions& options) {
  const std::string name = own_name(options.worker);
  std::fprintf(stderr,
               "the machine there holds the key of the cluster %s (%s)\n"
               "this machine is %s, with the key %s\n"
               "words tell machines of a house apart; against somebody who forges them only a "
               "token helps\n",
               three_words(cluster).c_str(), fingerprint(cluster).c_str(), name.c_str(),
               three_words(own).c_str());
  if (!options.yes) {
    if (!is_terminal()) {
      std::fprintf(stderr, "nobody is here to compare; to ask all the same: --yes\n");
      return false;
    }
    std::fprintf(stderr, "ask it to let this machine in? [y/N] ");
    const std::string answer = read_answer();
    if (answer != "y" && answer != "Y" && answer != "yes") return false;
  }
  std::fprintf(stderr, "asked; on the coordinator's machine: hearth approve %s\n", name.c_str());
  return true;
}

Result<std::optional<MemberFile>> join_without_token(const JoinOptions& options) {
  TRY(auto waiting, find_door(options));
  if (!waiting) return std::optional<MemberFile>();
  TRY_VOID(check_model(options.worker));
  catch_interrupts();
  waiting->patience = std::chrono::seconds(options.wait_seconds);
  waiting->closed = [](const Error& why) {
    std::fprintf(stderr, "%s; waiting for it\n", why.message.c_str());
  };
  waiting->confirm = [&](const PublicKey& cluster, const PublicKey& own) {
    return confirm(cluster, own, options);
  };
  waiting->go_on = [] { return !interrupted(); };
  TRY(MemberFile member, wait_to_join(options.worker.data_dir, *waiting, own_name(options.worker)));
  return std::optional(std::move(member));
}

// On a machine that is in the cluster already: where its coordinator is now.
Result<std::optional<MemberFile>> find_again(const JoinOptions& options) {
  TRY(const auto door, find_door(options));
  if (!door) return std::optional<MemberFile>();
  TRY(MemberFile member, find_coordinator_at(options.worker.data_dir, door->address));
  return std::optional(std::move(member));
}

Result<std::optional<MemberFile>> join(const JoinOptions& options) {
  if (!options.target.starts_with("hh1.")) return join_without_token(options);
  TRY(MemberFile member, join_with_token(options));
  return std::optional(std::move(member));
}

}  // namespace

int run_join(const JoinOptions& options) {
  const auto before = read_member_file(options.worker.data_dir);
  if (before.ok() && *before && !options.target.empty() && !options.target.starts_with("hh1.")) {
    const auto found = find_again(options);
    if (!found.ok()) return fail(found.error());
    std::fprintf(stderr,
                 "the coordinator of the cluster %s is at %s; a worker that runs here dials it "
                 "there now, else: hearth worker\n",
                 three_words((*found)->cluster).c_str(), (*found)->coordinators.front().c_str());
    return kExitDone;
  }
  const auto member = join(options);
  if (!member.ok()) return fail(member.error());
  if (!*member) return kExitDone;
  std::fprintf(stderr, "joined the cluster %s as %s %s; %s\n",
               three_words((*member)->cluster).c_str(),
               std::string(role_name((*member)->role)).c_str(), (*member)->node.c_str(),
               next_step(**member).c_str());
  return (*member)->role == Role::kWorker ? run_worker(options.worker) : kExitDone;
}

}  // namespace hearth::cli
