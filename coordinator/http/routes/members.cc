// The members of the cluster, for admins: GET /api/v1/members lists them and the nodes that ask to
// join; POST /api/v1/members/open lets nodes ask, .../approve admits one, DELETE
// /api/v1/members/NAME removes one; GET /api/v1/tokens lists the valid join tokens, POST makes one,
// DELETE /api/v1/tokens/ID revokes one; POST /api/v1/orders pauses, drains or resumes a worker.
#include "coordinator/membership/members.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "coordinator/http/openai/fields.h"
#include "coordinator/http/routes/manage.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/membership/qr_code.h"
#include "proto/join_token.h"

namespace hearth::coordinator::http {
namespace {

constexpr const char* kNoMember = "member_not_found";
constexpr const char* kNoToken = "token_not_found";
constexpr std::string_view kMemberPath = "/api/v1/members/";
constexpr std::string_view kTokenPath = "/api/v1/tokens/";
constexpr std::uint32_t kTokenLifetime = 24 * 3'600;  // seconds, unless the request says another

ApiResult<const JoinPoint*> join_point(const Call& call) {
  const HttpOptions& options = call.api->options;
  if (options.join && options.store) return &*options.join;
  return ApiError::of(409,
                      "this server has no cluster, so no other machine can join; create one: stop "
                      "the server and run hearth init NAME",
                      "no_cluster");
}

OrderedJson member_object(const RosterEntry& entry, const std::vector<NodeRecord>& nodes) {
  OrderedJson out = {
      {"name", entry.name}, {"role", role_name(entry.role)}, {"key", entry.key.hex()}};
  const auto found = std::ranges::find(nodes, entry.key, &NodeRecord::key);
  // No store has the server's own node and its local workers.
  const bool removable = found != nodes.end() && !found->revoked;
  out["removable"] = removable;
  if (!removable) return out;
  out["joined"] = found->enrolled;
  if (!found->owner.empty()) out["owner"] = found->owner;
  if (found->newcomer) out["newcomer"] = true;
  return out;
}

ApiResult<OrderedJson> list_members(const Call& call) {
  TRY(const JoinPoint* point, join_point(call));
  Store& store = *call.api->options.store;
  const std::int64_t now = call.api->clock.unix_seconds();
  const auto nodes = store.nodes();
  if (!nodes) return store_error(nodes.error(), kNoMember);
  const auto waiting = nodes_that_ask(store, now);
  if (!waiting) return store_error(waiting.error(), kNoMember);
  const auto open = store.any_token(now);
  if (!open) return store_error(open.error(), kNoMember);
  OrderedJson out = {{"cluster", call.api->options.cluster},
                     {"words", three_words(point->roster->cluster())},
                     {"address", point->address},
                     {"may_ask", *open},
                     {"members", OrderedJson::array()},
                     {"waiting", OrderedJson::array()}};
  if (const auto roster = point->roster->roster(); roster != nullptr) {
    for (const RosterEntry& entry : roster->entries) {
      out["members"].push_back(member_object(entry, *nodes));
    }
  }
  for (const WaitingNode& node : *waiting) {
    out["waiting"].push_back({{"name", node.name},
                              {"words", three_words(node.key)},
                              {"key", node.key.hex()},
                              {"from", node.from},
                              {"since", node.since}});
  }
  return out;
}

// A worker's unless the field says another.
Role read_role(FieldReader& fields) {
  const auto name = fields.string("role");
  if (!name) return Role::kWorker;
  const auto role = parse_role(*name);
  if (role.ok() && *role != Role::kCoordinator) return *role;
  fields.fail("role", "must be worker, client or admin");
  return Role::kWorker;
}

struct ApproveWish {
  std::string key;  // of the node, 64 hexadecimal digits: names and words are not unique
  Approval approval;
};

ApiResult<ApproveWish> parse_approval(const std::string& body) {
  TRY(const Json json, parse_json(body));
  FieldReader fields(json);
  ApproveWish wish;
  wish.key = fields.string("key").value_or("");
  if (wish.key.empty()) {
    fields.fail("key", "is required: the key of a waiting node, from GET /api/v1/members");
  }
  wish.approval.role = read_role(fields);
  wish.approval.owner = fields.string("owner").value_or("");
  wish.approval.newcomer = fields.boolean("newcomer").value_or(false);
  if (fields.failed()) return fields.error();
  return wish;
}

ApiResult<OrderedJson> approve_node(const Call& call) {
  TRY(const JoinPoint* point, join_point(call));
  TRY(const ApproveWish wish, parse_approval(call.request.body));
  Store& store = *call.api->options.store;
  const std::int64_t now = call.api->clock.unix_seconds();
  const auto waiting = nodes_that_ask(store, now);
  if (!waiting) return store_error(waiting.error(), kNoMember);
  const auto found = std::ranges::find_if(
      *waiting, [&](const WaitingNode& node) { return node.key.hex() == wish.key; });
  if (found == waiting->end()) {
    return ApiError::not_found("no node with this key asks to join now; there: hearth join",
                               "node_not_waiting");
  }
  if (point->roster->find(found->name)) {
    return ApiError::invalid("another node is named " + found->name +
                             " already; let the new node ask under another name: hearth join ... "
                             "--name NAME");
  }
  const Status done = approve(store, *found, wish.approval, now);
  if (!done) return store_error(done.error(), kNoMember);
  const std::string role(role_name(wish.approval.role));
  log_deed(call, role + " " + found->name + " (" + three_words(found->key) + ") was admitted");
  return OrderedJson{{"approved", found->name}, {"role", role}, {"key", found->key.hex()}};
}

ApiResult<OrderedJson> let_nodes_ask(const Call& call) {
  TRY_VOID(join_point(call));
  const Status done = open_door(*call.api->options.store, call.api->clock.unix_seconds());
  if (!done) return store_error(done.error(), kNoMember);
  log_deed(call, fmt::format("nodes may ask to join for {} minutes", limits::kDoorSeconds / 60));
  return OrderedJson{{"may_ask", true}};
}

ApiResult<OrderedJson> remove_node(const Call& call) {
  TRY_VOID(join_point(call));
  const std::string name = path_name(call, kMemberPath);
  const auto removed = remove_member(*call.api->options.store, name);
  if (!removed) return store_error(removed.error(), kNoMember);
  log_deed(call, "node " + name + " was removed");
  return OrderedJson{{"removed", name}, {"key", removed->hex()}};
}

ApiResult<NewToken> parse_token(const std::string& body) {
  TRY(const Json json, parse_json(body));
  FieldReader fields(json);
  NewToken wish;
  wish.role = read_role(fields);
  wish.seconds =
      fields.integer<std::uint32_t>("seconds", 1, limits::kTokenSeconds).value_or(kTokenLifetime);
  wish.uses = fields.integer<std::uint32_t>("uses", 1, limits::kTokenUses).value_or(1);
  wish.owner = fields.string("owner").value_or("");
  wish.newcomer = fields.boolean("newcomer").value_or(false);
  if (fields.failed()) return fields.error();
  return wish;
}

ApiResult<OrderedJson> make_token(const Call& call) {
  TRY(const JoinPoint* point, join_point(call));
  TRY(const NewToken wish, parse_token(call.request.body));
  const std::int64_t now = call.api->clock.unix_seconds();
  const auto secret = create_token(*call.api->options.store, wish, now);
  if (!secret) return store_error(secret.error(), kNoMember);
  const JoinToken token{
      fingerprint(point->roster->cluster()), secret->id, secret->secret, {point->address}};
  log_deed(call, "join token " + secret->id + " was created");
  OrderedJson out = {{"id", secret->id},
                     {"token", token.text()},
                     {"role", role_name(wish.role)},
                     {"uses", wish.uses},
                     {"expires", now + wish.seconds}};
  // The path and not the whole picture: the pages parse no markup.
  if (const auto code = QrCode::of("hearth join " + token.text()); code.ok()) {
    out["qr"] = {{"size", code->size()}, {"path", code->svg_path()}};
  }
  return out;
}

// Without those that are used, expired or revoked, of which there may be any number.
ApiResult<OrderedJson> list_tokens(const Call& call) {
  TRY_VOID(join_point(call));
  const auto tokens = call.api->options.store->tokens();
  if (!tokens) return manage_error(tokens.error(), kNoToken);
  const std::int64_t now = call.api->clock.unix_seconds();
  OrderedJson out = OrderedJson::array();
  for (const TokenRecord& token : *tokens) {
    if (std::string_view(token_state(token, now)) != "valid") continue;
    out.push_back({{"id", token.id},
                   {"role", role_name(token.role)},
                   {"uses_left", token.uses_left},
                   {"created", token.created},
                   {"expires", token.expires}});
    if (!token.owner.empty()) out.back()["owner"] = token.owner;
    if (token.newcomer) out.back()["newcomer"] = true;
  }
  return OrderedJson{{"tokens", std::move(out)}};
}

ApiResult<OrderedJson> revoke_token(const Call& call) {
  TRY_VOID(join_point(call));
  const std::string id = path_name(call, kTokenPath);
  const auto revoked = call.api->options.store->revoke_token(id);
  if (!revoked) return manage_error(revoked.error(), kNoToken);
  if (!*revoked) {
    return ApiError::not_found(
        "no join token with this id can be revoked; GET /api/v1/tokens "
        "lists the valid ones",
        kNoToken);
  }
  log_deed(call, "join token " + id + " was revoked");
  return OrderedJson{{"revoked", id}};
}

struct OrderWish {
  std::string node;
  std::string word;  // pause, drain or resume
  std::optional<Away> away;
};

ApiResult<OrderWish> parse_order(const std::string& body, std::int64_t now) {
  TRY(const Json json, parse_json(body));
  FieldReader fields(json);
  OrderWish wish;
  wish.node = fields.string("node").value_or("");
  if (wish.node.empty()) fields.fail("node", "is required: the name of a worker");
  wish.word = fields.string("order").value_or("");
  const bool resumes = wish.word == "resume";
  if (!resumes && wish.word != "pause" && wish.word != "drain") {
    fields.fail("order", "must be pause, drain or resume");
  }
  const auto seconds = fields.integer("seconds", 1, limits::kTokenSeconds);
  if (fields.failed()) return fields.error();
  if (!resumes) wish.away = Away{wish.word == "drain", seconds ? now + *seconds : 0, ""};
  return wish;
}

}  // namespace

void handle_members(Call call) { answer_on_pool(std::move(call), list_members); }
void handle_approve(Call call) { answer_on_pool(std::move(call), approve_node); }
void handle_open_door(Call call) { answer_on_pool(std::move(call), let_nodes_ask); }
void handle_remove_member(Call call) { answer_on_pool(std::move(call), remove_node); }
void handle_tokens(Call call) { answer_on_pool(std::move(call), list_tokens); }
void handle_revoke_token(Call call) { answer_on_pool(std::move(call), revoke_token); }
void handle_create_token(Call call) { answer_on_pool(std::move(call), make_token); }

void handle_order(Call call) {
  const HttpOptions& options = call.api->options;
  auto wish = parse_order(call.request.body, call.api->clock.unix_seconds());
  if (!wish.ok()) return call.respond(wish.error());
  if (!options.order) {
    return call.respond(ApiError::of(
        409, "this server gives workers no orders; run hearth pause on the worker's machine",
        "no_orders"));
  }
  const std::optional<Away> away = wish->away;
  const std::string node = wish->node;
  options.order(node, away, [call = std::move(call), wish = *std::move(wish)](const Status& done) {
    HttpResponse response =
        done.ok() ? json_response(dump(OrderedJson{{"node", wish.node}, {"order", wish.word}}))
                  : error_response(manage_error(done.error(), "worker_not_found"));
    if (done.ok()) log_deed(call, "worker " + wish.node + " was told to " + wish.word);
    call.api->sockets.post([call, response = std::move(response)] { call.respond(response); });
  });
}

}  // namespace hearth::coordinator::http
