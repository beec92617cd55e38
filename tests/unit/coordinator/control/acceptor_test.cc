#include "coordinator/control/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/link/control_links.h"
#include "proto/link/tickets.h"
#include "tests/unit/node/pipeline/owner.h"

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;

// What is handed on stays open on our side until it is closed here, as gRPC would.
class ControlAcceptorTest : public ::testing::Test {
 protected:
  ControlAcceptor::Hands hands() {
    return {[this](int socket) { keep(sessions_, socket); },
            [this](int socket) { keep(calls_, socket); },
            [this](int socket) { keep(members_, socket); },
            [this](int socket) { keep(tickets_, socket); }};
  }
  void open(const ControlLimits& limits) {
    owner_.call([&] {
      auto opened = ControlAcceptor::open(owner_.io(), {"127.0.0.1", 0}, limits, hands());
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      acceptor_ = std::move(*opened);
    });
  }
  void TearDown() override {
    owner_.call([&] { acceptor_.reset(); });
    for (const int socket : sessions_) ::close(socket);
    for (const int socket : calls_) ::close(socket);
    for (const int socket : members_) ::close(socket);
    for (const int socket : tickets_) ::close(socket);
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
  // The same, and it has been handed to gRPC since.
  int call(const char* from = "127.0.0.1") {
    const std::size_t before = size_of(calls_);
    const int link = dial(from);
    say(link, 1);
    EXPECT_TRUE(soon([&] { return size_of(calls_) > before; })) << from;
    return link;
  }
  int session(const char* from = "127.0.0.1") {
    const std::size_t before = size_of(sessions_);
    const int link = dial(from);
    EXPECT_EQ(::send(link, &kControlByte, 1, MSG_NOSIGNAL), 1);
    EXPECT_TRUE(soon([&] { return size_of(sessions_) > before; })) << from;
    return link;
  }
  template <typename Condition>
  static bool soon(const Condition& condition) {
    for (int i = 0; i < 4'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  std::size_t size_of(const std::vector<int>& sockets) const {
    const std::lock_guard lock(mutex_);
    return sockets.size();
  }
  int last_call() const {
    const std::lock_guard lock(mutex_);
    return calls_.back();
  }
  // Whether the far end has hung up, within a while.
  static bool ended(int link) {
    const timeval patience{120, 0};
    ::setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char byte = 0;
    const ssize_t got = ::recv(link, &byte, 1, 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }
  // gRPC's name of the acceptor's end of the pair.
  static std::string name_of_pair(int grpc) {
    sockaddr_un end{};
    socklen_t size = sizeof(end);
    EXPECT_EQ(::getpeername(grpc, reinterpret_cast<sockaddr*>(&end), &size), 0);
    return "unix-abstract:" +
           std::string(end.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
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
  // So many bytes, once they are there; fewer when the other side hangs up before.
  static std::string heard(int socket, std::size_t bytes) {
    std::string text;
    std::vector<char> part(bytes);
    (void)soon([&] {
      const ssize_t got = ::recv(socket, part.data(), bytes - text.size(), MSG_DONTWAIT);
      if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
      return text.size() == bytes || got == 0 || (got < 0 && errno != EAGAIN);
    });
    return text;
  }
  static ControlLimits small() {
    ControlLimits limits;
    limits.strangers = {4, 2, 100, 100, 100};
    limits.stranger_time = std::chrono::seconds(60);
    limits.stranger_bytes = 20'000;
    return limits;
  }

  mutable std::mutex mutex_;
  std::vector<int> sessions_;
  std::vector<int> calls_;
  std::vector<int> members_;
  std::vector<int> tickets_;
  std::vector<int> links_;
  testing::Owner owner_;
  std::unique_ptr<ControlAcceptor> acceptor_;

 private:
  void keep(std::vector<int>& sockets, int socket) {
    const std::lock_guard lock(mutex_);
    sockets.push_back(socket);
  }
};

TEST_F(ControlAcceptorTest, AMembersByteLeadsToTheApiAndIsNotHandedOn) {
  open({});
  const int link = dial();
  const std::array<std::byte, 2> bytes = {kMemberByte, std::byte{0x16}};
  ASSERT_EQ(::send(link, bytes.data(), bytes.size(), MSG_NOSIGNAL), 2);
  ASSERT_TRUE(soon([&] { return size_of(members_) == 1; }));
  std::byte first{};
  ASSERT_EQ(::recv(members_.front(), &first, 1, 0), 1);
  EXPECT_EQ(first, std::byte{0x16});
  EXPECT_EQ(size_of(calls_) + size_of(sessions_), 0U);
}

TEST_F(ControlAcceptorTest, ATicketIsHandedOnUnread) {
  open({});
  const int link = dial();
  const std::array<std::byte, 2> bytes = {kTicketByte, std::byte{0x16}};
  ASSERT_EQ(::send(link, bytes.data(), bytes.size(), MSG_NOSIGNAL), 2);
  ASSERT_TRUE(soon([&] { return size_of(tickets_) == 1; }));
  std::byte first{};
  ASSERT_EQ(::recv(tickets_.front(), &first, 1, 0), 1);
  EXPECT_EQ(first, kTicketByte);
  EXPECT_EQ(size_of(calls_) + size_of(sessions_) + size_of(members_), 0U);
}

TEST_F(ControlAcceptorTest, ACallIsCarriedBothWaysUntilGrpcEndsIt) {
  open(small());
  const int link = call("127.0.0.7");
  const int grpc = last_call();
  say(link, 999);
  EXPECT_EQ(heard(grpc, 1'000), std::string(1'000, 'x'));
  const std::string answer(300'000, 'y');
  std::thread answering([&] {
    for (std::size_t at = 0; at < answer.size();) {
      const ssize_t sent = ::send(grpc, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
      if (sent > 0) at += static_cast<std::size_t>(sent);
    }
  });
  EXPECT_EQ(heard(link, answer.size()), answer);
  answering.join();
  const std::string name = name_of_pair(grpc);
  EXPECT_EQ(acceptor_->caller(name), "127.0.0.7");
  EXPECT_EQ(acceptor_->caller("unix:"), "");
  ASSERT_EQ(::shutdown(grpc, SHUT_RDWR), 0);
  EXPECT_TRUE(ended(link));
  EXPECT_TRUE(soon([&] { return acceptor_->caller(name).empty(); }));
}

// gRPC's threads have calls under way until its server has ended, which is later.
TEST_F(ControlAcceptorTest, AfterItsStopCallersAreAskedForStill) {
  open(small());
  const int link = call();
  const std::string name = name_of_pair(last_call());
  ASSERT_EQ(acceptor_->caller(name), "127.0.0.1");
  owner_.call([&] {
    acceptor_->stop();
    acceptor_->stop();
  });
  EXPECT_TRUE(ended(link));
  EXPECT_EQ(acceptor_->caller(name), "");
}

TEST_F(ControlAcceptorTest, WhoHangsUpIsAnsweredStill) {
  open(small());
  const int link = call();
  const int grpc = last_call();
  ASSERT_EQ(::shutdown(link, SHUT_WR), 0);
  EXPECT_EQ(heard(grpc, 2), "x") << "the end comes after the byte";
  EXPECT_EQ(::send(grpc, "y", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(heard(link, 1), "y");
}

TEST_F(ControlAcceptorTest, AWorkerIsHandedOnBehindItsFirstByte) {
  open(small());
  const int link = session();
  EXPECT_EQ(size_of(calls_), 0U);
  say(link, 30'000);
  EXPECT_EQ(heard(sessions_.front(), 30'000).size(), 30'000U) << "what it says is not limited here";
}

TEST_F(ControlAcceptorTest, OfAFullTableTheOldestOfWhoHasMostGivesWay) {
  open(small());
  const int alone = call("127.0.0.9");
  const int other = call("127.0.0.8");
  const int first = call("127.0.0.2");
  const int second = call("127.0.0.2");
  call("127.0.0.3");
  EXPECT_TRUE(ended(first)) << "of two from one address, though others are older";
  EXPECT_TRUE(open_still(alone));
  EXPECT_TRUE(open_still(other));
  call("127.0.0.4");
  EXPECT_TRUE(ended(alone)) << "all have one: the oldest";
  EXPECT_TRUE(open_still(other));
  EXPECT_TRUE(open_still(second));
}

TEST_F(ControlAcceptorTest, WhoHoldsASessionGivesWayToNobody) {
  open(small());
  const int worker = session();
  for (int i = 0; i < 20; ++i) call(("127.0.1." + std::to_string(i + 1)).c_str());
  EXPECT_EQ(size_of(calls_), 20U) << "each newcomer has its turn";
  EXPECT_TRUE(open_still(worker));
}

TEST_F(ControlAcceptorTest, OneAddressHasItsShareAndOthersTheirs) {
  open(small());
  const int first = call();
  const int grpc = last_call();
  call();
  EXPECT_TRUE(ended(dial()));
  call("127.0.0.2");
  ASSERT_EQ(::shutdown(grpc, SHUT_RDWR), 0);
  EXPECT_TRUE(ended(first));
  ASSERT_EQ(::shutdown(first, SHUT_RDWR), 0);
  EXPECT_TRUE(soon([&] {
    const int again = dial();
    const std::size_t before = size_of(calls_);
    say(again, 1);
    return soon([&] { return size_of(calls_) > before || !open_still(again); }) &&
           size_of(calls_) > before;
  })) << "what has ended makes room";
}

TEST_F(ControlAcceptorTest, StrangersAreLimitedInAllAndSessionsAreNot) {
  open(small());
  std::vector<int> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(session());
  std::vector<int> all;
  for (const char* from : {"127.0.0.2", "127.0.0.3"}) {
    for (int i = 0; i < 2; ++i) all.push_back(call(from));
  }
  call("127.0.0.4");
  EXPECT_TRUE(ended(all[0])) << "never more than four";
  for (const int link : {all[1], all[2], all[3]}) EXPECT_TRUE(open_still(link));
  for (const int link : workers) EXPECT_TRUE(open_still(link));
}

TEST_F(ControlAcceptorTest, AStrangerHasItsTimeAndASessionAny) {
  ControlLimits limits = small();
  limits.stranger_time = milliseconds(300);
  open(limits);
  const int worker = session();
  const int silent = dial();
  const int stranger = call();
  EXPECT_TRUE(ended(silent));
  EXPECT_TRUE(ended(stranger));
  EXPECT_TRUE(open_still(worker));
}

TEST_F(ControlAcceptorTest, AStrangerSaysLittle) {
  open(small());
  const int brief = call();
  const int talker = call();
  const int grpc = last_call();
  say(brief, 10'000);
  say(talker, 30'000);
  EXPECT_TRUE(ended(talker));
  EXPECT_LE(heard(grpc, 40'000).size(), 20'000U) << "and no more of it was handed on";
  EXPECT_TRUE(open_still(brief));
}

TEST_F(ControlAcceptorTest, AnAddressThatIsTakenIsAnError) {
  open(small());
  const Address address = acceptor_->address();
  owner_.call([&] {
    const auto second = ControlAcceptor::open(owner_.io(), address, small(), hands());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, ErrorCode::kIo);
    acceptor_.reset();
    EXPECT_TRUE(ControlAcceptor::open(owner_.io(), address, small(), hands()).ok());
  });
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
  const auto opened = ControlAcceptor::open(owner_.io(), {"::1", 0}, small(), hands());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_NE((*opened)->address().port, 0);
}

}  // namespace
}  // namespace hearth::coordinator
