#include "cli/home/own_server.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/crypto.h"
#include "base/private_file.h"

namespace hearth::cli {
namespace {

// The coordinator's machine may have moved, which a client finds out by itself nowhere.
TEST(OwnServer, AClientThatFindsNoServerIsToldHowToFindItAgain) {
  char name[] = "/tmp/hearth-own-server-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  ::setenv("HEARTH_DATA_DIR", folder.c_str(), 1);
  EXPECT_NE(no_server_step().find("hearth serve"), std::string::npos);
  const std::string json =
      R"({"role": "client", "node": "laptop", "coordinators": ["10.0.0.1:11501"], "cluster": ")" +
      SecretKey::generate().public_key().hex() + "\"}";
  ASSERT_TRUE(write_private_file(folder + "/member.json", as_bytes(json)));
  EXPECT_NE(no_server_step().find("hearth join ADDRESS:11501"), std::string::npos)
      << no_server_step();
  ::unsetenv("HEARTH_DATA_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hearth::cli
