#include "coordinator/store/schema.h"

#include <array>

#include "base/crypto.h"

namespace hearth::coordinator {
namespace {

struct Step {
  const char* sqlite;
  const char* postgres;
};

// Step i brings a store of version i to i + 1. A step that was released never changes. Stores in
// PostgreSQL exist since version 7, whose tables one step makes; a later step is for both.
constexpr std::array kSteps = {
    Step{R"sql(
CREATE TABLE secret (only INTEGER PRIMARY KEY CHECK (only = 0), key BLOB NOT NULL) STRICT;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL, role INTEGER NOT NULL,
  created INTEGER NOT NULL, expires INTEGER NOT NULL, uses_left INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE nodes (
  public_key BLOB PRIMARY KEY, name TEXT NOT NULL, role INTEGER NOT NULL,
  enrolled INTEGER NOT NULL, revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX node_names ON nodes (name) WHERE revoked = 0;
CREATE TABLE keys (
  id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL, name TEXT NOT NULL, models TEXT NOT NULL,
  admin INTEGER NOT NULL, requests_per_minute INTEGER NOT NULL, created INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX key_names ON keys (name) WHERE revoked = 0;
)sql",
         ""},
    Step{"ALTER TABLE keys ADD COLUMN trust TEXT NOT NULL DEFAULT ''", ""},
    Step{R"sql(
ALTER TABLE keys ADD COLUMN node BLOB NOT NULL DEFAULT x'';
CREATE TABLE waiting (
  public_key BLOB PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL,
  since INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT;
)sql",
         ""},
    Step{R"sql(
CREATE TABLE requests (
  id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, digest BLOB NOT NULL, owner TEXT NOT NULL,
  ended INTEGER NOT NULL, request BLOB NOT NULL) STRICT;
CREATE TABLE request_tokens (request INTEGER NOT NULL, tokens BLOB NOT NULL) STRICT;
CREATE INDEX tokens_of_request ON request_tokens (request);
)sql",
         ""},
    // -1: not known, of a store that was there before.
    Step{R"sql(
CREATE TABLE roster (only INTEGER PRIMARY KEY CHECK (only = 0), number INTEGER NOT NULL) STRICT;
INSERT INTO roster VALUES (0, -1);
)sql",
         ""},
    Step{R"sql(
ALTER TABLE tokens ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN account BLOB NOT NULL DEFAULT x'';
ALTER TABLE keys ADD COLUMN verify INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN min_level INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN newcomer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN newcomer INTEGER NOT NULL DEFAULT 0;
)sql",
         ""},
    Step{"CREATE TABLE machines (public_key BLOB PRIMARY KEY, machine BLOB NOT NULL) STRICT",
         R"sql(
CREATE TABLE secret ("only" BIGINT PRIMARY KEY CHECK ("only" = 0), key BYTEA NOT NULL);
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, secret_hash BYTEA NOT NULL, role BIGINT NOT NULL,
  created BIGINT NOT NULL, expires BIGINT NOT NULL, uses_left BIGINT NOT NULL,
  revoked BIGINT NOT NULL, owner TEXT NOT NULL, newcomer BIGINT NOT NULL,
  rowid BIGINT GENERATED ALWAYS AS IDENTITY);
CREATE TABLE nodes (
  public_key BYTEA PRIMARY KEY, name TEXT NOT NULL, role BIGINT NOT NULL,
  enrolled BIGINT NOT NULL, revoked BIGINT NOT NULL, owner TEXT NOT NULL, newcomer BIGINT NOT NULL,
  rowid BIGINT GENERATED ALWAYS AS IDENTITY);
CREATE UNIQUE INDEX node_names ON nodes (name) WHERE revoked = 0;
CREATE TABLE keys (
  id TEXT PRIMARY KEY, secret_hash BYTEA NOT NULL, name TEXT NOT NULL, models TEXT NOT NULL,
  admin BIGINT NOT NULL, requests_per_minute BIGINT NOT NULL, created BIGINT NOT NULL,
  revoked BIGINT NOT NULL, trust TEXT NOT NULL, node BYTEA NOT NULL, account BYTEA NOT NULL,
  verify BIGINT NOT NULL, min_level BIGINT NOT NULL,
  rowid BIGINT GENERATED ALWAYS AS IDENTITY);
CREATE UNIQUE INDEX key_names ON keys (name) WHERE revoked = 0;
CREATE TABLE waiting (
  public_key BYTEA PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL,
  since BIGINT NOT NULL, seen BIGINT NOT NULL,
  rowid BIGINT GENERATED ALWAYS AS IDENTITY);
CREATE TABLE requests (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name BYTEA NOT NULL UNIQUE,
  digest BYTEA NOT NULL, owner TEXT NOT NULL, ended BIGINT NOT NULL, request BYTEA NOT NULL);
CREATE TABLE request_tokens (
  request BIGINT NOT NULL, tokens BYTEA NOT NULL,
  rowid BIGINT GENERATED ALWAYS AS IDENTITY);
CREATE INDEX tokens_of_request ON request_tokens (request);
CREATE TABLE roster ("only" BIGINT PRIMARY KEY CHECK ("only" = 0), number BIGINT NOT NULL);
INSERT INTO roster VALUES (0, -1);
CREATE TABLE machines (
  public_key BYTEA PRIMARY KEY, machine BYTEA NOT NULL,
  rowid BIGINT GENERATED ALWAYS AS IDENTITY);
)sql"},
    // Several coordinators need PostgreSQL. The epoch is a key, so that a transaction can share a
    // lock on it (FOR KEY SHARE) while the lease is renewed, and not while another one takes it.
    Step{"", R"sql(
CREATE TABLE lease (
  epoch BIGINT PRIMARY KEY, holder TEXT NOT NULL, name TEXT NOT NULL, api TEXT NOT NULL,
  control TEXT NOT NULL, began BIGINT NOT NULL, lasts BIGINT NOT NULL,
  renewed BIGINT NOT NULL, ends TIMESTAMPTZ NOT NULL, cluster TEXT NOT NULL);
INSERT INTO lease SELECT epoch, '', holder, '', '', 0, 0, 0, clock_timestamp(), '' FROM head;
ALTER TABLE head DROP COLUMN epoch, DROP COLUMN holder;
CREATE TABLE coordinators (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, api TEXT NOT NULL, control TEXT NOT NULL,
  seen TIMESTAMPTZ NOT NULL);
CREATE TABLE ledger_files (name TEXT COLLATE "C" PRIMARY KEY, bytes BYTEA NOT NULL);
CREATE TABLE manifest ("only" BIGINT PRIMARY KEY CHECK ("only" = 0), bytes BYTEA NOT NULL);
)sql"},
};
constexpr auto kVersion = static_cast<std::int64_t>(kSteps.size());
static_assert(kVersion > 0, "version 0 is a new, empty store");

}  // namespace

std::int64_t schema_version() { return kVersion; }

Status upgrade_schema(Database& db, Dialect dialect, std::int64_t version,
                      const std::string& name) {
  if (version > kVersion) {
    return Error::of(ErrorCode::kVersion, "the store ", name, " has version ", version,
                     " and this hearth knows up to ", kVersion,
                     "; run the newer hearth, or choose another folder with --data-dir");
  }
  if (version < 0) return db.damaged("its version is negative");
  for (std::size_t i = static_cast<std::size_t>(version); i < kSteps.size(); ++i) {
    TRY_VOID(db.execute(dialect == Dialect::kSqlite ? kSteps[i].sqlite : kSteps[i].postgres));
  }
  if (version > 0) return ok_status();
  Hash256 key;
  random_bytes(key.bytes);
  TRY_VOID(Statement(db, "INSERT INTO secret VALUES (0, $1)").add(key).run());
  return db.execute("UPDATE roster SET number = 0");
}

}  // namespace hearth::coordinator
