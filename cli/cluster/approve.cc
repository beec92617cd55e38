#include "cli/cluster/approve.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/limits.h"
#include "cli/cluster/init.h"
#include "cli/cluster/nodes.h"
#include "cli/terminal/date_text.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/table.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/store/store.h"

namespace hearth::cli {
namespace {

using coordinator::Store;
using coordinator::WaitingNode;
using Json = nlohmann::ordered_json;

// Those that still ask.
Result<std::vector<WaitingNode>> waiting_of(Store& store) {
  TRY(std::vector<WaitingNode> all, store.waiting());
  const std::int64_t now = SystemClock().unix_seconds();
  std::erase_if(
      all, [now](const WaitingNode& node) { return now - node.seen > limits::kWaitingSeconds; });
  return all;
}

int list(const std::vector<WaitingNode>& all, bool json) {
  if (json) {
    Json out = Json::array();
    for (const WaitingNode& node : all) {
      out.push_back({{"name", node.name},
                     {"words", three_words(node.key)},
                     {"key", node.key.hex()},
                     {"from", node.from},
                     {"since", node.since}});
    }
    std::printf("%s\n", out.dump().c_str());
    return kExitDone;
  }
  if (all.empty()) {
    std::fprintf(stderr,
                 "nobody asks to be let in; for the next %u minutes machines may (there: hearth "
                 "join), then look again\n",
                 limits::kDoorSeconds / 60);
    return kExitDone;
  }
  Table table({"NAME", "WORDS", "FROM", "SINCE"});
  for (const WaitingNode& node : all) {
    table.add({node.name, three_words(node.key), node.from, date_text(node.since)});
  }
  for (const std::string& line : table.lines()) std::printf("%s\n", line.c_str());
  std::fprintf(stderr,
               "if the words are those that the machine itself shows: hearth approve NAME\n");
  return kExitDone;
}

Result<WaitingNode> find(const std::vector<WaitingNode>& all, const std::string& wanted) {
  std::vector<WaitingNode> fit;
  for (const WaitingNode& node : all) {
    if (node.name == wanted || three_words(node.key) == wanted) fit.push_back(node);
  }
  if (fit.size() == 1) return fit.front();
  if (fit.empty()) {
    return Error{ErrorCode::kNotFound,
                 "nobody asks to be let in as " + wanted + "; hearth approve lists those that do"};
  }
  return Error{ErrorCode::kNotFound, "more than one node asks as " + wanted +
                                         "; name the words of the one that is meant (hearth "
                                         "approve lists them)"};
}

Status let_in(const ApproveOptions& options, Store& store, const WaitingNode& node) {
  TRY_VOID(check_name_is_free(options.data_dir, node.name));
  TRY(const Role role, parse_role(options.role));
  if (!options.owner.empty()) TRY_VOID(coordinator::check_owner_name(options.owner));
  REQUIRE(!options.newcomer || role == Role::kWorker, "only a worker can be a newcomer");
  const std::int64_t now = SystemClock().unix_seconds();
  return store.admit(
      {{node.key, node.name, role, now, false, options.owner, options.newcomer}, "", {}});
}

}  // namespace

int run_approve(const ApproveOptions& options) {
  const auto store = open_cluster_store(options.data_dir);
  if (!store.ok()) return fail(store.error());
  const Status open = coordinator::open_door(**store, SystemClock().unix_seconds());
  if (!open.ok()) return fail(open.error());
  const auto all = waiting_of(**store);
  if (!all.ok()) return fail(all.error());
  if (options.node.empty()) return list(*all, options.json);
  const auto node = find(*all, options.node);
  if (!node.ok()) return fail(node.error());
  if (const Status in = let_in(options, **store, *node); !in.ok()) return fail(in.error());
  const bool known = wait_for_roster(options.data_dir, node->key, true);
  if (options.json) {
    Json json = {{"approved", node->name}, {"role", options.role}, {"key", node->key.hex()}};
    if (!options.owner.empty()) json["owner"] = options.owner;
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::fprintf(stderr, "let in: %s %s (%s)%s\n", options.role.c_str(), node->name.c_str(),
                 three_words(node->key).c_str(),
                 known ? "" : "; the next start of the server tells it");
  }
  return kExitDone;
}

}  // namespace hearth::cli
