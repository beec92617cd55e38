#include "coordinator/store/store_rows.h"

namespace hearth::coordinator {
namespace {

static_assert(static_cast<int>(Role::kWorker) == 1 && Role::kAdmin < Role::kCoordinator,
              "the roles that a node joins with are the first ones");
bool joins_as(Role role) { return role >= Role::kWorker && role <= Role::kAdmin; }

// Of what is written: the coordinator's role is no node's that joins.
Status check_role(Role role) {
  REQUIRE(joins_as(role), "a node joins as worker, client or admin; its role is number ",
          static_cast<int>(role));
  return ok_status();
}

Status inserted(Statement& statement, const std::string& taken) {
  TRY(const bool done, statement.run());
  REQUIRE(done, taken);
  return ok_status();
}

}  // namespace

const char* const kSelectTokens =
    "SELECT id, secret_hash, role, created, expires, uses_left, revoked, owner, newcomer "
    "FROM tokens";
const char* const kSelectNodes =
    "SELECT public_key, name, role, enrolled, revoked, owner, newcomer FROM nodes";
const char* const kSelectKeys =
    "SELECT id, secret_hash, name, models, admin, requests_per_minute, created, revoked, trust, "
    "node, account, verify, min_level FROM keys";
const char* const kSelectWaiting = "SELECT public_key, name, source, since, seen FROM waiting";
const char* const kSelectMachines = "SELECT public_key, machine FROM machines";

bool read_row(Statement& row, TokenRecord& out) {
  return row.read(out.id, out.secret_hash, out.role, out.created, out.expires, out.uses_left,
                  out.revoked, out.owner, out.newcomer) &&
         joins_as(out.role);
}

bool read_row(Statement& row, NodeRecord& out) {
  return row.read(out.key, out.name, out.role, out.enrolled, out.revoked, out.owner,
                  out.newcomer) &&
         joins_as(out.role);
}

bool read_row(Statement& row, ApiKey& out) {
  return row.read(out.id, out.secret_hash, out.name, out.models, out.admin, out.requests_per_minute,
                  out.created, out.revoked, out.trust, out.node, out.account, out.verify,
                  out.min_level) &&
         out.verify <= Verify::kFull && out.min_level <= ledger::Level::kVeteran;
}

bool read_row(Statement& row, WaitingNode& out) {
  return row.read(out.key, out.name, out.from, out.since, out.seen);
}

bool read_row(Statement& row, Store::Machines::value_type& out) {
  return row.read(out.first, out.second);
}

Status insert_row(Database& db, const TokenRecord& token) {
  TRY_VOID(check_role(token.role));
  Statement row(db,
                "INSERT INTO tokens (id, secret_hash, role, created, expires, uses_left, revoked, "
                "owner, newcomer) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) "
                "ON CONFLICT DO NOTHING");
  row.add(token.id, token.secret_hash, token.role, token.created, token.expires, token.uses_left,
          token.revoked, token.owner, token.newcomer);
  return inserted(row, "a join token with this id exists already");
}

Status insert_row(Database& db, const NodeRecord& node) {
  TRY_VOID(check_role(node.role));
  Statement row(db,
                "INSERT INTO nodes (public_key, name, role, enrolled, revoked, owner, newcomer) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING");
  row.add(node.key, node.name, node.role, node.enrolled, node.revoked, node.owner, node.newcomer);
  return inserted(row, "a node with this key or the name '" + node.name + "' exists already");
}

Status insert_row(Database& db, const ApiKey& key) {
  Statement row(db,
                "INSERT INTO keys (id, secret_hash, name, models, admin, requests_per_minute, "
                "created, revoked, trust, node, account, verify, min_level) VALUES ($1, $2, $3, "
                "$4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING");
  row.add(key.id, key.secret_hash, key.name, key.models, key.admin, key.requests_per_minute,
          key.created, key.revoked, key.trust, key.node, key.account, key.verify, key.min_level);
  return inserted(row, "an API key with the name '" + key.name +
                           "' exists already; choose another name, or revoke that one first "
                           "(hearth key revoke)");
}

Status put_row(Database& db, const WaitingNode& node) {
  Statement row(db,
                "INSERT INTO waiting (public_key, name, source, since, seen) VALUES ($1, $2, $3, "
                "$4, $5) ON CONFLICT (public_key) DO UPDATE SET name = excluded.name, source = "
                "excluded.source, since = excluded.since, seen = excluded.seen");
  TRY_VOID(row.add(node.key, node.name, node.from, node.since, node.seen).run());
  return ok_status();
}

Status put_row(Database& db, const Store::Machines::value_type& machine) {
  Statement row(db,
                "INSERT INTO machines (public_key, machine) VALUES ($1, $2) ON CONFLICT "
                "(public_key) DO UPDATE SET machine = excluded.machine");
  TRY_VOID(row.add(machine.first, machine.second).run());
  return ok_status();
}

Result<Hash256> read_secret(Database& db) {
  Statement statement(db, "SELECT key FROM secret");
  Hash256 secret;
  TRY(const bool there, statement.step());
  if (!there || !statement.read(secret)) return db.damaged("the key of its hashes is missing");
  return secret;
}

Result<std::int64_t> read_roster_number(Database& db) {
  Statement row(db, "SELECT number FROM roster");
  TRY(const bool there, row.step());
  if (!there) return db.damaged("the number of the roster is missing");
  return row.number(0);
}

Status write_roster_number(Database& db, std::int64_t number) {
  TRY_VOID(Statement(db, "UPDATE roster SET number = $1").add(number).run());
  return ok_status();
}

bool is_empty(const StoreRows& rows) {
  return rows.roster <= 0 && rows.nodes.empty() && rows.keys.empty() && rows.tokens.empty();
}

Result<StoreRows> read_store(Database& db) {
  const auto in_order = [](const char* sql, const char* order) {
    return std::string(sql) + " ORDER BY " + order + "rowid";
  };
  StoreRows rows;
  TRY(rows.secret, read_secret(db));
  TRY(rows.roster, read_roster_number(db));
  TRY(rows.tokens, list_rows<TokenRecord>(db, in_order(kSelectTokens, "created, ")));
  TRY(rows.nodes, list_rows<NodeRecord>(db, in_order(kSelectNodes, "enrolled, ")));
  TRY(rows.keys, list_rows<ApiKey>(db, in_order(kSelectKeys, "created, ")));
  TRY(rows.waiting, list_rows<WaitingNode>(db, in_order(kSelectWaiting, "since, ")));
  TRY(rows.machines, list_rows<Store::Machines::value_type>(db, in_order(kSelectMachines, "")));
  return rows;
}

Status write_store(Database& db, const StoreRows& rows) {
  for (const char* table : {"tokens", "nodes", "keys", "waiting", "machines"}) {
    TRY_VOID(db.execute(std::string("DELETE FROM ") + table));
  }
  TRY_VOID(Statement(db, "UPDATE secret SET key = $1").add(rows.secret).run());
  TRY_VOID(write_roster_number(db, rows.roster));
  for (const TokenRecord& token : rows.tokens) TRY_VOID(insert_row(db, token));
  for (const NodeRecord& node : rows.nodes) TRY_VOID(insert_row(db, node));
  for (const ApiKey& key : rows.keys) TRY_VOID(insert_row(db, key));
  for (const WaitingNode& node : rows.waiting) TRY_VOID(put_row(db, node));
  for (const auto& machine : rows.machines) TRY_VOID(put_row(db, machine));
  return ok_status();
}

}  // namespace hearth::coordinator
