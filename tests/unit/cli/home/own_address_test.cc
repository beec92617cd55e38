#include "cli/home/own_address.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(OwnAddress, IsTheOneThatThePeerWouldSee) {
  const auto own = own_host_towards({"127.0.0.1", 9});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(*own, "127.0.0.1");
  const auto far = own_host_towards({"255.255.255.255", 9});
  EXPECT_FALSE(far) << "a broadcast is no way to a peer";
}

TEST(OwnAddress, OfTheMachineIsNumericAndBeyondLoopback) {
  const auto own = own_host();
  if (!own.ok()) {
    EXPECT_EQ(own.error().code, ErrorCode::kNotFound) << "a machine without a network";
    return;
  }
  EXPECT_TRUE(parse_address(Address{*own, 1}.text()));
  EXPECT_FALSE(parse_loopback_address(Address{*own, 1}.text()));
}

TEST(AddressWatchTest, AnAddressCountsOnceItHasStayed) {
  AddressWatch watch;
  TimePoint now{};
  const auto later = [&](std::chrono::seconds time, const std::string& other) {
    now += time;
    return watch.has_moved(now, other);
  };
  using std::chrono::seconds;
  EXPECT_FALSE(later(seconds(60), ""));
  EXPECT_FALSE(later(seconds(1), "10.0.0.2"));
  EXPECT_FALSE(later(seconds(9), "10.0.0.2"));
  EXPECT_FALSE(later(seconds(1), "")) << "the old one is back";
  EXPECT_FALSE(later(seconds(1), "10.0.0.2"));
  EXPECT_FALSE(later(seconds(9), "10.0.0.3"));
  EXPECT_FALSE(later(seconds(9), "10.0.0.3"));
  EXPECT_TRUE(later(seconds(1), "10.0.0.3"));
  EXPECT_FALSE(later(seconds(60), "10.0.0.3")) << "it was told";
  EXPECT_FALSE(later(seconds(1), ""));
  EXPECT_FALSE(later(seconds(1), "10.0.0.3"));
  EXPECT_TRUE(later(seconds(10), "10.0.0.3")) << "it was lost once more";
}

TEST(HostName, IsNeverEmpty) { EXPECT_FALSE(host_name().empty()); }

}  // namespace
}  // namespace hearth::cli
