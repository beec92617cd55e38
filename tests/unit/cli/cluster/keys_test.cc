#include <gtest/gtest.h>

#include <filesystem>

#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/store/store.h"

namespace hearth::cli {
namespace {

class KeysTest : public ::testing::Test {
 protected:
  KeysTest() {
    char name[] = "/tmp/hearth-keys-XXXXXX";
    folder_ = ::mkdtemp(name);
    InitOptions init;
    init.name = "home";
    init.host = "127.0.0.1";
    init.data_dir = folder_;
    init.json = true;
    EXPECT_EQ(run_init(init).value(), 0);
  }
  ~KeysTest() override { std::filesystem::remove_all(folder_); }

  KeyOptions named(const std::string& name) const {
    KeyOptions options;
    options.name = name;
    options.data_dir = folder_;
    return options;
  }
  // The key of admin.key, if the server takes it.
  Result<coordinator::ApiKey> own_key() const {
    TRY(const Bytes file, read_admin_key(folder_));
    TRY(const auto store, open_cluster_store(folder_));
    const std::string_view text = as_text(file);
    return coordinator::check_key(*store, text.substr(0, text.find('\n')));
  }
  std::string folder_;
};

TEST_F(KeysTest, RevokingTheKeyOfThisMachinesCommandsMakesThemAnother) {
  const auto before = own_key();
  ASSERT_TRUE(before.ok()) << before.error().message;
  for (const std::string& name : {std::string("admin"), before->id}) {
    const auto old = own_key();
    EXPECT_EQ(run_key_revoke(named(name == "admin" ? name : old->id)).value(), 0);
    const auto now = own_key();
    ASSERT_TRUE(now.ok()) << now.error().message;
    EXPECT_TRUE(now->admin);
    EXPECT_NE(now->id, old->id);
  }
}

TEST_F(KeysTest, AnotherKeyLeavesItAlone) {
  ASSERT_EQ(run_key_create(named("laptop")).value(), 0);
  const auto before = own_key();
  EXPECT_EQ(run_key_revoke(named("laptop")).value(), 0);
  EXPECT_EQ(own_key()->id, before->id);
}

TEST_F(KeysTest, ALostAdminKeyIsReplacedByTheNextOne) {
  std::filesystem::remove(admin_key_file(folder_));
  KeyOptions options = named("second");
  ASSERT_EQ(run_key_create(options).value(), 0);
  EXPECT_FALSE(own_key().ok()) << "it is no admin key";
  options = named("third");
  options.admin = true;
  ASSERT_EQ(run_key_create(options).value(), 0);
  EXPECT_EQ(own_key()->name, "third");
}

TEST_F(KeysTest, AClusterIsOnlyAtAnAddressOfThisMachine) {
  InitOptions init;
  init.name = "elsewhere";
  init.host = "192.0.2.1";
  init.data_dir = folder_ + "/other";
  const auto refused = run_init(init);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("192.0.2.1, which this machine does not have"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(init.data_dir + "/cluster.key")) << "nothing is made";
}

TEST(JoinTarget, OfAPastedTokenTheTokenIsTaken) {
  for (const char* pasted :
       {"hh1.ab.c@10.0.0.1:11501", " hh1.ab.c@10.0.0.1:11501\n", "\"hh1.ab.c@10.0.0.1:11501\"",
        "hearth join hh1.ab.c@10.0.0.1:11501", "'hearth join hh1.ab.c@10.0.0.1:11501'",
        "hh1.ab. c@10.0.\n0.1:11501"}) {
    EXPECT_EQ(join_target(pasted), "hh1.ab.c@10.0.0.1:11501") << pasted;
  }
  EXPECT_EQ(join_target("hearth join my home"), "my home");
  EXPECT_EQ(join_target("home"), "home");
  EXPECT_EQ(join_target(""), "");
}

}  // namespace
}  // namespace hearth::cli
