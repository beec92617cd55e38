#include "cli/joined_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/private_file.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::cli {
namespace {

using coordinator::NodeRecord;

struct JoinedFileTest : ::testing::Test {
  NodeRecord admit(const std::string& name, const std::string& owner, bool newcomer) {
    const NodeRecord node{
        SecretKey::generate().public_key(), name, Role::kWorker, 1, false, owner, newcomer};
    EXPECT_TRUE(store->admit({node, "", {}}).ok());
    return node;
  }
  Status write(const std::string& text) {
    return write_private_file(folder.path() + "/joined.json", as_bytes(text));
  }
  coordinator::StoreFolder folder;
  std::shared_ptr<coordinator::Store> store = folder.open();
};

TEST_F(JoinedFileTest, HasWhatTheStoreSaysOfWhoIsIn) {
  EXPECT_TRUE(read_joined_file(folder.path()).value().empty()) << "there is no file yet";
  const NodeRecord owned = admit("attic \"1\"", "zo\xC3\xAB", false);
  const NodeRecord fresh = admit("cellar", "", true);
  const NodeRecord gone = admit("gone", "ann", true);
  ASSERT_TRUE(store->revoke_node(gone.key).value());
  ASSERT_TRUE(write_joined_file(folder.path(), *store).ok());
  const auto read = read_joined_file(folder.path()).value();
  ASSERT_EQ(read.size(), 2u);
  for (std::size_t i = 0; const NodeRecord& wanted : {owned, fresh}) {
    EXPECT_EQ(read[i].key, wanted.key);
    EXPECT_EQ(read[i].name, wanted.name);
    EXPECT_EQ(read[i].owner, wanted.owner);
    EXPECT_EQ(read[i].newcomer, wanted.newcomer);
    ++i;
  }
}

TEST_F(JoinedFileTest, AFileOfAnythingElseIsNamed) {
  for (const char* text : {"", "{", "7", R"(["a"])", R"([{"name":"a"}])",
                           R"([{"name":"a","key":"xy","owner":"","newcomer":false}])",
                           R"([{"name":"a","key":"00","owner":"","newcomer":false}])"}) {
    ASSERT_TRUE(write(text).ok());
    const auto read = read_joined_file(folder.path());
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidInput) << text;
  }
}

}  // namespace
}  // namespace hearth::cli
