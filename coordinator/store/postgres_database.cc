#include "coordinator/store/postgres_database.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "coordinator/store/schema.h"

namespace hearth::coordinator {
namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kLookMilliseconds = 50;  // for the end of the term
constexpr auto kPauseLeast = std::chrono::milliseconds(250);
constexpr auto kPauseMost = std::chrono::seconds(5);
constexpr int kOldestServer = 120'000;  // PostgreSQL 12
constexpr std::string_view kSchemaLockKey = "1215460457";
// Of the types of parameters, from PostgreSQL's catalogue.
constexpr Oid kInt8 = 20;
constexpr Oid kText = 25;
constexpr Oid kBytea = 17;
constexpr int kBinary = 1;

// libpq's errors have several lines and end with one.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = c == '\n' || c == '\t' || c == ' ';
    if (!space) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::int64_t big_endian(ByteSpan bytes) {
  // Sign-extends: int2 and int4 too are signed.
  std::uint64_t value =
      !bytes.empty() && (bytes.front() & std::byte{0x80}) != std::byte{0} ? ~std::uint64_t{0} : 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint64_t>(byte);
  return static_cast<std::int64_t>(value);
}

struct Parameters {
  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> sizes;
  std::vector<int> formats;
  std::vector<std::array<char, 8>> numbers;

  explicit Parameters(const std::vector<SqlValue>& given) : numbers(given.size()) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (const auto* number = std::get_if<std::int64_t>(&given[i])) {
        const auto value = static_cast<std::uint64_t>(*number);
        for (int b = 0; b < 8; ++b) numbers[i][b] = static_cast<char>(value >> (56 - 8 * b));
        add(kInt8, numbers[i].data(), 8);
      } else if (const auto* text = std::get_if<std::string>(&given[i])) {
        add(kText, text->data(), text->size());
      } else {
        const Bytes& bytes = std::get<Bytes>(given[i]);
        // A null pointer would be NULL.
        add(kBytea, bytes.empty() ? "" : reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    }
  }

 private:
  void add(Oid type, const char* value, std::size_t size) {
    types.push_back(type);
    values.push_back(value);
    sizes.push_back(static_cast<int>(size));
    formats.push_back(kBinary);
  }
};

std::string hint_of(std::string_view why) {
  const auto has = [&](const char* text) { return why.find(text) != std::string_view::npos; };
  if (has("no password supplied")) {
    return "; put a line HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass (chmod 600), or name "
           "another such file in PGPASSFILE";
  }
  if (has("root certificate file")) {
    return "; a store on another machine needs TLS: add ?sslrootcert=FILE to its URL, with the "
           "certificate of the authority that signed the server's";
  }
  return "";
}

}  // namespace

// Fetched whole before the first row is read.
class PostgresRows final : public Rows {
 public:
  explicit PostgresRows(PostgresDatabase::ResultPointer result) : result_(std::move(result)) {}

  Result<bool> next() override { return ++row_ < PQntuples(result_.get()); }
  std::int64_t changed() const override {
    return std::strtoll(PQcmdTuples(result_.get()), nullptr, 10);
  }
  std::int64_t number(int column) const override { return big_endian(bytes(column)); }
  ByteSpan bytes(int column) const override {
    const auto size = static_cast<std::size_t>(PQgetlength(result_.get(), row_, column));
    const char* const at = PQgetvalue(result_.get(), row_, column);
    return {reinterpret_cast<const std::byte*>(at), size};
  }

 private:
  const PostgresDatabase::ResultPointer result_;
  int row_ = -1;
};

void PostgresDatabase::FreeResult::operator()(pg_result* result) const { PQclear(result); }

PostgresDatabase::~PostgresDatabase() { PQfinish(connection_); }

Error PostgresDatabase::damaged(const std::string& what) const {
  return Error::invalid("the store ", shown(), " is damaged (", what,
                        "); restore a backup of its database");
}

Error PostgresDatabase::unavailable(const std::string& why) const {
  return Error::of(ErrorCode::kUnavailable, "the store ", shown(), " is away: ", one_line(why),
                   hint_of(why));
}

Error PostgresDatabase::lose(const std::string& why) {
  PQfinish(connection_);
  connection_ = nullptr;
  return unavailable(why);
}

// By the SQLSTATE, whose first two characters are the class.
Error PostgresDatabase::failed(const pg_result* result) {
  const auto field = [&](int code) {
    const char* const text = PQresultErrorField(result, code);
    return text == nullptr ? std::string() : std::string(text);
  };
  const std::string state = field(PG_DIAG_SQLSTATE);
  const std::string why = one_line(field(PG_DIAG_MESSAGE_PRIMARY));
  const std::string where = "the store " + shown() + ": " + why;
  if (state.empty()) return lose(PQresultErrorMessage(result));
  const auto is = [&](std::string_view prefix) { return state.starts_with(prefix); };
  if (is("08") || is("57P") || is("25P03")) return lose(why);
  if (is("57014") || is("55P03") || is("40") || is("25006")) return unavailable(why);
  if (is("22021") || is("22P05")) {
    return Error::invalid("a text for the store must be UTF-8 without the character 0");
  }
  if (is("53100")) return Error::of(ErrorCode::kIo, where, "; free room on the database's disk");
  if (is("42501")) {
    return Error::of(ErrorCode::kRefused, where,
                     "; its user must own the schema hearth, or may create it: GRANT CREATE ON "
                     "DATABASE");
  }
  if (is("42P01") || is("42703") || is("3F000")) return damaged(why);
  return {ErrorCode::kIo, where};
}

Status PostgresDatabase::wait_until(short events, TimeLimit end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - steady_clock::now()).count();
  pollfd socket{PQsocket(connection_), events, 0};
  if (left < 0) return lose("it did not answer in time");
  if (is_ended()) return lose("this coordinator leads no more");
  const std::int64_t most = options_.term.ended == nullptr ? left : kLookMilliseconds;
  // An interrupted wait is a new one of the caller's.
  static_cast<void>(::poll(&socket, 1, static_cast<int>(std::min(left, most)) + 1));
  return ok_status();
}

Result<PostgresDatabase::ResultPointer> PostgresDatabase::finish(std::int64_t* rows) {
  const TimeLimit end = steady_clock::now() + wait_;
  ResultPointer last;
  std::optional<Error> error;
  while (true) {
    const int unsent = PQflush(connection_);
    if (unsent < 0) return lose(PQerrorMessage(connection_));
    if (PQisBusy(connection_) != 0) {
      TRY_VOID(wait_until(static_cast<short>(POLLIN | (unsent > 0 ? POLLOUT : 0)), end));
      if (PQconsumeInput(connection_) == 0) return lose(PQerrorMessage(connection_));
      continue;
    }
    ResultPointer result(PQgetResult(connection_));
    if (result == nullptr) break;
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && !error) {
      error = failed(result.get());
      if (lost()) return *error;
    }
    const long long changed = std::strtoll(PQcmdTuples(result.get()), nullptr, 10);
    if (rows != nullptr && *PQcmdTuples(result.get()) != '\0') *rows = changed;
    last = std::move(result);
  }
  while (PGnotify* const notice = PQnotifies(connection_)) PQfreemem(notice);
  if (error) return *error;
  if (last == nullptr) return lose("it answered nothing");
  return last;
}

Result<std::unique_ptr<Rows>> PostgresDatabase::start(const std::string& sql,
                                                      const std::vector<SqlValue>& values) {
  if (lost()) return unavailable("the connection is lost");
  const Parameters given(values);
  const int count = static_cast<int>(values.size());
  const int sent =
      PQsendQueryParams(connection_, sql.c_str(), count, given.types.data(), given.values.data(),
                        given.sizes.data(), given.formats.data(), kBinary);
  if (sent == 0) return lose(PQerrorMessage(connection_));
  TRY(ResultPointer result, finish());
  return std::unique_ptr<Rows>(std::make_unique<PostgresRows>(std::move(result)));
}

Status PostgresDatabase::execute(const std::string& sql) {
  if (sql.empty()) return ok_status();
  if (lost()) return unavailable("the connection is lost");
  if (PQsendQuery(connection_, sql.c_str()) == 0) return lose(PQerrorMessage(connection_));
  TRY_VOID(finish());
  return ok_status();
}

// The update lets one counted transaction at a time write, as in SQLite. LISTEN shows coordinators
// that rows have changed. The lock on the epoch lasts until the transaction ends: another
// coordinator takes the lease before it, and then it finds no row, or after it.
Status PostgresDatabase::begin(Access access) {
  if (access == Access::kRead) return execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  if (lost()) return unavailable("the connection is lost");
  std::string sql = "BEGIN";
  if (options_.counts) sql += "; UPDATE head SET changes = changes + 1; NOTIFY hearth";
  if (options_.term.epoch > 0) {
    sql += message_of("; SELECT 1 FROM lease WHERE epoch = ", options_.term.epoch,
                      " AND holder = '", options_.term.holder, "' FOR KEY SHARE");
  }
  if (PQsendQuery(connection_, sql.c_str()) == 0) return lose(PQerrorMessage(connection_));
  std::int64_t rows = 1;
  const auto begun = finish(&rows);
  if (begun.ok() && rows == 1) return ok_status();
  if (!lost()) static_cast<void>(execute("ROLLBACK"));
  if (!begun.ok()) return begun.error();
  return Error::of(ErrorCode::kRefused, "another coordinator has taken the lease of the store ",
                   shown(), "; this one writes nothing more");
}

Status PostgresDatabase::make_ready() {
  if (!lost()) return ok_status();
  const auto now = steady_clock::now();
  if (again_ && now < *again_) return unavailable("the connection is lost");
  const Status made = connect();
  if (made.ok()) {
    again_.reset();
    pause_ = Duration(0);
    return made;
  }
  pause_ = std::clamp<Duration>(2 * pause_, kPauseLeast, kPauseMost);
  again_ = steady_clock::now() + pause_;
  return made;
}

Status PostgresDatabase::dial() {
  INVARIANT(connection_ == nullptr, "one connection at a time");
  // Later ones beat those of the URL. A machine that vanishes without a word is noticed by the
  // server too, whose locks would otherwise last for hours.
  std::vector<const char*> names = {
      "dbname",          "client_encoding",     "fallback_application_name",
      "keepalives_idle", "keepalives_interval", "keepalives_count"};
  std::vector<const char*> values = {options_.url.text.c_str(), "UTF8", "hearth", "5", "2", "3"};
  // libpq's default falls back to plain text.
  if (options_.url.needs_tls) {
    names.push_back("sslmode");
    values.push_back("verify-full");
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = PQconnectStartParams(names.data(), values.data(), 1);
  if (connection_ == nullptr) return unavailable("there is no memory for a connection");
  if (PQstatus(connection_) == CONNECTION_BAD) return lose(PQerrorMessage(connection_));
  const TimeLimit end = steady_clock::now() + options_.dial;
  PostgresPollingStatusType state = PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) return lose(PQerrorMessage(connection_));
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    TRY_VOID(wait_until(events, end));
    pollfd socket{PQsocket(connection_), events, 0};
    if (::poll(&socket, 1, 0) > 0) state = PQconnectPoll(connection_);
  }
  PQsetnonblocking(connection_, 1);
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  return ok_status();
}

Status PostgresDatabase::connect() {
  wait_ = std::max(options_.wait, options_.dial);
  TRY_VOID(dial());
  Status usable = open_schema();
  if (usable.ok()) usable = set_time_limit(options_.wait);
  if (!usable.ok() && !lost()) {
    PQfinish(connection_);
    connection_ = nullptr;
  }
  return usable;
}

// The server gives up with the client, so that nothing late is done. A client that stands still, or
// is cut off, within a transaction keeps the lease from the next leader until then, so the server
// waits less long for the next statement.
Status PostgresDatabase::set_time_limit(Duration wait) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  TRY_VOID(execute("SET statement_timeout = " + std::to_string(limit) +
                   "; SET idle_in_transaction_session_timeout = " + std::to_string(limit * 3 / 4)));
  wait_ = wait;
  return ok_status();
}

Status PostgresDatabase::open_schema() {
  const int version = PQserverVersion(connection_);
  if (version < kOldestServer) {
    return Error::of(ErrorCode::kVersion, "the store ", shown(), " is PostgreSQL ",
                     version / 10'000, "; hearth needs version 12 or later");
  }
  TRY_VOID(set_time_limit(wait_));
  TRY_VOID(
      execute("SET search_path = hearth; SET tcp_keepalives_idle = 5; SET "
              "tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET "
              "synchronous_commit = " +
              std::string(options_.flush == Flush::kRarely ? "off" : "on")));
  TRY_VOID(execute("BEGIN"));
  Status done = settle_schema();
  if (done.ok()) done = execute("COMMIT");
  if (!done.ok() && !lost()) static_cast<void>(execute("ROLLBACK"));
  TRY_VOID(std::move(done));
  TRY(const Head now, head());
  if (now.moved.empty() || options_.also_moved) return ok_status();
  return Error::of(ErrorCode::kRefused, "the rows of the store ", shown(), " were moved to ",
                   now.moved, " by hearth store migrate");
}

// One process at a time makes or upgrades the tables. Others do not wait for it where they are as
// they must be: a leader that connects again has little time.
Status PostgresDatabase::settle_schema() {
  TRY(const std::int64_t made, number("SELECT count(*) FROM pg_tables WHERE schemaname = "
                                      "'hearth' AND tablename = 'head'"));
  if (made == 1) {
    TRY(const Head now, head());
    if (now.version == schema_version()) return ok_status();
  }
  TRY_VOID(set_time_limit(std::max(kCommandWait, options_.wait)));  // more than for a row
  TRY_VOID(execute("SELECT pg_advisory_xact_lock(" + std::string(kSchemaLockKey) + ")"));
  TRY(const std::int64_t schemas,
      number("SELECT count(*) FROM pg_namespace WHERE nspname = 'hearth'"));
  if (schemas == 0) TRY_VOID(execute("CREATE SCHEMA hearth"));
  TRY(const std::int64_t tables,
      number("SELECT count(*) FROM pg_tables WHERE schemaname = 'hearth'"));
  TRY(const std::int64_t heads, number("SELECT count(*) FROM pg_tables WHERE schemaname = "
                                       "'hearth' AND tablename = 'head'"));
  REQUIRE(heads == 1 || tables == 0, "the schema hearth in ", shown(),
          " has tables of another program; choose another database");
  if (heads == 0) {
    TRY_VOID(execute(
        "CREATE TABLE head (\"only\" BIGINT PRIMARY KEY CHECK (\"only\" = 0), version BIGINT NOT "
        "NULL, changes BIGINT NOT NULL, epoch BIGINT NOT NULL, holder TEXT NOT NULL, moved TEXT "
        "NOT NULL); INSERT INTO head VALUES (0, 0, 0, 0, '', '')"));
  }
  TRY(const Head now, head());
  TRY_VOID(upgrade_schema(*this, Dialect::kPostgres, now.version, shown()));
  if (now.version == schema_version()) return ok_status();
  return execute("UPDATE head SET version = " + std::to_string(schema_version()));
}

Result<std::int64_t> PostgresDatabase::number(const std::string& sql) {
  Statement statement(*this, sql);
  TRY(const bool there, statement.step());
  if (!there) return damaged("a number is missing");
  return statement.number(0);
}

Result<PostgresDatabase::Head> PostgresDatabase::head() {
  Statement statement(*this, "SELECT version, changes, moved FROM head");
  TRY(const bool there, statement.step());
  Head head;
  if (!there || !statement.read(head.version, head.changes, head.moved) || head.changes < 0) {
    return damaged("the row of the table head is missing or wrong");
  }
  return head;
}

Status PostgresDatabase::mark_moved(const std::string& to) {
  return transaction([&]() -> Status {
    TRY_VOID(Statement(*this, "UPDATE head SET moved = $1").add(to).run());
    // The log goes on elsewhere: an older state of it would be another history.
    return to.empty() ? ok_status() : execute("DELETE FROM ledger_files");
  });
}

Status PostgresDatabase::listen(const std::string& channel) { return execute("LISTEN " + channel); }

int PostgresDatabase::socket() const { return lost() ? -1 : PQsocket(connection_); }

Result<std::unique_ptr<PostgresDatabase>> PostgresDatabase::open(const PostgresOptions& options) {
  INVARIANT(options.wait > Duration(0), "a statement has a time limit");
  const auto& holder = options.term.holder;
  INVARIANT(holder.find_first_not_of("0123456789abcdef") == std::string::npos,
            "a holder's id is a part of a statement");
  std::unique_ptr<PostgresDatabase> db(new PostgresDatabase(options));
  TRY_VOID(db->make_ready());
  return db;
}

}  // namespace hearth::coordinator
