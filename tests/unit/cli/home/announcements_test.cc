#include "cli/home/announcements.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth::cli {
namespace {

struct AnnouncementsTest : ::testing::Test {
  const PublicKey key = SecretKey::generate().public_key();

  std::string line(const std::string& name, const std::string& texts) const {
    return "=;eth0;IPv4;" + name + ";_hearth._tcp;local;ma.local;10.0.0.1;11501;" + texts + "\n";
  }
  std::string texts(const std::string& at = "10.0.0.1:11501") const {
    return "\"at=" + at + "\" \"key=" + key.hex() + "\"";
  }
};

TEST_F(AnnouncementsTest, ReadsWhatAvahiPrints) {
  const std::string text = "+;eth0;IPv4;home;_hearth._tcp;local\n" +
                           line(R"(home\059\032a\032\034b\034)", texts()) +
                           line(R"(home\059\032a\032\034b\034)", texts()) + "garbage\n" +
                           line("six", "\"key=" + key.hex() + "\" \"at=[::1]:7\"");
  const auto found = parse_announcements(text);
  ASSERT_EQ(found.size(), 2u) << "the same on two interfaces is one";
  EXPECT_EQ(found[0], (FoundCluster{"home; a \"b\"", "10.0.0.1:11501", key}));
  EXPECT_EQ(found[1], (FoundCluster{"six", "[::1]:7", key}));
}

TEST_F(AnnouncementsTest, WhatStrangersSayIsCheckedAndBounded) {
  for (const std::string& bad :
       {line("home", ""), line("home", "\"at=10.0.0.1:1\""), line("", texts()),
        line(R"(a\010b)", texts()), line(R"(a\0270m)", texts()), line("home", texts("nowhere")),
        line("home", texts("host.local:1")), line("home", "\"at=1.1.1.1:1\" \"key=00\""),
        line("home", "\"at=1.1.1.1:1\" \"key=" + std::string(64, '0') + "\""),
        std::string("=;;;;;;;;;"), std::string("="), std::string(100'000, ';')}) {
    EXPECT_TRUE(parse_announcements(bad).empty()) << bad.substr(0, 200);
  }
  std::string many;
  for (int i = 0; i < 1000; ++i) many += line("c" + std::to_string(i), texts());
  EXPECT_EQ(parse_announcements(many).size(), limits::kFoundClusters);
}

}  // namespace
}  // namespace hearth::cli
