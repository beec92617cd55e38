#include "coordinator/control/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;

// What is handed on stays open on our side until it is closed here, as gRPC would.
class ControlAcceptorTest : public ::testing::Test {
 protected:
  void open(const ControlLimits& limits) {
    auto opened = ControlAcceptor::open({"127.0.0.1", 0}, limits);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    acceptor_ = std::move(*opened);
    acceptor_->start([this](int socket) {
      const std::lock_guard lock(mutex_);
      handed_.push_back(socket);
    });
  }
  void TearDown() override {
    acceptor_.reset();
    for (const int socket : handed_) ::close(socket);
    for (const int link : links_) ::close(link);
  }

  // A connection from that address of loopback.
  int dial(const char* from = "127.0.0.1") {
    const int link = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    links_.push_back(link);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &here.sin_addr);
    EXPECT_EQ(::bind(link, reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(acceptor_->address().port);
    ::inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    EXPECT_EQ(::connect(link, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    return link;
  }
  // As the other side knows it.
  static Address own_address(int link) {
    sockaddr_in at{};
    socklen_t size = sizeof(at);
    ::getsockname(link, reinterpret_cast<sockaddr*>(&at), &size);
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
    return {text, ntohs(at.sin_port)};
  }
  template <typename Condition>
  static bool soon(const Condition& condition) {
    for (int i = 0; i < 1'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  bool held(int link) const { return acceptor_->find(own_address(link)) != nullptr; }
  std::size_t handed() const {
    const std::lock_guard lock(mutex_);
    return handed_.size();
  }
  void close_handed(std::size_t index) {
    const std::lock_guard lock(mutex_);
    ::close(handed_[index]);
    handed_.erase(handed_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  // Whether the far end has hung up, within a while.
  static bool ended(int link) {
    const timeval patience{5, 0};
    ::setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char byte = 0;
    const ssize_t got = ::recv(link, &byte, 1, 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }
  static bool open_still(int link) {
    char byte = 0;
    return ::recv(link, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  static void say(int link, std::size_t bytes) {
    const std::vector<char> text(bytes, 'x');
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t sent = ::send(link, text.data() + at, bytes - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }
  // All that was said so far: what nobody reads stays with the sender.
  void read_handed() {
    std::vector<char> bytes(100'000);
    std::this_thread::sleep_for(milliseconds(20));
    const std::lock_guard lock(mutex_);
    while (::recv(handed_.front(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
  static ControlLimits small() {
    ControlLimits limits;
    limits.strangers = {4, 2, 100, 100, 100};
    limits.stranger_time = std::chrono::seconds(60);
    limits.stranger_bytes = 20'000;
    limits.session_bytes = 60'000;
    return limits;
  }

  mutable std::mutex mutex_;
  std::vector<int> handed_;
  std::vector<int> links_;
  std::unique_ptr<ControlAcceptor> acceptor_;
};

TEST_F(ControlAcceptorTest, OfAFullTableTheOldestOfWhoHasMostGivesWay) {
  open(small());
  const int alone = dial("127.0.0.9");
  EXPECT_TRUE(soon([&] { return held(alone); }));
  const int worker = dial("127.0.0.8");
  EXPECT_TRUE(soon([&] { return held(worker); }));
  const int first = dial("127.0.0.2");
  const int second = dial("127.0.0.2");
  EXPECT_TRUE(soon([&] { return held(first) && held(second); }));
  const int third = dial("127.0.0.3");
  EXPECT_TRUE(ended(first)) << "of two from one address, though others are older";
  EXPECT_TRUE(soon([&] { return held(third); }));
  EXPECT_TRUE(open_still(alone));
  EXPECT_TRUE(open_still(worker));
  const int fourth = dial("127.0.0.4");
  EXPECT_TRUE(ended(alone)) << "all have one: the oldest";
  EXPECT_TRUE(soon([&] { return held(fourth); }));
  EXPECT_TRUE(open_still(worker));
  EXPECT_TRUE(open_still(second));
}

TEST_F(ControlAcceptorTest, WhoHoldsASessionGivesWayToNobody) {
  open(small());
  const int worker = dial();
  EXPECT_TRUE(soon([&] { return held(worker); }));
  acceptor_->find(own_address(worker))->sessions = 1;
  std::this_thread::sleep_for(milliseconds(200));  // it is looked at, and no stranger from then on
  for (int i = 0; i < 20; ++i) dial(("127.0.1." + std::to_string(i + 1)).c_str());
  EXPECT_TRUE(soon([&] { return handed() == 21; })) << "each newcomer has its turn";
  EXPECT_TRUE(open_still(worker));
  EXPECT_TRUE(held(worker));
}

TEST_F(ControlAcceptorTest, OneAddressHasItsShareAndOthersTheirs) {
  open(small());
  const int first = dial();
  const int second = dial();
  EXPECT_TRUE(soon([&] { return held(first) && held(second); }));
  EXPECT_TRUE(ended(dial()));
  const int other = dial("127.0.0.2");
  EXPECT_TRUE(soon([&] { return held(other); }));
  EXPECT_TRUE(soon([&] { return handed() == 3; }));
  close_handed(0);
  EXPECT_TRUE(ended(first));
  EXPECT_TRUE(soon([&] { return !held(first); }));
  const int again = dial();
  EXPECT_TRUE(soon([&] { return held(again); })) << "what has ended makes room";
}

TEST_F(ControlAcceptorTest, StrangersAreLimitedInAllAndSessionsAreNone) {
  open(small());
  std::vector<int> all;
  for (const char* from : {"127.0.0.2", "127.0.0.3"}) {
    for (int i = 0; i < 2; ++i) all.push_back(dial(from));
  }
  for (const int link : all) EXPECT_TRUE(soon([&] { return held(link); }));
  const int fifth = dial("127.0.0.4");
  EXPECT_TRUE(soon([&] { return held(fifth); }));
  EXPECT_TRUE(ended(all[0])) << "never more than four";
  ++acceptor_->find(own_address(all[1]))->sessions;
  std::this_thread::sleep_for(milliseconds(200));
  const int later = dial("127.0.0.5");
  EXPECT_TRUE(soon([&] { return held(later); }));
  for (const int link : {all[1], all[2], all[3], fifth}) EXPECT_TRUE(open_still(link));
}

TEST_F(ControlAcceptorTest, AStrangerHasItsTimeAndASessionAny) {
  ControlLimits limits = small();
  limits.stranger_time = milliseconds(300);
  open(limits);
  const int stranger = dial();
  const int worker = dial();
  ASSERT_TRUE(soon([&] { return held(stranger) && held(worker); }));
  const auto connection = acceptor_->find(own_address(worker));
  ++connection->sessions;
  EXPECT_TRUE(ended(stranger));
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_TRUE(open_still(worker));
  --connection->sessions;
  EXPECT_TRUE(ended(worker)) << "after its session it is a stranger's again";
}

TEST_F(ControlAcceptorTest, AStrangerSaysLittle) {
  open(small());
  const int brief = dial();
  const int talker = dial();
  ASSERT_TRUE(soon([&] { return held(brief) && held(talker); }));
  say(brief, 10'000);
  say(talker, 30'000);
  EXPECT_TRUE(ended(talker));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(open_still(brief));
}

TEST_F(ControlAcceptorTest, ASessionSaysMuchInMessagesAndLittleBesides) {
  ControlLimits limits = small();
  limits.session_bytes_per_second = 0;
  open(limits);
  const int worker = dial();
  ASSERT_TRUE(soon([&] { return held(worker); }));
  const auto connection = acceptor_->find(own_address(worker));
  ++connection->sessions;
  for (int i = 0; i < 10; ++i) {
    say(worker, 50'000);
    read_handed();
    connection->messages += 49'500;
    std::this_thread::sleep_for(milliseconds(150));
    EXPECT_TRUE(open_still(worker)) << i;
  }
  say(worker, 70'000);
  EXPECT_TRUE(ended(worker));
}

TEST_F(ControlAcceptorTest, WhatASessionSaysBesidesIsForgottenInTime) {
  ControlLimits limits = small();
  limits.session_bytes_per_second = 100'000;
  open(limits);
  const int worker = dial();
  ASSERT_TRUE(soon([&] { return held(worker); }));
  ++acceptor_->find(own_address(worker))->sessions;
  for (int i = 0; i < 3; ++i) {
    say(worker, 50'000);
    read_handed();
    std::this_thread::sleep_for(milliseconds(700));
    EXPECT_TRUE(open_still(worker)) << i;
  }
}

// gRPC may close a connection, and its descriptor's number be another's by the next look.
TEST_F(ControlAcceptorTest, ADescriptorThatIsAnothersIsLeftAlone) {
  ControlLimits limits = small();
  limits.stranger_time = milliseconds(200);
  open(limits);
  const int stranger = dial();
  ASSERT_TRUE(soon([&] { return handed() == 1; }));
  int pair[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  ASSERT_EQ(::dup2(pair[0], handed_.front()), handed_.front());
  ::close(pair[0]);
  EXPECT_TRUE(ended(stranger));
  EXPECT_TRUE(soon([&] { return !held(stranger); }));
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_TRUE(open_still(pair[1]));
  ::close(pair[1]);
}

TEST_F(ControlAcceptorTest, AnAddressThatIsTakenIsAnError) {
  open(small());
  const auto second = ControlAcceptor::open(acceptor_->address(), small());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  acceptor_->stop();
  EXPECT_TRUE(ControlAcceptor::open(acceptor_->address(), small()).ok());
}

TEST_F(ControlAcceptorTest, SpeaksIpv6) {
  const int probe = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool there =
      ::bind(probe, reinterpret_cast<const sockaddr*>(&loopback), sizeof(loopback)) == 0;
  ::close(probe);
  if (!there) GTEST_SKIP() << "this machine has no ::1";
  const auto opened = ControlAcceptor::open({"::1", 0}, small());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_NE((*opened)->address().port, 0);
}

}  // namespace
}  // namespace hearth::coordinator
