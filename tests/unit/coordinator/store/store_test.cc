#include "coordinator/store/store.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "coordinator/store/requests.h"
#include "tests/unit/coordinator/store/private_postgres.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator {
namespace {

namespace fs = std::filesystem;

TokenRecord a_token(const std::string& id, std::uint32_t uses) {
  TokenRecord token;
  token.id = id;
  token.secret_hash = blake2b(as_bytes(id));
  token.role = Role::kAdmin;
  token.created = 100;
  token.expires = 200;
  token.uses_left = uses;
  return token;
}

NodeRecord a_node(const std::string& name) {
  NodeRecord node;
  node.key = SecretKey::from_seed(blake2b(as_bytes(name)).bytes)->public_key();
  node.name = name;
  node.enrolled = 7;
  return node;
}

ApiKey a_key(const std::string& id, const std::string& name) {
  ApiKey key;
  key.id = id;
  key.secret_hash = blake2b(as_bytes(id));
  key.name = name;
  key.models = {"one", "two words"};
  key.admin = true;
  key.requests_per_minute = 30;
  key.created = 5;
  key.account = SecretKey::from_seed(blake2b(as_bytes("account")).bytes)->public_key();
  key.verify = Verify::kFull;
  key.min_level = ledger::Level::kRegular;
  return key;
}

Status admit_node(Store& store, const NodeRecord& node, const std::optional<ApiKey>& key = {}) {
  static_cast<void>(store.add_token(a_token("of nodes", 100)));
  return store.admit({node, "of nodes", key});
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

using EitherStoreTest = EitherStore;
INSTANTIATE_TEST_SUITE_P(Kinds, EitherStoreTest, kEitherStore, store_kind);

TEST_P(EitherStoreTest, NobodyJoinsWithARoleThatIsNone) {
  const auto store = folder.open();
  for (const int number : {0, 4, 5, 255}) {
    TokenRecord token = a_token("odd", 1);
    token.role = static_cast<Role>(number);
    const Status kept = store->add_token(token);
    ASSERT_FALSE(kept.ok()) << number;
    EXPECT_NE(kept.error().message.find("role is number " + std::to_string(number)),
              std::string::npos);
    NodeRecord node = a_node("odd");
    node.role = token.role;
    EXPECT_FALSE(admit_node(*store, node).ok()) << number;
  }
  ASSERT_TRUE(store->add_token(a_token("t", 1)).ok());
  ASSERT_TRUE(admit_node(*store, a_node("den")).ok());
  for (const char* role : {"0", "4", "-1", "4294967297", "9223372036854775807"}) {
    execute(std::string("UPDATE tokens SET role = ") + role);
    const auto token = store->find_token("t");
    ASSERT_FALSE(token.ok()) << role;
    EXPECT_EQ(token.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(token.error().message.find("damaged"), std::string::npos);
    EXPECT_FALSE(store->tokens().ok());
    execute(std::string("UPDATE nodes SET role = ") + role);
    EXPECT_FALSE(store->find_node(a_node("den").key).ok()) << role;
    EXPECT_FALSE(store->nodes().ok());
  }
}

// As after a power cut of a machine that has filled its disk.
TEST(StoreTest, AFullDiskIsNamed) {
  const StoreFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "no small disk here: " << std::strerror(errno);
  }
  EXPECT_NE(folder.open(), nullptr);
  std::ofstream(folder.path() + "/rest", std::ios::binary) << std::string(512 << 10, 'x');
  const auto store = open_store(folder.path());
  ::umount2(folder.path().c_str(), MNT_DETACH);
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("its disk is full: free 1 MiB or more"), std::string::npos)
      << store.error().message;
}

TEST_P(EitherStoreTest, KeepsWhatItWasTold) {
  Hash256 secret;
  {
    const auto store = folder.open();
    secret = store->secret_key();
    ASSERT_TRUE(store->add_token(a_token("t", 3)).ok());
    ASSERT_TRUE(admit_node(*store, a_node("den")).ok());
    ASSERT_TRUE(store->add_key(a_key("k", "laptop")).ok());
  }
  const auto store = folder.open();
  EXPECT_EQ(store->secret_key(), secret) << "or no hash would match any more";
  const auto token = *store->find_token("t");
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(token->secret_hash, a_token("t", 3).secret_hash);
  EXPECT_EQ(token->role, Role::kAdmin);
  EXPECT_EQ(token->created, 100);
  EXPECT_EQ(token->expires, 200);
  EXPECT_EQ(token->uses_left, 3U);
  EXPECT_FALSE(token->revoked);
  const auto node = *store->find_node(a_node("den").key);
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ(node->name, "den");
  EXPECT_EQ(node->role, Role::kWorker);
  EXPECT_EQ(node->enrolled, 7);
  const auto key = *store->find_key("k");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->name, "laptop");
  EXPECT_EQ(key->models, (std::vector<std::string>{"one", "two words"}));
  EXPECT_TRUE(key->admin);
  EXPECT_EQ(key->requests_per_minute, 30U);
  EXPECT_EQ(key->created, 5);
  EXPECT_EQ(key->account, a_key("k", "laptop").account);
  EXPECT_EQ(key->verify, Verify::kFull);
  EXPECT_EQ(key->min_level, ledger::Level::kRegular);
  EXPECT_FALSE((*store->find_key("laptop")).has_value()) << "found by id alone";
  EXPECT_FALSE((*store->find_token("")).has_value());
  EXPECT_EQ(store->tokens()->size(), 2U);
  EXPECT_EQ(store->nodes()->size(), 1U);
  EXPECT_EQ(store->keys()->size(), 1U);
}

TEST(StoreTest, EveryStoreHasItsOwnSecret) {
  const StoreFolder one;
  const StoreFolder two;
  EXPECT_NE(one.open()->secret_key(), two.open()->secret_key());
}

TEST_P(EitherStoreTest, UsesAreTakenUntilNoneIsLeft) {
  const auto store = folder.open();
  ASSERT_TRUE(store->add_token(a_token("t", 2)).ok());
  EXPECT_FALSE(admit_somebody(*store, "u", 150).ok()) << "unknown";
  EXPECT_FALSE(admit_somebody(*store, "t", 200).ok()) << "expires in this second";
  EXPECT_TRUE(admit_somebody(*store, "t", 199).ok());
  EXPECT_TRUE(admit_somebody(*store, "t", 150).ok());
  EXPECT_FALSE(admit_somebody(*store, "t", 150).ok());
  ASSERT_TRUE(store->add_token(a_token("r", 1)).ok());
  EXPECT_TRUE(*store->revoke_token("r"));
  EXPECT_FALSE(*store->revoke_token("r")) << "once";
  EXPECT_FALSE(admit_somebody(*store, "r", 150).ok());
}

TEST_P(EitherStoreTest, ANodeComesInWholeOrNotAtAll) {
  const auto store = folder.open();
  ASSERT_TRUE(store->add_token(a_token("t", 2)).ok());
  ApiKey key = a_key("k", "client den");
  key.node = a_node("den").key;
  ASSERT_TRUE(store->add_key(a_key("1", "client den")).ok());
  EXPECT_FALSE(store->admit({a_node("den"), "t", key}).ok()) << "the name of another key";
  EXPECT_FALSE((*store->find_node(a_node("den").key)).has_value());
  EXPECT_EQ((*store->find_token("t"))->uses_left, 2U);
  ASSERT_TRUE(*store->revoke_key("1"));
  ASSERT_TRUE(store->admit({a_node("den"), "t", key}).ok());
  EXPECT_EQ((*store->find_token("t"))->uses_left, 1U);
  EXPECT_EQ((*store->find_key("k"))->node, key.node);
  EXPECT_FALSE(store->admit({a_node("den"), "t", {}}).ok()) << "once";
  EXPECT_EQ((*store->find_token("t"))->uses_left, 1U);

  ApiKey second = a_key("k2", "client den");
  second.node = key.node;
  ASSERT_TRUE(store->replace_key(second).ok());
  EXPECT_FALSE((*store->find_key("k")).has_value());
  EXPECT_EQ((*store->find_key("1"))->node, std::nullopt);
  ASSERT_TRUE(*store->revoke_node(*key.node));
  EXPECT_TRUE((*store->find_key("k2"))->revoked);
  EXPECT_EQ(store->replace_key(second).error().code, ErrorCode::kRefused) << "out is out";
}

TEST_P(EitherStoreTest, NamesAreUniqueAmongTheLiving) {
  const auto store = folder.open();
  ASSERT_TRUE(store->add_key(a_key("1", "laptop")).ok());
  EXPECT_EQ(store->add_key(a_key("1", "other")).error().code, ErrorCode::kInvalidInput);
  const Status taken = store->add_key(a_key("2", "laptop"));
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.error().message.find("laptop"), std::string::npos);
  EXPECT_TRUE(*store->revoke_key("laptop"));
  EXPECT_FALSE(*store->revoke_key("laptop"));
  EXPECT_TRUE(store->add_key(a_key("2", "laptop")).ok());
  EXPECT_TRUE((*store->find_key("1"))->revoked);
  EXPECT_TRUE(*store->revoke_key("2")) << "by id as well";

  ASSERT_TRUE(admit_node(*store, a_node("den")).ok());
  EXPECT_FALSE(admit_node(*store, a_node("den")).ok());
  EXPECT_TRUE(*store->revoke_node(a_node("den").key));
  EXPECT_FALSE(admit_node(*store, a_node("den")).ok()) << "a revoked key does not come back";
  EXPECT_TRUE((*store->find_node(a_node("den").key))->revoked);
}

TEST_P(EitherStoreTest, TwoOpenStoresSeeEachOthersRows) {
  const auto one = folder.open();
  const auto two = folder.open();
  ASSERT_TRUE(one->add_key(a_key("k", "laptop")).ok());
  EXPECT_TRUE((*two->find_key("k")).has_value());
  EXPECT_TRUE(*two->revoke_key("k"));
  EXPECT_TRUE((*one->find_key("k"))->revoked);
}

TEST(StoreTest, NobodyElseMayReadIt) {
  const StoreFolder folder;
  const auto store = folder.open();
  ASSERT_TRUE(store->add_key(a_key("k", "laptop")).ok());
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    struct stat info {};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U) << entry.path();
  }
  ASSERT_EQ(::chmod(folder.file().c_str(), 0644), 0);
  const auto again = open_store(folder.path());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("chmod 600"), std::string::npos);
}

TEST_P(EitherStoreTest, KnowsWhetherAnyTokenIsGood) {
  const auto store = folder.open();
  EXPECT_FALSE(*store->any_token(150));
  ASSERT_TRUE(store->add_token(a_token("used up", 0)).ok());
  EXPECT_FALSE(*store->any_token(150));
  ASSERT_TRUE(store->add_token(a_token("good", 1)).ok());
  EXPECT_TRUE(*store->any_token(199));
  EXPECT_FALSE(*store->any_token(200)) << "expired";
  ASSERT_TRUE(*store->revoke_token("good"));
  EXPECT_FALSE(*store->any_token(150));
  ASSERT_TRUE(store->add_token(a_token("of one", 1)).ok());
  ASSERT_TRUE(store->admit({a_node("den"), "of one", {}}).ok());
  EXPECT_FALSE(*store->any_token(150)) << "its use is taken";
}

TEST(StoreTest, WhatIsNoRegularFileIsRefused) {
  const StoreFolder folder;
  write_file(folder.path() + "/elsewhere", "");
  fs::create_symlink(folder.path() + "/elsewhere", folder.file());
  EXPECT_NE(open_store(folder.path()).error().message.find("link"), std::string::npos);
  fs::remove(folder.file());
  ASSERT_EQ(::mkfifo(folder.file().c_str(), 0600), 0);
  EXPECT_FALSE(open_store(folder.path()).ok()) << "and does not wait for a writer";
  fs::remove(folder.file());
  fs::create_directory(folder.file());
  EXPECT_FALSE(open_store(folder.path()).ok());
  EXPECT_EQ(open_store(folder.path() + "/missing").error().code, ErrorCode::kIo);
}

// Big-endian numbers of SQLite's file header.
void set_header(const std::string& path, std::size_t at, std::uint32_t value) {
  std::string bytes = read_file(path);
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (24 - 8 * i));
  write_file(path, bytes);
}
constexpr std::size_t kUserVersionAt = 60;
constexpr std::size_t kApplicationIdAt = 68;

TEST(StoreTest, ANewerVersionIsRefusedAndNamed) {
  const StoreFolder folder;
  folder.open().reset();
  set_header(folder.file(), kUserVersionAt, 1000);
  const auto newer = open_store(folder.path());
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, ErrorCode::kVersion);
  EXPECT_NE(newer.error().message.find("version 1000"), std::string::npos);
  EXPECT_NE(newer.error().message.find("--data-dir"), std::string::npos);
  set_header(folder.file(), kUserVersionAt, 0xFFFFFFFF);
  EXPECT_EQ(open_store(folder.path()).error().code, ErrorCode::kInvalidInput);
}

TEST(StoreTest, AnotherProgramsDatabaseIsLeftAlone) {
  const StoreFolder folder;
  folder.open().reset();
  set_header(folder.file(), kApplicationIdAt, 1);
  const std::string before = read_file(folder.file());
  const auto other = open_store(folder.path());
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("another program"), std::string::npos);
  EXPECT_EQ(read_file(folder.file()), before);
  write_file(folder.file(), "this is a text file, not a database, and long enough for a header");
  EXPECT_NE(open_store(folder.path()).error().message.find("damaged"), std::string::npos);
}

// A file that is cut anywhere is refused, except to nothing, which is a store to be made.
TEST(StoreTest, EveryCutIsRefused) {
  const StoreFolder folder;
  {
    const auto store = folder.open();
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(store->add_key(a_key(std::to_string(i), "name " + std::to_string(i))).ok());
    }
    // The last tables: an empty page has nothing at its end that a cut could lose.
    const PublicKey node = SecretKey::generate().public_key();
    ASSERT_TRUE(store->put_machines({{node, blake2b({})}}).ok());
    const auto requests = open_request_store(folder.path());
    ASSERT_TRUE(requests.ok());
    const Hash256 name = blake2b(as_bytes("a request"));
    ASSERT_TRUE(
        (*requests)
            ->write({RequestRow{name, name, "key", 0, Bytes(9)}, RequestTokens{name, Bytes(9)}})
            .ok());
  }
  const std::string whole = read_file(folder.file());
  ASSERT_GT(whole.size(), 16'384U);
  for (std::size_t bytes = 1; bytes < whole.size(); bytes += bytes < 100 ? 1 : 509) {
    write_file(folder.file(), whole.substr(0, bytes));
    const auto cut = open_store(folder.path());
    ASSERT_FALSE(cut.ok()) << bytes;
    EXPECT_NE(cut.error().message.find("damaged"), std::string::npos) << cut.error().message;
    for (const char* side : {"-wal", "-shm"}) fs::remove(folder.file() + side);
  }
}

// Whatever a disk did to some byte: an answer or a typed error, never the end of the process.
TEST(StoreTest, FlippedBitsNeverCrash) {
  const StoreFolder folder;
  {
    const auto store = folder.open();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(store->add_key(a_key(std::to_string(i), "name " + std::to_string(i))).ok());
      ASSERT_TRUE(store->add_token(a_token(std::to_string(i), 1)).ok());
      ASSERT_TRUE(admit_node(*store, a_node(std::to_string(i))).ok());
    }
  }
  const std::string whole = read_file(folder.file());
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 100 ? 1 : 131) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ (1 << (at % 8)));
    write_file(folder.file(), broken);
    const auto store = open_store(folder.path());
    if (store.ok()) {
      static_cast<void>((*store)->keys());
      static_cast<void>((*store)->tokens());
      static_cast<void>((*store)->nodes());
      static_cast<void>((*store)->find_key("3"));
    } else {
      ++refused;
      EXPECT_FALSE(store.error().message.empty());
    }
  }
  EXPECT_GT(refused, 10U);
}

TEST_P(EitherStoreTest, MachinesAreReplacedByTheirKeys) {
  const PublicKey one = SecretKey::generate().public_key();
  const PublicKey two = SecretKey::generate().public_key();
  {
    const auto store = folder.open();
    EXPECT_TRUE(store->machines().value().empty());
    ASSERT_TRUE(store->put_machines({{one, blake2b(as_bytes("a"))}, {two, blake2b({})}}).ok());
    ASSERT_TRUE(store->put_machines({{one, blake2b(as_bytes("b"))}}).ok());
  }
  const auto rows = folder.open()->machines().value();
  const std::map<PublicKey, Hash256> machines(rows.begin(), rows.end());
  EXPECT_EQ(machines,
            (std::map<PublicKey, Hash256>{{one, blake2b(as_bytes("b"))}, {two, blake2b({})}}));
}

}  // namespace
}  // namespace hearth::coordinator
