#include "base/peer_host.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(PeerOfHost, IsAnAddressOrAHousehold) {
  EXPECT_EQ(peer_of_host("10.0.0.1"), "10.0.0.1");
  EXPECT_NE(peer_of_host("10.0.0.1"), peer_of_host("10.0.0.2"));
  EXPECT_EQ(peer_of_host("2001:db8::1"), peer_of_host("2001:db8::ffff:1"));
  EXPECT_NE(peer_of_host("2001:db8::1"), peer_of_host("2001:db8:0:1::1"));
  EXPECT_NE(peer_of_host("::ffff:10.0.0.1"), peer_of_host("::ffff:10.0.0.2"));
  EXPECT_EQ(peer_of_host("::ffff:10.0.0.1"), "10.0.0.1") << "one machine, by either socket";
  EXPECT_EQ(peer_of_host("fe80::1%eth0"), peer_of_host("fe80::2%eth1"));
}

}  // namespace
}  // namespace hearth
