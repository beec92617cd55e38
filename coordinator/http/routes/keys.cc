// The API's keys, for admins: GET /api/v1/keys lists them, POST /api/v1/keys makes one, whose text
// is in this answer and nowhere else, DELETE /api/v1/keys/ID revokes one.
#include <algorithm>

#include "base/limits.h"
#include "coordinator/http/openai/fields.h"
#include "coordinator/http/routes/manage.h"
#include "coordinator/membership/credentials.h"

namespace hearth::coordinator::http {
namespace {

constexpr const char* kNoKey = "key_not_found";
constexpr std::string_view kKeyPath = "/api/v1/keys/";

ApiResult<Store*> key_store(const Call& call) {
  if (call.api->options.store) return call.api->options.store.get();
  return ApiError::of(409, "this server keeps no API keys", "no_keys");
}

OrderedJson key_object(const ApiKey& key, const HttpOptions& options) {
  OrderedJson out = {{"id", key.id},
                     {"name", key.name},
                     {"role", key.admin ? "admin" : "user"},
                     {"models", key.models},
                     {"trust", key.trust},
                     {"requests_per_minute", key.requests_per_minute},
                     {"verify", verify_name(key.verify)},
                     {"min_level", ledger::level_name(key.min_level)},
                     {"created", key.created},
                     {"revoked", key.revoked}};
  // The commands of the server's own machine use this key.
  if (key.id == options.owner_key) out["of_server"] = true;
  if (key.node) out["of_node"] = true;
  return out;
}

ApiResult<OrderedJson> list_keys(const Call& call) {
  TRY(Store* const store, key_store(call));
  const auto keys = store->keys();
  if (!keys) return store_error(keys.error(), kNoKey);
  OrderedJson out = {{"keys", OrderedJson::array()}};
  for (const ApiKey& key : *keys) out["keys"].push_back(key_object(key, call.api->options));
  return out;
}

std::vector<std::string> read_names(FieldReader& fields, const char* field) {
  std::vector<std::string> out;
  const Json* list = fields.find(field);
  if (list == nullptr) return out;
  const bool texts = list->is_array() &&
                     std::ranges::all_of(*list, [](const Json& one) { return one.is_string(); });
  if (!texts || list->size() > limits::kApiKeyModels) {
    fields.fail(field,
                "must be a list of at most " + std::to_string(limits::kApiKeyModels) + " names");
    return out;
  }
  for (const Json& one : *list) out.push_back(one.get<std::string>());
  return out;
}

// An account is not among the fields: it would let an admin spend a node's credit.
ApiResult<NewKey> parse_key(const std::string& body) {
  TRY(const Json json, parse_json(body));
  FieldReader fields(json);
  NewKey wish;
  wish.name = fields.string("name").value_or("");
  wish.models = read_names(fields, "models");
  wish.trust = read_names(fields, "trust");
  wish.admin = fields.boolean("admin").value_or(false);
  wish.requests_per_minute =
      fields.integer<std::uint32_t>("requests_per_minute", 0, limits::kApiKeyRate).value_or(0);
  if (const auto verify = fields.string("verify")) {
    const auto known = verify_named(*verify);
    if (!known) fields.fail("verify", "must be none, spot or full");
    wish.verify = known.value_or(Verify::kNone);
  }
  if (const auto level = fields.string("min_level")) {
    const auto known = level_named(*level);
    if (!known) fields.fail("min_level", "must be newcomer, probation, regular or veteran");
    wish.min_level = known.value_or(ledger::Level::kNewcomer);
  }
  if (fields.failed()) return fields.error();
  return wish;
}

ApiResult<OrderedJson> make_key(const Call& call) {
  TRY(Store* const store, key_store(call));
  TRY(const NewKey wish, parse_key(call.request.body));
  const auto made = create_key(*store, wish, call.api->clock.unix_seconds());
  if (!made) return store_error(made.error(), kNoKey);
  log_deed(call, "API key " + made->key.id + " (" + made->key.name + ") was created");
  OrderedJson out = key_object(made->key, call.api->options);
  out["key"] = made->text;
  return out;
}

ApiResult<OrderedJson> revoke_one(const Call& call) {
  TRY(Store* const store, key_store(call));
  const std::string id = path_name(call, kKeyPath);
  const auto found = store->find_key(id);
  if (!found) return store_error(found.error(), kNoKey);
  if (!*found || (*found)->revoked) {
    return ApiError::not_found("no valid API key has the id " + valid_utf8(id.substr(0, 64)) +
                                   "; GET /api/v1/keys lists the keys",
                               kNoKey);
  }
  // Its replacement must be written to admin.key, which is a file of the server's machine.
  if (id == call.api->options.owner_key) {
    return ApiError::of(409,
                        "this key is the one in the server's admin.key; to replace it, run hearth "
                        "key revoke " +
                            id + " on the server's machine",
                        "key_of_server");
  }
  const auto revoked = store->revoke_key(id);
  if (!revoked) return store_error(revoked.error(), kNoKey);
  log_deed(call, "API key " + id + " (" + (*found)->name + ") was revoked");
  return OrderedJson{{"revoked", id}, {"name", (*found)->name}};
}

}  // namespace

void handle_keys(Call call) { answer_on_pool(std::move(call), list_keys); }
void handle_create_key(Call call) { answer_on_pool(std::move(call), make_key); }
void handle_revoke_key(Call call) { answer_on_pool(std::move(call), revoke_one); }

}  // namespace hearth::coordinator::http
