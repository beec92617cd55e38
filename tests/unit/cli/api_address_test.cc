#include "cli/api_address.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(ApiAddress, ReadsWhatUsersWrite) {
  for (const auto& [text, base] : {std::pair{"127.0.0.1", "http://127.0.0.1:11500"},
                                   {"localhost", "http://127.0.0.1:11500"},
                                   {"::1", "http://[::1]:11500"},
                                   {"[::1]:80", "http://[::1]:80"},
                                   {"127.0.0.1:9", "http://127.0.0.1:9"},
                                   {"http://localhost:7", "http://127.0.0.1:7"},
                                   {"http://127.0.0.1:7/", "http://127.0.0.1:7"},
                                   {"http://127.0.0.1:7/v1", "http://127.0.0.1:7"},
                                   {"http://127.0.0.1:7/v1/", "http://127.0.0.1:7"},
                                   {"127.0.0.1:0", "http://127.0.0.1:0"}}) {
    const auto address = parse_api_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(api_base(*address), base) << text;
  }
}

TEST(ApiAddress, RefusesOtherMachinesAndOtherWords) {
  for (const char* text :
       {"", "::", "192.0.2.1:80", "http://127.0.0.1.example:80", "https://127.0.0.1", "127.0.0.2",
        "127.0.0.1@evil", "localhost.evil:80", "http://", "[::1]8", "[::2]:80"}) {
    const auto address = parse_api_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.error().message.find("loopback"), std::string::npos) << text;
  }
  for (const char* text :
       {"127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:8x", "127.0.0.1:80/other"}) {
    const auto address = parse_api_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.error().message.find("0 to 65535"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hearth::cli
