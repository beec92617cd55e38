// The rows of a store: how each record is read and written, and all of them at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/store/database.h"
#include "coordinator/store/store.h"

namespace hearth::coordinator {

// "SELECT <all columns> FROM <table>", in the order of read_row().
extern const char* const kSelectTokens;
extern const char* const kSelectNodes;
extern const char* const kSelectKeys;
extern const char* const kSelectWaiting;
extern const char* const kSelectMachines;

// False: a value that no version writes.
bool read_row(Statement& row, TokenRecord& out);
bool read_row(Statement& row, NodeRecord& out);
bool read_row(Statement& row, ApiKey& out);
bool read_row(Statement& row, WaitingNode& out);
bool read_row(Statement& row, Store::Machines::value_type& out);

// kInvalidInput, with the reason, when the row breaks a rule of Store or its key is taken.
Status insert_row(Database& db, const TokenRecord& token);
Status insert_row(Database& db, const NodeRecord& node);
Status insert_row(Database& db, const ApiKey& key);
// Replace a row of the same key.
Status put_row(Database& db, const WaitingNode& node);
Status put_row(Database& db, const Store::Machines::value_type& machine);

template <typename Row>
Result<std::vector<Row>> list_rows(Database& db, const std::string& sql) {
  Statement statement(db, sql);
  std::vector<Row> rows;
  while (true) {
    TRY(const bool there, statement.step());
    if (!there) return rows;
    if (!read_row(statement, rows.emplace_back())) {
      return db.damaged("a row has values that no version writes");
    }
  }
}

Result<Hash256> read_secret(Database& db);
Result<std::int64_t> read_roster_number(Database& db);  // -1: not known
Status write_roster_number(Database& db, std::int64_t number);

// Everything but kept requests.
struct StoreRows {
  Hash256 secret;
  std::int64_t roster = -1;
  std::vector<TokenRecord> tokens = {};
  std::vector<NodeRecord> nodes = {};
  std::vector<ApiKey> keys = {};
  std::vector<WaitingNode> waiting = {};
  Store::Machines machines = {};
};
bool is_empty(const StoreRows& rows);  // nothing was stored since it was made
// Both in the caller's transaction.
Result<StoreRows> read_store(Database& db);
Status write_store(Database& db, const StoreRows& rows);  // replaces all rows

}  // namespace hearth::coordinator
