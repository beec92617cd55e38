// What a router may answer to NAT-PMP: it is a socket of this test, at a loopback address of its
// own.
#include "cli/worker/outside_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.h"

namespace hearth::cli {
namespace {

constexpr std::uint16_t kNatPmpPort = 5351;  // RFC 6886
constexpr std::uint16_t kInside = 4000;

// Answers every request with `answer` of it; empty: not at all.
class Router {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  explicit Router(Answer answer)
      : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    const auto process = static_cast<unsigned>(::getpid());
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(kNatPmpPort);
    for (unsigned i = 0; i < 64 && !bound_; ++i) {  // another test may have an address
      const unsigned number = process + i;
      address_ = "127." + std::to_string(1 + number / 62'500 % 200) + "." +
                 std::to_string(1 + number / 250 % 250) + "." + std::to_string(1 + number % 250);
      inet_pton(AF_INET, address_.c_str(), &own.sin_addr);
      bound_ = ::bind(*socket_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0;
    }
    EXPECT_TRUE(bound_);
    thread_ = std::thread([this] { serve(); });
  }
  ~Router() {
    ::shutdown(*socket_, SHUT_RDWR);
    thread_.join();
  }
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  const std::string& address() const { return address_; }

 private:
  void serve() {
    for (;;) {
      std::string request(64, 0);
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t got = ::recvfrom(*socket_, request.data(), request.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (got <= 0) return;  // shut down
      request.resize(static_cast<std::size_t>(got));
      const std::string answer = answer_(request);
      if (answer.empty()) continue;
      ::sendto(*socket_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }
  const Answer answer_;
  const Descriptor socket_;
  bool bound_ = false;
  std::string address_;
  std::thread thread_;
};

std::string number_of(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> 8 * i);
  return text;
}

std::string mapped(std::uint16_t inside, std::uint16_t outside, std::uint32_t seconds,
                   std::uint16_t result = 0) {
  return number_of(0, 1) + number_of(130, 1) + number_of(result, 2) + number_of(9, 4) +
         number_of(inside, 2) + number_of(outside, 2) + number_of(seconds, 4);
}

TEST(OutsidePortTest, TakesThePortThatTheRouterGives) {
  std::string asked;
  Router router([&](const std::string& request) {
    asked = request;
    return mapped(kInside, 4711, 900);
  });
  const auto got = ask_router(kInside, router.address());
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->port, 4711);
  EXPECT_EQ(got->seconds, 900U);
  EXPECT_EQ(got->protocol, "NAT-PMP");
  ASSERT_EQ(asked.size(), 12U);
  EXPECT_EQ(asked[1], 2) << "TCP";
  EXPECT_EQ(asked.substr(4, 2), number_of(kInside, 2));
}

TEST(OutsidePortTest, AnAnswerThatGivesNoPortIsARefusal) {
  const std::vector<std::string> bad = {
      mapped(kInside, 4711, 3600, 2),   // not authorised
      mapped(kInside, 0, 3600),         // port 0
      mapped(kInside, 4711, 0),         // ended at once
      mapped(kInside + 1, 4711, 3600),  // another port's
      number_of(0x01820000, 4),         // another version
      std::string(16, '\xFF'),
  };
  for (const std::string& answer : bad) {
    Router router([&](const std::string&) { return answer; });
    const auto got = ask_router(kInside, router.address());
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, ErrorCode::kUnavailable) << got.error().message;
  }
}

TEST(OutsidePortTest, NoLongerTimeIsTakenThanAskedFor) {
  Router router([&](const std::string&) { return mapped(kInside, 4711, ~0U); });
  const auto got = ask_router(kInside, router.address());
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->seconds, 1200U);
}

TEST(OutsidePortTest, ASilentRouterIsGivenUp) {
  Router router([](const std::string&) { return std::string(); });
  const auto got = ask_router(kInside, router.address());
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(ask_router(kInside, "desk").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace hearth::cli
