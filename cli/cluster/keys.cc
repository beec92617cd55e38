#include <boost/algorithm/string/join.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/ids.h"
#include "base/private_file.h"
#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/member.h"
#include "cli/ledger/account_names.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/table.h"
#include "coordinator/membership/accounts.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/store/store.h"

namespace hearth::cli {
namespace {

using coordinator::ApiKey;
using coordinator::Store;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kAdminKey = "admin";

// With `made`, a folder without keys is accepted and its store is created; *made is true then.
// Without `made` it is refused, because the user most likely meant another one.
Result<std::shared_ptr<Store>> open_folder(const KeyOptions& options, bool* made = nullptr) {
  const std::string folder = data_folder(options.data_dir);
  TRY(const auto member, read_member_file(folder));
  REQUIRE(!member, "this machine is ", member->node,
          " in another machine's cluster; API keys are kept on its coordinator's "
          "machine: run hearth key there");
  const bool there = coordinator::has_store(folder);
  if (made != nullptr) *made = !there;
  if (!there && made == nullptr) {
    return Error::of(ErrorCode::kNotFound, "the data folder ", folder,
                     " belongs to no server and has no keys; pass another "
                     "--data-dir, or create a cluster with hearth init NAME");
  }
  TRY_VOID(make_private_folder(folder));
  return coordinator::open_store(folder);
}

Result<coordinator::NewKey> wish_of(const KeyOptions& options) {
  coordinator::NewKey wish{options.name, options.models, options.admin, options.requests_per_minute,
                           options.trust};
  if (!options.account.empty()) {
    TRY(wish.account, node_account(data_folder(options.data_dir), options.account));
  }
  wish.verify = coordinator::verify_named(options.verify).value_or(wish.verify);
  wish.min_level = coordinator::level_named(options.min_level).value_or(wish.min_level);
  return wish;
}

OrderedJson key_object(const ApiKey& key) {
  return {{"id", key.id},
          {"name", key.name},
          {"role", key.admin ? "admin" : "user"},
          {"models", key.models},
          {"trust", key.trust},
          {"requests_per_minute", key.requests_per_minute},
          {"verify", coordinator::verify_name(key.verify)},
          {"min_level", ledger::level_name(key.min_level)},
          {"created", key.created},
          {"revoked", key.revoked}};
}

std::string list_text(const std::vector<std::string>& names, const char* none) {
  return names.empty() ? none : boost::algorithm::join(names, ",");
}

// The id of the key in admin.key, with which this machine's own commands reach the API, while it is
// valid; else empty.
Result<std::string> own_key_id(const std::string& folder, Store& store) {
  const auto file = read_admin_key(folder);
  if (!file.ok()) return std::string();
  TRY(const auto keys, store.keys());
  for (const ApiKey& key : keys) {
    if (!key.revoked && as_text(*file).starts_with("hk1." + key.id + ".")) return key.id;
  }
  return std::string();
}

// The credit that each key can spend, in a cluster with credits.
struct Purse {
  Hash256 secret;
  PublicKey server;
  ledger::Books books;

  PublicKey account(const ApiKey& key) const {
    return coordinator::account_of(key, secret, server);
  }
  std::int64_t balance(const ApiKey& key) const {
    return books.balance({ledger::Account::Kind::kSpendable, account(key)});
  }
  void add(OrderedJson& object, const ApiKey& key) const {
    object["account"] = account(key).hex();
    object["balance"] = balance(key);
  }
};

Result<std::optional<Purse>> open_purse(const std::string& given, const Hash256& secret) {
  TRY(const auto cluster, read_cluster(given));
  if (!cluster || !cluster->credits) return std::optional<Purse>();
  TRY(const ServerIdentity identity, ServerIdentity::open(data_folder(given)));
  TRY(ledger::Books books, read_books(data_folder(given)));
  return std::optional(Purse{secret, identity.node.key, std::move(books)});
}

// One sentence a key that can pay.
void print_balances(const std::vector<ApiKey>& keys, const Purse& purse) {
  for (const ApiKey& key : keys) {
    if (key.revoked) continue;
    const PublicKey account = purse.account(key);
    const std::string whose = key.account || key.node ? "of a node"
                              : key.admin             ? "of this machine"
                                                      : "of its own";
    std::printf("%s has %lld credits, in an account %s: %s\n", key.name.c_str(),
                static_cast<long long>(purse.balance(key)), whose.c_str(), account.hex().c_str());
  }
}

void print_table(const std::vector<ApiKey>& keys) {
  std::printf("%-18s%-22s%-8s%-12s%-18s%-18s%s\n", "ID", "NAME", "ROLE", "RATE/MIN", "CREATED",
              "MODELS", "TRUST");
  std::size_t revoked = 0;
  for (const ApiKey& key : keys) {
    if (key.revoked) {
      ++revoked;
      continue;
    }
    const std::string rate =
        key.requests_per_minute == 0 ? "any" : std::to_string(key.requests_per_minute);
    std::printf("%-18s%-22s%-8s%-12s%-18s%-18s%s\n", key.id.c_str(), key.name.c_str(),
                key.admin ? "admin" : "user", rate.c_str(), date_text(key.created).c_str(),
                list_text(key.models, "all").c_str(), list_text(key.trust, "any").c_str());
  }
  if (revoked > 0) {
    std::fprintf(stderr, "not shown: %s (--json has all)\n",
                 counted(revoked, "revoked key").c_str());
  }
}

}  // namespace

Status make_admin_key(const std::string& folder, Store& store) {
  TRY_VOID(store.revoke_key(kAdminKey));
  TRY(const coordinator::KeySecret key,
      coordinator::create_key(store, {kAdminKey, {}, true, 0}, SystemClock().unix_seconds()));
  return write_private_file(admin_key_file(folder), as_bytes(key.text + "\n"));
}

Result<int> run_key_create(const KeyOptions& options) {
  bool first = false;
  TRY(const auto store, open_folder(options, &first));
  TRY(const auto wish, wish_of(options));
  const std::string folder = data_folder(options.data_dir);
  TRY(const auto made, coordinator::create_key(*store, wish, SystemClock().unix_seconds()));
  TRY(const auto cluster, read_cluster(options.data_dir));
  TRY(const std::string own, own_key_id(folder, *store));
  if (wish.admin && cluster && own.empty()) {  // as after its admin.key was lost
    TRY_VOID(write_private_file(admin_key_file(folder), as_bytes(made.text + "\n")));
    std::fputs("this machine's own commands use this key from now on (admin.key)\n", stderr);
  }
  if (options.json) {
    OrderedJson out = key_object(made.key);
    const auto purse = open_purse(options.data_dir, store->secret_key());
    if (purse.ok() && *purse) (*purse)->add(out, made.key);
    out["key"] = made.text;
    return succeed(out.dump());
  }
  std::fprintf(stderr,
               "API key '%s': it is shown only once; give it to clients as HEARTH_API_KEY or "
               "OPENAI_API_KEY\n",
               made.key.name.c_str());
  if (first) {
    std::fprintf(stderr,
                 "no server has used the data folder %s yet; keys are needed only when other "
                 "machines use the API (hearth init NAME, then hearth serve --host ADDRESS)\n",
                 folder.c_str());
  }
  return succeed(made.text);
}

Result<int> run_key_list(const KeyOptions& options) {
  TRY(const auto store, open_folder(options));
  TRY(const auto keys, store->keys());
  TRY(const auto purse, open_purse(options.data_dir, store->secret_key()));
  if (!options.json) {
    print_table(keys);
    if (purse) print_balances(keys, *purse);
    return kExitDone;
  }
  OrderedJson out = OrderedJson::array();
  for (const ApiKey& key : keys) {
    OrderedJson& one = out.emplace_back(key_object(key));
    if (purse) purse->add(one, key);
  }
  return succeed(out.dump());
}

Result<int> run_key_revoke(const KeyOptions& options) {
  TRY(const auto store, open_folder(options));
  const std::string folder = data_folder(options.data_dir);
  TRY(const std::string own, own_key_id(folder, *store));
  TRY(const bool revoked, store->revoke_key(options.name));
  if (!revoked) {
    return Error::of(ErrorCode::kNotFound, "there is no valid API key called \"", options.name,
                     "\"; hearth key list shows them");
  }
  TRY(const std::string left, own_key_id(folder, *store));
  const bool replaced = left != own;
  // Otherwise this machine's own user would be locked out.
  if (replaced) TRY_VOID(make_admin_key(folder, *store));
  if (options.json) return succeed(OrderedJson{{"revoked", options.name}}.dump());
  std::fprintf(stderr, "revoked: %s%s\n", options.name.c_str(),
               replaced ? "; this machine's own commands use a new key (admin.key)" : "");
  return kExitDone;
}

}  // namespace hearth::cli
