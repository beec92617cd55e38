#include "coordinator/store/place.h"

#include <libpq-fe.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/limits.h"
#include "base/private_file.h"
#include "coordinator/store/postgres_database.h"
#include "coordinator/store/sqlite_database.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_rows.h"

namespace hearth::coordinator {
namespace {

constexpr const char* kForm =
    "the store must be postgresql://USER@HOST:PORT/DATABASE, with a password in ~/.pgpass or in "
    "the file that PGPASSFILE names";

std::string url_file(const std::string& folder) { return folder + "/store.url"; }

// The parameters that the URL gives. libpq's own error would repeat parts of the URL.
Result<std::map<std::string, std::string>> url_parameters(const std::string& text) {
  PQconninfoOption* const options = PQconninfoParse(text.c_str(), nullptr);
  REQUIRE(options != nullptr, kForm);
  std::map<std::string, std::string> out;
  for (const PQconninfoOption* each = options; each->keyword != nullptr; ++each) {
    if (each->val != nullptr) out[each->keyword] = each->val;
  }
  PQconninfoFree(options);
  return out;
}

// An empty host is a socket of this machine, unless libpq's variable names another.
bool is_local(std::string host) {
  const char* const variable = std::getenv("PGHOST");
  if (host.empty() && variable != nullptr) host = variable;
  return host.empty() || host.starts_with('/') || host == "localhost" || host == "127.0.0.1" ||
         host == "::1";
}

}  // namespace

Result<StoreUrl> parse_store_url(const std::string& text) {
  REQUIRE(text.starts_with("postgresql://") || text.starts_with("postgres://"), kForm);
  REQUIRE(text.size() <= limits::kStoreUrlBytes, "the URL of the store has ", text.size(),
          " bytes; the limit is ", limits::kStoreUrlBytes);
  for (const char c : text) REQUIRE(c > 0x20 && c < 0x7F, kForm);
  TRY(auto given, url_parameters(text));
  const std::string host = given["host"].empty() ? given["hostaddr"] : given["host"];
  const bool socket = host.starts_with('/');
  StoreUrl url{text, "postgresql://"};
  if (!given["user"].empty()) url.shown += given["user"] + "@";
  if (!socket) url.shown += host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (!socket && !given["port"].empty()) url.shown += ":" + given["port"];
  url.shown += "/" + given["dbname"];
  if (socket) url.shown += "?host=" + host;
  url.needs_tls = !is_local(host) && !given.contains("sslmode") && !std::getenv("PGSSLMODE");
  return url;
}

std::string store_file(const std::string& folder) { return folder + "/hearth.db"; }

bool has_store(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(url_file(folder), ignored) ||
         std::filesystem::exists(store_file(folder), ignored);
}

Result<std::optional<StoreUrl>> read_store_url(const std::string& folder) {
  const std::string path = url_file(folder);
  const auto bytes = read_private_file(path, limits::kStoreUrlBytes + 1);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::optional<StoreUrl>();
  if (!bytes) return bytes.error();
  const std::string_view text = as_text(*bytes);
  const auto url = parse_store_url(std::string(text.substr(0, text.find('\n'))));
  REQUIRE(url.ok(), path, " is damaged: ", url.ok() ? "" : url.error().message);
  return std::optional(*url);
}

Status write_store_url(const std::string& folder, const std::optional<StoreUrl>& url) {
  const std::string path = url_file(folder);
  if (url) return write_private_file(path, as_bytes(url->text + "\n"));
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return ok_status();
  return Error::of(ErrorCode::kIo, "cannot remove ", path, ": ", std::strerror(errno));
}

Status check_store_url(const std::string& url) {
  TRY_VOID(parse_store_url(url));
  return ok_status();
}

Status use_store_url(const std::string& folder, const std::string& text) {
  TRY(const StoreUrl url, parse_store_url(text));
  TRY(const auto now, read_store_url(folder));
  if (now && now->text == url.text) return ok_status();
  if (!now && has_store(folder)) {
    return Error::of(ErrorCode::kRefused, "the store of this folder is ", store_file(folder),
                     "; to bring its rows into ", url.shown, ": hearth store migrate --to URL");
  }
  // The file comes last: it would send every later command to a database that is not there.
  TRY(const auto db, PostgresDatabase::open({url, Database::Flush::kEveryCommit, kCommandWait}));
  TRY(const StoreRows rows, read_store(*db));
  if (now && is_empty(rows)) {
    return Error::of(ErrorCode::kRefused, "the store ", url.shown,
                     " is empty, and the rows of this folder are in ", now->shown,
                     "; name the database that has them");
  }
  return write_store_url(folder, url);
}

Result<std::unique_ptr<Database>> open_database(const std::string& folder, Database::Flush flush,
                                                const LeaseTerm& term) {
  TRY(const auto url, read_store_url(folder));
  if (!url) return SqliteDatabase::open(store_file(folder), flush);
  PostgresOptions options{*url, flush, term.epoch > 0 ? kFencedWait : kCommandWait};
  options.term = term;
  options.counts = flush == Database::Flush::kEveryCommit;
  TRY(auto db, PostgresDatabase::open(options));
  return std::unique_ptr<Database>(std::move(db));
}

}  // namespace hearth::coordinator
