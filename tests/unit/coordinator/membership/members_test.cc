#include "coordinator/membership/members.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator {
namespace {

struct MembersTest : ::testing::Test {
  StoreFolder folder;
  std::shared_ptr<Store> store = folder.open();
  const WaitingNode attic{SecretKey::generate().public_key(), "attic", "10.0.0.9", 100, 100};
};

TEST_F(MembersTest, WhoAsksIsAdmittedAndThenAsksNoMore) {
  ASSERT_TRUE(store->put_waiting(attic).ok());
  EXPECT_EQ(nodes_that_ask(*store, 100 + limits::kWaitingSeconds)->size(), 1u);
  EXPECT_EQ(nodes_that_ask(*store, 101 + limits::kWaitingSeconds)->size(), 0u);
  EXPECT_FALSE(approve(*store, attic, {Role::kClient, "", true}, 110).ok());
  EXPECT_FALSE(approve(*store, attic, {Role::kWorker, "\n", false}, 110).ok());
  ASSERT_TRUE(approve(*store, attic, {Role::kWorker, "ann", true}, 110).ok());
  const auto node = *store->find_node(attic.key);
  ASSERT_TRUE(node);
  EXPECT_EQ(node->owner, "ann");
  EXPECT_TRUE(node->newcomer);
  EXPECT_EQ(node->enrolled, 110);
  EXPECT_EQ(nodes_that_ask(*store, 110)->size(), 0u);
}

TEST_F(MembersTest, OnlyAMemberIsRemoved) {
  EXPECT_EQ(remove_member(*store, "attic").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(approve(*store, attic, {}, 110).ok());
  EXPECT_EQ(*remove_member(*store, "attic"), attic.key);
  EXPECT_TRUE((*store->find_node(attic.key))->revoked);
  EXPECT_EQ(remove_member(*store, "attic").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace hearth::coordinator
