#include "coordinator/client/api_address.h"

#include <gtest/gtest.h>

namespace hearth::client {
namespace {

TEST(ApiAddress, ReadsWhatUsersWrite) {
  for (const auto& [text, base] : {std::pair{"127.0.0.1", "http://127.0.0.1:11500"},
                                   {"localhost", "http://localhost:11500"},
                                   {"gaming_pc", "http://gaming_pc:11500"},
                                   {"_x.local:7", "http://_x.local:7"},
                                   {"fe80::1%eth0", "http://[fe80::1%25eth0]:11500"},
                                   {"[fe80::1%wlp3s0.2]:80", "http://[fe80::1%25wlp3s0.2]:80"},
                                   {"::1", "http://[::1]:11500"},
                                   {"[::1]:80", "http://[::1]:80"},
                                   {"127.0.0.1:9", "http://127.0.0.1:9"},
                                   {"http://localhost:7", "http://localhost:7"},
                                   {"http://127.0.0.1:7/", "http://127.0.0.1:7"},
                                   {"http://127.0.0.1:7/v1", "http://127.0.0.1:7"},
                                   {"http://127.0.0.1:7/v1/", "http://127.0.0.1:7"},
                                   {"127.0.0.1:0", "http://127.0.0.1:0"},
                                   {"192.0.2.1:80", "http://192.0.2.1:80"},
                                   {"0.0.0.0", "http://0.0.0.0:11500"},
                                   {"::", "http://[::]:11500"},
                                   {"[fd00::1]:7", "http://[fd00::1]:7"},
                                   {"den", "http://den:11500"},
                                   {"http://den.local:7/v1", "http://den.local:7"}}) {
    const auto address = parse_api_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(api_base(*address), base) << text;
  }
}

TEST(ApiAddress, RefusesWhatIsNoHost) {
  for (const char* text : {"",
                           ":80",
                           "https://127.0.0.1",
                           "127.1",
                           "127.0.0.256",
                           "1",
                           "127.0.0.1@evil",
                           "den..local",
                           "-den",
                           ".den",
                           "http://",
                           "http://user@den",
                           "[::1",
                           "[den]:80",
                           "::g",
                           "a b",
                           "den\n",
                           "den\r\nX: y",
                           "fe80::1%",
                           "fe80::1%a/b",
                           "fe80::1%eth0:80",
                           "127.0.0.1%lo",
                           "fe80::1%interface-of-many-letters"}) {
    const auto address = parse_api_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.error().message.find("e.g. 127.0.0.1:11500"), std::string::npos) << text;
  }
  for (const char* text : {"127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:8x",
                           "127.0.0.1:80/other", "[::1]8"}) {
    const auto address = parse_api_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.error().message.find("0 to 65535"), std::string::npos) << text;
  }
}

TEST(ApiAddress, OnlyAHostOfThisMachineIsItsOwn) {
  for (const char* host : {"127.0.0.1", "127.0.0.77"}) EXPECT_TRUE(is_own_host(host)) << host;
  for (const char* host : {"192.0.2.1", "2001:db8::1", "den", "localhost", ""}) {
    EXPECT_FALSE(is_own_host(host)) << host;
  }
}

TEST(ApiAddress, KnowsWhatOthersCanReach) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_TRUE(is_loopback_address(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "127.evil.example", "localhost", ""}) {
    EXPECT_FALSE(is_loopback_address(host)) << host;
  }
  EXPECT_EQ(dialled_host("0.0.0.0"), "127.0.0.1");
  EXPECT_EQ(dialled_host("::"), "::1");
  EXPECT_EQ(dialled_host("192.0.2.1"), "192.0.2.1");
}

}  // namespace
}  // namespace hearth::client
