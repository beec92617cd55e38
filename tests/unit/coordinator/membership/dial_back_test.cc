#include "coordinator/membership/dial_back.h"

#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>

namespace hearth::cli {
namespace {

using boost::asio::ip::tcp;

struct DialBackTest : ::testing::Test {
  boost::asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  DialBack dial{io};

  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  }
  coordinator::DialOutcome outcome(const std::string& at) {
    for (int i = 0; i < 100; ++i) {
      if (const auto known = dial.ask(at)) return *known;
      io.restart();
      io.run_for(std::chrono::milliseconds(50));
    }
    return {"never", 0.0};
  }
};

TEST_F(DialBackTest, SaysWhatCameOfIt) {
  EXPECT_FALSE(dial.ask(address())) << "not known at once";
  EXPECT_EQ(outcome(address()).error, "");
  const std::string there = address();
  acceptor.close();
  EXPECT_EQ(outcome(there).error, "") << "remembered for a while";
  EXPECT_NE(outcome("127.0.0.1:1").error.find("refused"), std::string::npos);
  EXPECT_FALSE(outcome("nowhere").error.empty());
}

}  // namespace
}  // namespace hearth::cli
