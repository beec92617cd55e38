#include <fstream>

#include "base/private_file.h"
#include "coordinator/store/requests.h"
#include "coordinator/store/store.h"
#include "coordinator/store/stored_manifest.h"
#include "tests/unit/coordinator/store/held_lease.h"
#include "tests/unit/coordinator/store/private_postgres.h"

namespace hearth::coordinator {
namespace {

class MigrateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PrivatePostgres::shared();
    if (server_ == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server_->start();
    server_->clear();
    fill();
  }

  void fill() {
    const auto store = folder_.open();
    secret_ = store->secret_key();
    TokenRecord token;
    token.id = "token";
    token.role = Role::kAdmin;
    token.expires = 900;
    token.uses_left = 3;
    ASSERT_TRUE(store->add_token(token).ok());
    for (const char* name : {"den", "attic"}) {
      NodeRecord node;
      node.key = SecretKey::from_seed(blake2b(as_bytes(name)).bytes)->public_key();
      node.name = name;
      node.owner = "an owner";
      ASSERT_TRUE(store->admit({node, "token", {}}).ok());
    }
    ApiKey key;
    key.id = "key";
    key.name = "laptop";
    key.models = {"one", "two"};
    ASSERT_TRUE(store->add_key(key).ok());
    ASSERT_TRUE(store->revoke_key("key").ok());
    ASSERT_TRUE(store->note_roster(41).ok());
    const PublicKey peer = SecretKey::generate().public_key();
    ASSERT_TRUE(store->put_waiting({peer, "cellar", "10.0.0.7", 1, 2}).ok());
    ASSERT_TRUE(store->put_machines({{peer, blake2b({})}}).ok());
    const auto requests = *open_request_store(folder_.path());
    const Hash256 name = blake2b(as_bytes("a request"));
    ASSERT_TRUE(
        requests->write({RequestRow{name, name, "key", 5, Bytes(9)}, RequestTokens{name, Bytes(7)}})
            .ok());
  }
  void expect_all() {
    const auto store = folder_.open();
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->secret_key(), secret_);
    EXPECT_EQ(store->tokens()->at(0).uses_left, 1U);
    ASSERT_EQ(store->nodes()->size(), 2U);
    EXPECT_EQ(store->nodes()->at(0).name, "den");
    EXPECT_EQ(store->nodes()->at(1).owner, "an owner");
    EXPECT_TRUE(store->keys()->at(0).revoked);
    EXPECT_EQ(store->keys()->at(0).models, (std::vector<std::string>{"one", "two"}));
    EXPECT_EQ(**store->roster_number(), 41U);
    EXPECT_EQ(store->waiting()->at(0).from, "10.0.0.7");
    EXPECT_EQ(store->machines()->size(), 1U);
    const auto loaded = (*open_request_store(folder_.path()))->load();
    ASSERT_EQ(loaded->rows.size(), 1U);
    EXPECT_EQ(loaded->rows[0].ended, 5);
    EXPECT_EQ(loaded->rows[0].tokens, std::vector<Bytes>{Bytes(7)});
  }

  StoreFolder folder_;
  PrivatePostgres* server_ = nullptr;
  Hash256 secret_;
};

TEST_F(MigrateTest, AllRowsGoThereAndBackAndThereAgain) {
  auto moved = migrate_store(folder_.path(), server_->url());
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_EQ(moved->nodes, 2U);
  EXPECT_EQ(moved->requests, 1U);
  EXPECT_FALSE(std::filesystem::exists(folder_.file()));
  EXPECT_TRUE(std::filesystem::exists(moved->left));
  EXPECT_EQ(server_->value("SELECT count(*) FROM nodes"), "2");
  expect_all();

  EXPECT_FALSE(migrate_store(folder_.path(), server_->url()).ok()) << "it is there already";
  server_->execute("CREATE DATABASE spare");
  std::string spare = server_->url();
  spare.replace(spare.find("/postgres?"), 10, "/spare?");
  const Status empty = use_store_url(folder_.path(), spare);
  server_->execute("DROP DATABASE spare");
  ASSERT_FALSE(empty.ok()) << "the rows would be left behind";
  EXPECT_NE(empty.error().message.find("is empty"), std::string::npos) << empty.error().message;
  moved = migrate_store(folder_.path(), "");
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_TRUE(std::filesystem::exists(folder_.file()));
  expect_all();
  const StoreFolder other;
  const Status left = use_store_url(other.path(), server_->url());
  ASSERT_FALSE(left.ok()) << "the rows in the database are old ones";
  EXPECT_NE(left.error().message.find("were moved to " + folder_.file()), std::string::npos)
      << left.error().message;

  ASSERT_TRUE(migrate_store(folder_.path(), server_->url()).ok());
  expect_all();
}

TEST_F(MigrateTest, TheNewestManifestGoesAlong) {
  const std::string file = folder_.path() + "/manifest";
  const std::string note = folder_.path() + "/manifest.of";
  ASSERT_TRUE(write_private_file(file, as_bytes("one")).ok());
  ASSERT_TRUE(write_private_file(note, as_bytes("a model")).ok());
  ASSERT_TRUE(migrate_store(folder_.path(), server_->url()).ok());
  EXPECT_EQ(as_text(*read_stored_manifest(folder_.path())), "one");
  ASSERT_TRUE(migrate_store(folder_.path(), "").ok());
  EXPECT_EQ(as_text(*read_private_file(note, 99)), "a model");

  ASSERT_TRUE(migrate_store(folder_.path(), server_->url()).ok());
  ASSERT_TRUE(write_stored_manifest(folder_.path(), {}, as_bytes("two")).ok());
  ASSERT_TRUE(migrate_store(folder_.path(), "").ok());
  EXPECT_EQ(as_text(*read_private_file(file, 99)), "two");
  EXPECT_TRUE(read_private_file(note, 99)->empty()) << "it names the model of the one before";
}

TEST_F(MigrateTest, AStoreWithRowsIsNotOverwritten) {
  const StoreFolder other;
  ASSERT_TRUE(use_store_url(other.path(), server_->url()).ok());
  ApiKey key;
  key.id = "its own";
  ASSERT_TRUE(other.open()->add_key(key).ok());
  const auto moved = migrate_store(folder_.path(), server_->url());
  ASSERT_FALSE(moved.ok());
  EXPECT_NE(moved.error().message.find("choose an empty database"), std::string::npos)
      << moved.error().message;
  expect_all();
}

TEST_F(MigrateTest, AStoreThatACoordinatorHoldsIsRefused) {
  const StoreFolder other;
  ASSERT_TRUE(use_store_url(other.path(), server_->url()).ok());
  HeldLease coordinator(server_->url());
  ASSERT_EQ(coordinator.take(), 1U);
  const auto moved = migrate_store(folder_.path(), server_->url());
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.error().code, ErrorCode::kRefused);
  expect_all();
}

TEST_F(MigrateTest, AFolderWithRowsIsNotGivenAnEmptyStore) {
  const Status used = use_store_url(folder_.path(), server_->url());
  ASSERT_FALSE(used.ok());
  EXPECT_NE(used.error().message.find("hearth store migrate --to URL"), std::string::npos);
  expect_all();
}

}  // namespace
}  // namespace hearth::coordinator
