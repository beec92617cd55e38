#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/private_file.h"
#include "cli/home/cluster_file.h"
#include "cli/home/server_file.h"
#include "cli/watch/watch.h"
#include "tests/unit/coordinator/client/web_server.h"

namespace hearth::cli {
namespace {

// A server that asks for a key, whose folder gets one while somebody waits for it.
TEST(Status, WaitingFindsTheKeyOfAServerThatIsStillStarting) {
  const std::string folder = "/tmp/hearth-status-" + std::to_string(getpid());
  setenv("HEARTH_DATA_DIR", folder.c_str(), 1);
  client::WebServer server([&](const std::string& head) {
    if (head.find("Bearer hk1.a.b\r\n") == std::string::npos) {
      EXPECT_TRUE(write_private_file(admin_key_file(folder), as_bytes("hk1.a.b\n")));
      return client::reply("401 Unauthorized", "", R"({"error":{"message":"no key"}})", head);
    }
    return client::reply("200 OK", "",
                         R"({"model":{"id":"m","layers":1,"file_bytes":1},"ready":true,)"
                         R"("pipelines":[],"nodes":[]})",
                         head);
  });
  const auto file = ServerFile::lock(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ServerInfo info;
  info.api = server.address();
  info.control = "127.0.0.1:1";
  info.pid = getpid();
  ASSERT_TRUE((*file)->write(info).ok());
  StatusOptions options;
  options.wait_seconds = 60;
  const auto code = run_status(options);
  ASSERT_TRUE(code.ok()) << code.error().message;
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(server.heads().size(), 2U);
  options.host = "127.0.0.1:1";  // a key is not sent there, and a refusal is final
  options.api_base = server.address();
  options.api_key = "hk1.c.d";
  const auto refused = run_status(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  unsetenv("HEARTH_DATA_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hearth::cli
