#include "coordinator/store/postgres_database.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/coordinator/store/private_postgres.h"

namespace hearth::coordinator {
namespace {

class PostgresDatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PrivatePostgres::shared();
    if (server_ == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server_->start();
    server_->clear();
  }
  void TearDown() override { ::unsetenv("PGPASSFILE"); }

  StoreFolder folder_;
  PrivatePostgres* server_ = nullptr;
};

TEST_F(PostgresDatabaseTest, TlsAndAPasswordFileOpenIt) {
  ASSERT_EQ(::setenv("PGPASSFILE", "/nonexistent", 1), 0);
  const Status without = use_store_url(folder_.path(), server_->tls_url());
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(without.error().message.find("~/.pgpass (chmod 600)"), std::string::npos)
      << without.error().message;

  const std::string file = folder_.path() + "/passwords";
  std::ofstream(file) << "localhost:" << server_->port()
                      << ":*:guest:" << PrivatePostgres::kPassword << '\n';
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  ASSERT_EQ(::setenv("PGPASSFILE", file.c_str(), 1), 0);
  const Status used = use_store_url(folder_.path(), server_->tls_url());
  ASSERT_TRUE(used.ok()) << used.error().message;
  EXPECT_TRUE(folder_.open()->put_machines({}).ok());
  EXPECT_EQ(server_->value("SELECT count(*) FROM tokens"), "0") << "the schema is there";
  server_->clear();
}

TEST_F(PostgresDatabaseTest, ACertificateForAnotherNameIsRefused) {
  std::string url = server_->tls_url();
  url.replace(url.find("localhost"), 9, "127.0.0.1");
  const Status refused = use_store_url(folder_.path(), url);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("certificate"), std::string::npos)
      << refused.error().message;
}

TEST_F(PostgresDatabaseTest, AWrongPasswordIsNamedAndNeverShown) {
  const std::string url =
      "postgresql://guest:not-this-one@localhost:" + std::to_string(server_->port()) +
      "/postgres?sslmode=require";
  const Status refused = use_store_url(folder_.path(), url);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("password authentication failed"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(refused.error().message.find("not-this-one"), std::string::npos);
  EXPECT_FALSE(has_store(folder_.path())) << "a store that cannot be reached is not noted down";
}

TEST_F(PostgresDatabaseTest, ANewerVersionAndForeignTablesAreRefused) {
  ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
  server_->execute("UPDATE head SET version = 1000");
  const auto newer = open_store(folder_.path());
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, ErrorCode::kVersion);
  EXPECT_NE(newer.error().message.find("version 1000"), std::string::npos);
  server_->execute("UPDATE head SET version = 8");
  server_->execute("DROP TABLE head");
  const auto foreign = open_store(folder_.path());
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().message.find("another program"), std::string::npos)
      << foreign.error().message;
}

TEST_F(PostgresDatabaseTest, DamageAndOddTextsAreNamed) {
  ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
  const auto store = folder_.open();
  EXPECT_EQ(store->find_key(std::string("a\0b", 3)).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(store->revoke_key("\xff").error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(store->find_key("k").ok()) << "the connection goes on";
  server_->execute("DROP TABLE keys");
  const auto damaged = store->find_key("k");
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().message.find("damaged"), std::string::npos) << damaged.error().message;
}

// Two commands at once make the tables once.
TEST_F(PostgresDatabaseTest, TheTablesAreMadeOnce) {
  const StoreFolder second;
  std::thread other([&] { EXPECT_TRUE(use_store_url(second.path(), server_->url()).ok()); });
  EXPECT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
  other.join();
  EXPECT_EQ(folder_.open()->secret_key(), second.open()->secret_key());
}

// Another process makes or upgrades tables, and stands still.
// The first version in PostgreSQL had one coordinator, and the ledger on its disk.
TEST_F(PostgresDatabaseTest, TablesOfTheFirstVersionAreUpgraded) {
  ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
  ApiKey key;
  key.id = "its key";
  ASSERT_TRUE(folder_.open()->add_key(key).ok());
  server_->execute(
      "DROP TABLE lease, coordinators, ledger_files, manifest; ALTER TABLE head ADD epoch BIGINT "
      "NOT NULL DEFAULT 5, ADD holder TEXT NOT NULL DEFAULT 'den'; UPDATE head SET version = 7");
  const auto store = folder_.open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->keys()->size(), 1U);
  EXPECT_EQ(server_->value("SELECT epoch || name || lasts FROM lease"), "5den0");
  EXPECT_EQ(server_->value("SELECT count(*) FROM ledger_files, manifest"), "0");
  EXPECT_EQ(server_->value("SELECT version FROM head"), "8");
}

TEST_F(PostgresDatabaseTest, AConnectionToWholeTablesWaitsForNoOtherProcess) {
  const PostgresOptions options{*parse_store_url(server_->url()), Database::Flush::kEveryCommit,
                                kCommandWait};
  const auto other = PostgresDatabase::open(options);
  ASSERT_TRUE(other.ok()) << other.error().message;
  ASSERT_TRUE((*other)->execute("SELECT pg_advisory_lock(1215460457)").ok());
  const auto mine = PostgresDatabase::open(options);
  EXPECT_TRUE(mine.ok()) << mine.error().message;
}

TEST(StoreUrlTest, IsShownWithoutPasswordAndParameters) {
  const auto url = parse_store_url("postgresql://me:secret@db.example:5433/hearth?sslmode=require");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->shown, "postgresql://me@db.example:5433/hearth");
  EXPECT_FALSE(url->needs_tls) << "the URL says how";
  EXPECT_EQ(parse_store_url("postgresql://db/h?password=secret&user=me")->shown,
            "postgresql://me@db/h");
  EXPECT_EQ(parse_store_url("postgresql://me@/h?host=/run/x")->shown,
            "postgresql://me@/h?host=/run/x");
  ::unsetenv("PGSSLMODE");
  EXPECT_TRUE(parse_store_url("postgresql://db.example/h")->needs_tls);
  EXPECT_TRUE(parse_store_url("postgresql://[2001:db8::1]/h")->needs_tls);
  for (const char* own : {"localhost", "127.0.0.1", "[::1]", ""}) {
    EXPECT_FALSE(parse_store_url("postgresql://" + std::string(own) + "/h")->needs_tls) << own;
  }
}

TEST(StoreUrlTest, ErrorsDoNotRepeatIt) {
  for (const char* text :
       {"mysql://me:secret@h/d", "postgresql://me:secret%zz@h/d",
        "postgresql://me:secret@h:port/d?x=secret", "postgresql://secret b/", "secret"}) {
    const auto url = parse_store_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_NE(url.error().message.find("postgresql://USER@HOST"), std::string::npos);
    EXPECT_EQ(url.error().message.find("secret"), std::string::npos) << url.error().message;
  }
}

TEST(StoreUrlTest, AStoreThatIsAwayIsNamed) {
  const StoreFolder folder;
  std::ofstream(folder.path() + "/store.url") << "postgresql://me:secret@127.0.0.1:1/h\n";
  ASSERT_EQ(::chmod((folder.path() + "/store.url").c_str(), 0600), 0);
  const auto away = open_store(folder.path());
  ASSERT_FALSE(away.ok());
  EXPECT_EQ(away.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(away.error().message.find("postgresql://me@127.0.0.1:1/h is away: "), std::string::npos)
      << away.error().message;
  EXPECT_EQ(away.error().message.find("secret"), std::string::npos);
  ASSERT_EQ(::chmod((folder.path() + "/store.url").c_str(), 0644), 0);
  EXPECT_EQ(open_store(folder.path()).error().code, ErrorCode::kInvalidInput)
      << "others may read the password";
}

}  // namespace
}  // namespace hearth::coordinator
