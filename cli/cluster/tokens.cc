#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/private_file.h"
#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/table.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/store/store.h"
#include "proto/address.h"
#include "proto/join_token.h"

namespace hearth::cli {
namespace {

using coordinator::TokenRecord;
using OrderedJson = nlohmann::ordered_json;

std::int64_t now() { return SystemClock().unix_seconds(); }

OrderedJson token_object(const TokenRecord& token) {
  OrderedJson out;
  out["id"] = token.id;
  out["role"] = role_name(token.role);
  if (token.newcomer) out["newcomer"] = true;
  out["uses_left"] = token.uses_left;
  if (!token.owner.empty()) out["owner"] = token.owner;
  out["created"] = token.created;
  out["expires"] = token.expires;
  out["state"] = coordinator::token_state(token, now());
  return out;
}

Result<JoinToken> create(const TokenOptions& options) {
  TRY(const Cluster cluster, need_cluster(options.data_dir));
  TRY(const SecretKey key, read_key_file(data_folder(options.data_dir) + "/cluster.key"));
  TRY(const Role role, parse_role(options.role));
  TRY(const auto store, open_cluster_store(options.data_dir));
  TRY(const coordinator::TokenSecret secret,
      coordinator::create_token(
          *store, {role, options.seconds, options.uses, options.owner, options.newcomer}, now()));
  return JoinToken{fingerprint(key.public_key()),
                   secret.id,
                   secret.secret,
                   {Address{cluster.host, cluster.control_port}.text()}};
}

int print_table(const std::vector<TokenRecord>& tokens) {
  std::printf("%-18s%-10s%-8s%-18s%-18s%-9s%s\n", "ID", "ROLE", "USES", "CREATED", "EXPIRES",
              "STATE", "OWNER");
  for (const TokenRecord& token : tokens) {
    const std::string role = token.newcomer ? "newcomer" : std::string(role_name(token.role));
    std::printf("%-18s%-10s%-8u%-18s%-18s%-9s%s\n", token.id.c_str(), role.c_str(), token.uses_left,
                date_text(token.created).c_str(), date_text(token.expires).c_str(),
                coordinator::token_state(token, now()),
                token.owner.empty() ? "-" : token.owner.c_str());
  }
  return kExitDone;
}

}  // namespace

Result<std::string> make_join_token(const TokenOptions& options) {
  TRY(const JoinToken token, create(options));
  return token.text();
}

Result<int> run_token_create(const TokenOptions& options) {
  TRY(const JoinToken token, create(options));
  if (options.json) {
    OrderedJson json = {{"id", token.id},
                        {"token", token.text()},
                        {"role", options.role},
                        {"expires", now() + options.seconds},
                        {"uses", options.uses}};
    if (!options.owner.empty()) json["owner"] = options.owner;
    return succeed(json.dump());
  }
  std::fprintf(stderr,
               "join token %s (%s), shown only once; on the other machine: hearth join TOKEN\n",
               token.id.c_str(), options.newcomer ? "newcomer" : options.role.c_str());
  succeed(token.text());
  show_join_code(stderr, token.text());
  return kExitDone;
}

Result<int> run_token_list(const TokenOptions& options) {
  TRY(const auto store, open_cluster_store(options.data_dir));
  TRY(const auto tokens, store->tokens());
  if (!options.json) return print_table(tokens);
  OrderedJson out = OrderedJson::array();
  for (const TokenRecord& token : tokens) out.push_back(token_object(token));
  return succeed(out.dump());
}

Result<int> run_token_revoke(const TokenOptions& options) {
  TRY(const auto store, open_cluster_store(options.data_dir));
  TRY(const bool revoked, store->revoke_token(options.id));
  if (!revoked) {
    return Error::of(ErrorCode::kNotFound, "there is no valid join token with the id \"",
                     options.id, "\"; hearth token list shows them");
  }
  if (options.json) return succeed(OrderedJson{{"revoked", options.id}}.dump());
  std::fprintf(
      stderr,
      "revoked: %s; nodes that joined with it stay members (hearth nodes rm NAME removes one)\n",
      options.id.c_str());
  return kExitDone;
}

}  // namespace hearth::cli
