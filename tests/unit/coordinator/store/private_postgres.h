// A PostgreSQL server for the tests of one process, in a folder of its own: an unprivileged user
// runs it, and it ends with the process. Reached by a socket in the folder without a password, and
// on loopback by TLS with one.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/store/store.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator {

class PrivatePostgres {
 public:
  static constexpr const char* kPassword = "pass-word-of-the-tests";

  // Null where Debian's package postgresql is not installed.
  static PrivatePostgres* shared() {
    static const std::unique_ptr<PrivatePostgres> server = make();
    return server.get();
  }
  ~PrivatePostgres() {
    stop();
    std::filesystem::remove_all(folder_);
  }
  PrivatePostgres(const PrivatePostgres&) = delete;
  PrivatePostgres& operator=(const PrivatePostgres&) = delete;

  std::string url() const {
    return "postgresql://hearth@/postgres?host=" + folder_ + "&port=" + std::to_string(port_);
  }
  // By TLS, as the user "guest", whose password is kPassword.
  std::string tls_url() const {
    return "postgresql://guest@localhost:" + std::to_string(port_) +
           "/postgres?sslmode=verify-full&sslrootcert=" + folder_ + "/server.crt";
  }
  std::uint16_t port() const { return port_; }

  void start() {
    if (server_ > 0) return;
    server_ = run({bin_ + "/postgres",
                   "-D",
                   folder_ + "/data",
                   "-k",
                   folder_,
                   "-p",
                   std::to_string(port_),
                   "-c",
                   "listen_addresses=127.0.0.1",
                   "-c",
                   "fsync=off",
                   "-c",
                   "shared_buffers=4MB",
                   "-c",
                   "max_connections=20",
                   "-c",
                   "autovacuum=off",
                   "-c",
                   "ssl=on",
                   "-c",
                   "ssl_cert_file=" + folder_ + "/server.crt",
                   "-c",
                   "ssl_key_file=" + folder_ + "/server.key"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (PQping(url().c_str()) != PQPING_OK) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << log();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // At once, as in a power cut.
  void stop() {
    if (server_ <= 0) return;
    ::kill(server_, SIGCONT);
    ::kill(server_, SIGQUIT);
    ::waitpid(server_, nullptr, 0);
    server_ = 0;
  }
  // All its processes: it accepts bytes and answers nothing.
  void freeze() const { signal_all(SIGSTOP); }
  void thaw() const { signal_all(SIGCONT); }

  // An empty database.
  void clear() const { execute("DROP SCHEMA IF EXISTS hearth CASCADE"); }
  // The first column of the first row.
  std::string value(const std::string& sql) const {
    std::string out;
    query(sql, out);
    return out;
  }
  void execute(const std::string& sql) const {
    std::string ignored;
    query(sql, ignored);
  }

 private:
  PrivatePostgres(std::string bin, std::string folder)
      : bin_(std::move(bin)), folder_(std::move(folder)) {}

  static std::string programs() {
    std::string newest;
    std::error_code ignored;
    for (const auto& one : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
      const std::string bin = one.path().string() + "/bin";
      if (std::filesystem::exists(bin + "/initdb") && bin > newest) newest = bin;
    }
    return newest;
  }

  static std::unique_ptr<PrivatePostgres> make() {
    const std::string bin = programs();
    if (bin.empty()) return nullptr;
    std::string folder =
        (std::filesystem::temp_directory_path() / "hearth-postgres-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return nullptr;
    std::unique_ptr<PrivatePostgres> server(new PrivatePostgres(bin, folder));
    server->set_up();
    return server;
  }

  void set_up() {
    if (const passwd* const user = other_user()) {
      ASSERT_EQ(::chown(folder_.c_str(), user->pw_uid, user->pw_gid), 0);
    }
    finish({bin_ + "/initdb", "-D", folder_ + "/data", "-U", "hearth", "-A", "trust", "-N", "-E",
            "UTF8", "--no-locale", "--no-instructions"});
    finish({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", folder_ + "/server.key", "-out",
            folder_ + "/server.crt"});
    std::ofstream(folder_ + "/data/pg_hba.conf")
        << "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    port_ = free_port();
    start();
    execute("CREATE USER guest PASSWORD '" + std::string(kPassword) +
            "'; GRANT CREATE ON DATABASE postgres TO guest");
    // What the tests write by hand, in the words of SQLite.
    execute(
        "CREATE FUNCTION zeroblob(n int) RETURNS bytea LANGUAGE sql AS "
        "$$SELECT decode(repeat('00', n), 'hex')$$; "
        "CREATE FUNCTION randomblob(n int) RETURNS bytea LANGUAGE sql VOLATILE AS "
        "$$SELECT sha256(random()::text::bytea)$$; "
        "CREATE FUNCTION hex(b bytea) RETURNS text LANGUAGE sql AS $$SELECT encode(b, 'hex')$$");
  }

  // PostgreSQL does not run as root.
  static const passwd* other_user() {
    if (::geteuid() != 0) return nullptr;
    const passwd* const own = ::getpwnam("postgres");
    constexpr uid_t kNoUser = 65'534;
    return own != nullptr ? own : ::getpwuid(kNoUser);
  }

  static std::uint16_t free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size), 0);
    ::close(socket);
    return ntohs(at.sin_port);
  }

  pid_t run(const std::vector<std::string>& words) const {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const passwd* const user = other_user();
    const std::string log = folder_ + "/log";
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::setpgid(0, 0);
    if (user != nullptr && (::setgroups(0, nullptr) != 0 || ::setgid(user->pw_gid) != 0 ||
                            ::setuid(user->pw_uid) != 0)) {
      ::_exit(126);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0 || ::chdir("/") != 0) ::_exit(126);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  void finish(const std::vector<std::string>& words) const {
    int code = -1;
    ASSERT_GT(::waitpid(run(words), &code, 0), 0);
    ASSERT_EQ(code, 0) << words[0] << ": " << log();
  }
  std::string log() const {
    std::ifstream file(folder_ + "/log");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void signal_all(int signal) const {
    // Each backend leads a group of its own.
    ::kill(server_, signal);
    const std::string path =
        "/proc/" + std::to_string(server_) + "/task/" + std::to_string(server_) + "/children";
    std::ifstream children(path);
    for (pid_t child = 0; children >> child;) ::kill(child, signal);
  }

  void query(const std::string& sql, std::string& out) const {
    PGconn* const db = PQconnectdb(
        (url() + "&options=-csearch_path%3Dhearth,public" + "%20-cclient_min_messages%3Dwarning")
            .c_str());
    ASSERT_EQ(PQstatus(db), CONNECTION_OK) << PQerrorMessage(db);
    PGresult* const result = PQexec(db, sql.c_str());
    const auto status = PQresultStatus(result);
    EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << PQerrorMessage(db) << sql;
    if (status == PGRES_TUPLES_OK && PQntuples(result) > 0) out = PQgetvalue(result, 0, 0);
    PQclear(result);
    PQfinish(db);
  }

  const std::string bin_;
  const std::string folder_;
  std::uint16_t port_ = 0;
  pid_t server_ = 0;
};

// A store of either kind, empty at each test: "Sqlite" or "Postgres".
class EitherStore : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("Sqlite")) return;
    server = PrivatePostgres::shared();
    if (server == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server->start();
    server->clear();
    const Status used = use_store_url(folder.path(), server->url());
    ASSERT_TRUE(used.ok()) << used.error().message;
  }
  // As another process might.
  void execute(const std::string& sql) const {
    server == nullptr ? folder.execute(sql) : server->execute(sql);
  }

  StoreFolder folder;
  PrivatePostgres* server = nullptr;  // null: SQLite
};

inline const auto kEitherStore = ::testing::Values("Sqlite", "Postgres");
inline std::string store_kind(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace hearth::coordinator
