#include "cli/serve/standby.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

using coordinator::LeasePeer;

TEST(StandbyTest, ALeaderOnLoopbackIsForItsOwnMachine) {
  const LeasePeer self{"den, process 7", "127.0.0.1:2", ""};
  const LeasePeer near{"den, process 8", "127.0.0.1:1", ""};
  const LeasePeer far{"attic, process 8", "127.0.0.1:1", ""};
  const LeasePeer open{"attic, process 8", "10.0.0.2:1", ""};
  EXPECT_EQ(way_to_leader(near, self, "127.0.0.1"), "127.0.0.1:1");
  EXPECT_EQ(way_to_leader(near, self, "0.0.0.0"), std::nullopt)
      << "other machines would use an API that asks for no key";
  EXPECT_EQ(way_to_leader(far, self, "127.0.0.1"), std::nullopt);
  EXPECT_EQ(way_to_leader(open, self, "0.0.0.0"), "10.0.0.2:1");
  EXPECT_EQ(way_to_leader({}, self, "127.0.0.1"), std::nullopt) << "none has led yet";
}

TEST(StandbyTest, TheAnswerNamesTheLeader) {
  const std::string answer = standby_answer({"den\", process 7", "10.0.0.1:1", ""}, "it is away");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(answer.find(R"("leader":"den\", process 7")"), std::string::npos) << answer;
  const std::size_t head = answer.find("\r\n\r\n") + 4;
  EXPECT_NE(answer.find("Content-Length: " + std::to_string(answer.size() - head) + "\r\n"),
            std::string::npos);
}

}  // namespace
}  // namespace hearth::cli
