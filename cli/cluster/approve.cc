#include <boost/algorithm/string/join.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/limits.h"
#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/table.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/membership/members.h"
#include "coordinator/store/store.h"

namespace hearth::cli {
namespace {

using coordinator::Store;
using coordinator::WaitingNode;
using OrderedJson = nlohmann::ordered_json;

int list(const std::vector<WaitingNode>& all, bool json) {
  if (json) {
    OrderedJson out = OrderedJson::array();
    for (const WaitingNode& node : all) {
      out.push_back({{"name", node.name},
                     {"words", three_words(node.key)},
                     {"key", node.key.hex()},
                     {"from", node.from},
                     {"since", node.since}});
    }
    return succeed(out.dump());
  }
  if (all.empty()) {
    std::fprintf(stderr,
                 "no node asks to join. Nodes may ask for the next %u minutes (there: hearth "
                 "join); then run hearth approve again\n",
                 limits::kDoorSeconds / 60);
    return kExitDone;
  }
  Table table({"NAME", "WORDS", "FROM", "SINCE"});
  for (const WaitingNode& node : all) {
    table.add({node.name, three_words(node.key), node.from, date_text(node.since)});
  }
  succeed(boost::algorithm::join(table.lines(), "\n"));
  std::fputs("if the node shows the same words: hearth approve NAME\n", stderr);
  return kExitDone;
}

Result<WaitingNode> find(std::vector<WaitingNode> fit, const std::string& wanted) {
  std::erase_if(fit, [&](const WaitingNode& node) {
    return node.name != wanted && three_words(node.key) != wanted;
  });
  if (fit.size() == 1) return fit.front();
  return Error{
      ErrorCode::kNotFound,
      fit.empty()
          ? "no node asks to join as " + wanted + "; hearth approve lists the nodes that ask"
          : "several nodes ask to join as " + wanted +
                "; pass the three words of its key instead (hearth approve lists them)"};
}

Status let_in(const ApproveOptions& options, Store& store, const WaitingNode& node) {
  TRY_VOID(check_name_is_free(options.data_dir, node.name));
  TRY(const Role role, parse_role(options.role));
  return coordinator::approve(store, node, {role, options.owner, options.newcomer},
                              SystemClock().unix_seconds());
}

}  // namespace

Result<int> run_approve(const ApproveOptions& options) {
  TRY(const auto store, open_cluster_store(options.data_dir));
  const std::int64_t now = SystemClock().unix_seconds();
  TRY_VOID(coordinator::open_door(*store, now));
  TRY(const auto all, coordinator::nodes_that_ask(*store, now));
  if (options.node.empty()) return list(all, options.json);
  TRY(const auto node, find(all, options.node));
  TRY_VOID(let_in(options, *store, node));
  const bool known = wait_for_roster(options.data_dir, node.key, true);
  if (options.json) {
    OrderedJson json = {{"approved", node.name}, {"role", options.role}, {"key", node.key.hex()}};
    if (!options.owner.empty()) json["owner"] = options.owner;
    return succeed(json.dump());
  }
  std::fprintf(stderr, "admitted: %s %s (%s)%s\n", options.role.c_str(), node.name.c_str(),
               three_words(node.key).c_str(),
               known ? "" : "; it learns so when the server starts next");
  return kExitDone;
}

}  // namespace hearth::cli
