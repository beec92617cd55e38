#include "proto/address.h"

#include <gtest/gtest.h>

#include <string_view>

namespace hearth {
namespace {

TEST(Address, PrivateAddressesAreKnown) {
  for (const char* host :
       {"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.2", "100.64.0.1",
        "100.127.255.255", "169.254.1.1", "fd00::1", "fc00::1", "fe80::1"}) {
    EXPECT_TRUE(is_private(host)) << host;
  }
  for (const char* host : {"9.255.255.255", "11.0.0.0", "172.15.0.1", "172.32.0.1", "192.167.1.1",
                           "192.169.0.1", "100.63.255.255", "100.128.0.0", "203.0.113.1",
                           "127.0.0.1", "2001:db8::1", "::1", "fec0::1", "", "den"}) {
    EXPECT_FALSE(is_private(host)) << host;
  }
}

TEST(Address, NothingHidesBehindAZeroByte) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(parse_address("192.168.1.2\0:80"sv));
  EXPECT_FALSE(parse_address("192.168.1.2\0garbage:80"sv));
  EXPECT_FALSE(parse_address("[::1\0]:80"sv));
}

TEST(Address, ReadsHostAndPort) {
  EXPECT_EQ(*parse_address("127.0.0.1:80"), (Address{"127.0.0.1", 80}));
  EXPECT_EQ(*parse_address("localhost:0"), (Address{"127.0.0.1", 0}));
  EXPECT_EQ(*parse_address("[::1]:65535"), (Address{"::1", 65535}));
  EXPECT_EQ(*parse_address("192.168.1.7:9"), (Address{"192.168.1.7", 9}));
}

TEST(Address, WritesWhatItReads) {
  for (const char* text : {"127.0.0.1:80", "[::1]:443", "[fe80::1]:1"}) {
    EXPECT_EQ(parse_address(text)->text(), text);
  }
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:1x", "127.0.0.1: 1", "example.org:80", "::1:80", "[::1]",
                           "[]:1", "[127.0.0.1]:1", "1.2.3:4", "0x7f.0.0.1:1", "127.0.0.1\n:80"}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
  EXPECT_FALSE(parse_address(std::string(10'000, 'a') + ":1"));
}

TEST(Address, LoopbackOnly) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(parse_loopback_address(text)) << text;
  }
  for (const char* text : {"0.0.0.0:1", "192.168.1.7:1", "[::]:1", "[::ffff:127.0.0.1]:1",
                           "128.0.0.1:1", "[fe80::1]:1"}) {
    const Result<Address> refused = parse_loopback_address(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_NE(refused.error().message.find("this machine alone"), std::string::npos);
  }
}

TEST(Address, APeersOwnIsOnTheMachineThatSpeaks) {
  const auto fits = [](const char* own, const char* speaker) {
    return check_own_host(parse_address(own).value(), speaker).ok();
  };
  EXPECT_TRUE(fits("10.0.0.1:1", "10.0.0.1"));
  EXPECT_TRUE(fits("10.0.0.1:1", "::ffff:10.0.0.1"));
  EXPECT_TRUE(fits("[2001:db8::5]:1", "2001:db8::6")) << "addresses of one machine change";
  EXPECT_TRUE(fits("127.0.0.2:1", "127.0.0.1"));
  EXPECT_TRUE(fits("[::1]:1", "127.0.0.1"));
  EXPECT_TRUE(fits("10.0.0.1:1", "")) << "it is not known where that is";
  EXPECT_FALSE(fits("10.0.0.2:1", "10.0.0.1"));
  EXPECT_FALSE(fits("127.0.0.1:1", "10.0.0.1"));
  EXPECT_FALSE(fits("[::ffff:127.0.0.1]:1", "10.0.0.1"));
  EXPECT_FALSE(fits("10.0.0.1:1", "127.0.0.1"));
  EXPECT_FALSE(fits("[2001:db8:0:1::5]:1", "2001:db8::6"));
  EXPECT_FALSE(fits("0.0.0.0:1", "10.0.0.1"));
  const Status refused = check_own_host(parse_address("10.0.0.2:7").value(), "10.0.0.1");
  EXPECT_NE(refused.error().message.find("--listen 10.0.0.1:7"), std::string::npos);
}

TEST(Address, ErrorsCarryNoControlCharacters) {
  const Result<Address> refused = parse_address("\x1b[2Jevil\n:1");
  ASSERT_FALSE(refused);
  for (const char c : refused.error().message) EXPECT_TRUE(c >= ' ' && c <= '~');
}

}  // namespace
}  // namespace hearth
