#include "coordinator/store/requests.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "base/limits.h"
#include "tests/unit/coordinator/store/private_postgres.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator {
namespace {

Hash256 hash_of(const std::string& text) { return blake2b(as_bytes(text)); }

Bytes bytes(const std::string& text) {
  const ByteSpan span = as_bytes(text);
  return {span.begin(), span.end()};
}

RequestRow row(const std::string& name, const std::string& request) {
  return {hash_of(name), hash_of("digest of " + name), "key", 0, bytes(request)};
}

std::shared_ptr<RequestStore> open(const StoreFolder& folder) {
  auto store = open_request_store(folder.path());
  EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().message);
  return store.ok() ? *store : nullptr;
}

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

using EitherRequestStoreTest = EitherStore;
INSTANTIATE_TEST_SUITE_P(Kinds, EitherRequestStoreTest, kEitherStore, store_kind);

TEST_P(EitherRequestStoreTest, KeepsWhatItWasTold) {
  const auto store = folder.open();
  {
    const auto requests = open(folder);
    ASSERT_TRUE(
        requests
            ->write({row("a", "first"), RequestTokens{hash_of("a"), bytes("1")}, row("b", "second"),
                     RequestTokens{hash_of("a"), bytes("2")}, RequestEnd{hash_of("b"), 77},
                     RequestTokens{hash_of("none"), bytes("x")}, RequestEnd{hash_of("none"), 1}})
            .ok());
  }
  auto loaded = open(folder)->load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->dropped, 0U);
  ASSERT_EQ(loaded->rows.size(), 2U);
  const RequestRow& newest = loaded->rows[0];
  EXPECT_EQ(newest.name, hash_of("b"));
  EXPECT_EQ(newest.ended, 77);
  EXPECT_TRUE(newest.tokens.empty());
  const RequestRow& oldest = loaded->rows[1];
  EXPECT_EQ(oldest.digest, hash_of("digest of a"));
  EXPECT_EQ(oldest.owner, "key");
  EXPECT_EQ(oldest.ended, 0);
  EXPECT_EQ(oldest.request, bytes("first"));
  EXPECT_EQ(oldest.tokens, (std::vector<Bytes>{bytes("1"), bytes("2")}));
}

TEST_P(EitherRequestStoreTest, ARowReplacesOneOfItsNameWithItsTokens) {
  const auto store = folder.open();
  const auto requests = open(folder);
  ASSERT_TRUE(requests->write({row("a", "old"), RequestTokens{hash_of("a"), bytes("1")}}).ok());
  ASSERT_TRUE(requests->write({row("a", "new")}).ok());
  const auto loaded = requests->load();
  ASSERT_EQ(loaded->rows.size(), 1U);
  EXPECT_EQ(loaded->rows[0].request, bytes("new"));
  EXPECT_TRUE(loaded->rows[0].tokens.empty());
}

TEST(RequestStoreTest, TheFilesAreTheirOwnersAlone) {
  const StoreFolder folder;
  const auto store = folder.open();
  const auto requests = open(folder);
  ASSERT_TRUE(requests->write({row("a", "private")}).ok());
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    struct stat info {};
    ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U) << file.path();
  }
}

TEST(RequestStoreTest, NothingOfWhatIsDeletedRemains) {
  const StoreFolder folder;
  const auto store = folder.open();
  const auto requests = open(folder);
  const std::string secret = "this prompt is private";
  const auto found = [&] {
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      if (whole_file(file.path()).find(secret) != std::string::npos) return true;
    }
    return false;
  };
  ASSERT_TRUE(requests->write({row("a", secret)}).ok());
  EXPECT_TRUE(found()) << "or the test proves nothing";
  ASSERT_TRUE(requests->write({RequestRemoval{hash_of("a")}}).ok());
  EXPECT_FALSE(found());
  ASSERT_TRUE(requests->write({row("a", secret), row("b", secret)}).ok());
  ASSERT_TRUE(requests->clear().ok());
  EXPECT_FALSE(found());
}

TEST_P(EitherRequestStoreTest, RowsOfOtherSizesAreRemovedUnread) {
  const auto store = folder.open();
  const auto requests = open(folder);
  ASSERT_TRUE(requests->write({row("good", "one")}).ok());
  const std::string insert = "INSERT INTO requests (name, digest, owner, ended, request) VALUES (";
  const std::string large = std::to_string(limits::kKeptRequestBytes + 1);
  execute(insert + "zeroblob(1), zeroblob(32), 'k', 0, zeroblob(1))");
  execute(insert + "randomblob(32), zeroblob(0), 'k', 0, zeroblob(1))");
  execute(insert + "randomblob(32), zeroblob(32), hex(zeroblob(200)), 0, zeroblob(1))");
  execute(insert + "randomblob(32), zeroblob(32), 'k', 0, zeroblob(" + large + "))");
  execute(insert + "randomblob(32), zeroblob(32), 'k', -5, zeroblob(1))");
  execute("INSERT INTO request_tokens SELECT id, zeroblob(" +
          std::to_string(limits::kKeptTokensBytes + 1) + ") FROM requests WHERE ended = -5");
  auto loaded = requests->load();
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->dropped, 5U);
  ASSERT_EQ(loaded->rows.size(), 1U);
  EXPECT_EQ(loaded->rows[0].request, bytes("one"));
  loaded = requests->load();
  EXPECT_EQ(loaded->dropped, 0U) << "they are gone";
}

TEST_P(EitherRequestStoreTest, TheNewestWithinTheBoundsAreRead) {
  const auto store = folder.open();
  const auto requests = open(folder);
  execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
          std::to_string(limits::kKeptRequests + 10) +
          ") INSERT INTO requests (name, digest, owner, ended, request) SELECT "
          "randomblob(32), zeroblob(32), '', i, zeroblob(1) FROM n");
  auto loaded = requests->load();
  ASSERT_EQ(loaded->rows.size(), limits::kKeptRequests);
  EXPECT_EQ(loaded->dropped, 10U);
  EXPECT_EQ(loaded->rows.front().ended, static_cast<std::int64_t>(limits::kKeptRequests) + 10);
  ASSERT_TRUE(requests->clear().ok());
  execute(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 17) INSERT "
      "INTO requests (name, digest, owner, ended, request) SELECT randomblob(32), "
      "zeroblob(32), '', i, zeroblob(" +
      std::to_string(limits::kKeptRequestBytes) + ") FROM n");
  loaded = requests->load();
  EXPECT_EQ(loaded->rows.size(), limits::kKeptBytes / limits::kKeptRequestBytes);
  EXPECT_EQ(loaded->dropped, 1U);
}

// A process that is killed leaves the file and its log as they were at some moment: copies of them
// are what the next one opens. After each transaction exactly what was written until then is there.
TEST(RequestStoreTest, EveryCommitIsThereWithoutAnEnd) {
  const StoreFolder folder;
  const auto store = folder.open();
  const auto requests = open(folder);
  ASSERT_TRUE(requests->write({row("a", "first")}).ok());
  for (int written = 0; written < 20; ++written) {
    const StoreFolder crashed;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      if (file.path().extension() == ".db-shm") continue;  // memory of the one that is gone
      std::filesystem::copy(file.path(), crashed.path() + "/" + file.path().filename().string());
    }
    const auto again = crashed.open();
    auto loaded = open(crashed)->load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    ASSERT_EQ(loaded->rows.size(), 1U);
    EXPECT_EQ(loaded->rows[0].tokens.size(), static_cast<std::size_t>(written));
    ASSERT_TRUE(
        requests->write({RequestTokens{hash_of("a"), bytes(std::to_string(written))}}).ok());
  }
}

}  // namespace
}  // namespace hearth::coordinator
