#include "cli/serve/front.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "proto/address.h"

namespace hearth::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using coordinator::LeasePeer;
using coordinator::LeaseView;

std::string on_loopback(std::uint16_t port) { return Address{"127.0.0.1", port}.text(); }

// A front on a thread of its own; the test is its clients and its leader.
class FrontTest : public ::testing::Test {
 protected:
  FrontTest() {
    EXPECT_TRUE(front_.open(0).ok());
    port_ = front_.port();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~FrontTest() override {
    on_front([this] { front_.close(); });
    io_.stop();
    thread_.join();
  }
  void on_front(const std::function<void()>& work) {
    std::promise<void> done;
    asio::post(io_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  void set_view(std::uint64_t epoch, std::chrono::seconds left, const std::string& api) {
    on_front([this, epoch, left, api] {
      view_.epoch = epoch;
      view_.left = left;
      view_.leader = {"den, process 8", api, ""};
    });
  }
  // A client that has sent some bytes.
  tcp::socket client() {
    tcp::socket socket(others_);
    socket.connect({asio::ip::address_v4::loopback(), port_});
    asio::write(socket, asio::buffer("GET", 3));
    return socket;
  }
  // All that comes until the other side closes.
  static std::string read_all(tcp::socket& socket) {
    const timeval most{20, 0};
    ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    std::string out;
    std::array<char, 512> part{};
    for (;;) {
      const ssize_t size = ::recv(socket.native_handle(), part.data(), part.size(), 0);
      if (size < 0 && errno != ECONNRESET) return "it is still open after " + out;
      if (size <= 0) return out;
      out.append(part.data(), static_cast<std::size_t>(size));
    }
  }

  asio::io_context io_;
  asio::io_context others_;
  LeaseView view_;  // of the front's thread
  const LeasePeer self_{"den, process 7", "127.0.0.1:2", ""};
  Front front_{io_, self_, "127.0.0.1", [this] { return view_; }};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(FrontTest, BytesGoBothWays) {
  tcp::acceptor leader(others_, {asio::ip::address_v4::loopback(), 0});
  set_view(4, std::chrono::seconds(2), on_loopback(leader.local_endpoint().port()));
  tcp::socket socket = client();
  tcp::socket other = leader.accept();
  std::array<char, 3> sent{};
  asio::read(other, asio::buffer(sent));
  EXPECT_EQ(std::string(sent.data(), sent.size()), "GET");
  asio::write(other, asio::buffer("answer", 6));
  other.close();
  EXPECT_EQ(read_all(socket), "answer");
}

TEST_F(FrontTest, AnAnswerToAHalfReadRequestArrives) {
  tcp::acceptor leader(others_, {asio::ip::address_v4::loopback(), 0});
  set_view(4, std::chrono::seconds(2), on_loopback(leader.local_endpoint().port()));
  tcp::socket socket = client();
  tcp::socket other = leader.accept();
  std::array<char, 3> sent{};
  asio::read(other, asio::buffer(sent));
  const std::string body(100'000, 'x');
  asio::write(socket, asio::buffer(body));
  asio::read(other, asio::buffer(sent));  // some of the body is there, and stays unread
  asio::write(other, asio::buffer("413", 3));
  other.close();
  boost::system::error_code failed;
  while (!failed) asio::write(socket, asio::buffer(body), failed);  // it sends on
  EXPECT_EQ(read_all(socket), "413");
}

TEST_F(FrontTest, AClientThatHasSentItsRequestGetsTheAnswer) {
  tcp::acceptor leader(others_, {asio::ip::address_v4::loopback(), 0});
  set_view(4, std::chrono::seconds(2), on_loopback(leader.local_endpoint().port()));
  tcp::socket socket = client();
  socket.shutdown(tcp::socket::shutdown_send);
  tcp::socket other = leader.accept();
  EXPECT_EQ(read_all(other), "GET");
  asio::write(other, asio::buffer("answer", 6));
  other.close();
  EXPECT_EQ(read_all(socket), "answer");
}

// It stands still, so that it never closes them.
TEST_F(FrontTest, ConnectionsToAnEarlierLeaderEnd) {
  tcp::acceptor leader(others_, {asio::ip::address_v4::loopback(), 0});
  const std::string api = on_loopback(leader.local_endpoint().port());
  set_view(4, std::chrono::seconds(2), api);
  tcp::socket socket = client();
  tcp::socket other = leader.accept();
  std::array<char, 3> sent{};
  asio::read(other, asio::buffer(sent));
  on_front([this] { front_.follow(); });
  asio::write(other, asio::buffer("half", 4));
  set_view(5, std::chrono::seconds(2), api);
  std::array<char, 4> half{};
  asio::read(socket, asio::buffer(half));
  on_front([this] { front_.follow(); });
  EXPECT_EQ(read_all(socket), "");
}

// After a restart at the same address, the lease of the process before has not ended.
TEST_F(FrontTest, ItDoesNotForwardToItself) {
  set_view(4, std::chrono::seconds(2), self_.api);
  tcp::socket socket = client();
  const std::string answer = read_all(socket);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("no coordinator leads now"), std::string::npos) << answer;
}

TEST_F(FrontTest, AnEndedLeaseHasNoLeader) {
  tcp::acceptor leader(others_, {asio::ip::address_v4::loopback(), 0});
  set_view(4, std::chrono::seconds(0), on_loopback(leader.local_endpoint().port()));
  tcp::socket socket = client();
  EXPECT_NE(read_all(socket).find("no coordinator leads now"), std::string::npos);
}

TEST(WayToLeaderTest, ALeaderOnLoopbackIsForItsOwnMachine) {
  const LeasePeer self{"den, process 7", "127.0.0.1:2", ""};
  const LeasePeer near{"den, process 8", "127.0.0.1:1", ""};
  const LeasePeer far{"attic, process 8", "127.0.0.1:1", ""};
  const LeasePeer open{"attic, process 8", "10.0.0.2:1", ""};
  EXPECT_EQ(way_to_leader(near, self, "127.0.0.1"), "127.0.0.1:1");
  EXPECT_EQ(way_to_leader(near, self, "0.0.0.0"), std::nullopt)
      << "other machines would use an API that asks for no key";
  EXPECT_EQ(way_to_leader(far, self, "127.0.0.1"), std::nullopt);
  EXPECT_EQ(way_to_leader(open, self, "0.0.0.0"), "10.0.0.2:1");
  EXPECT_EQ(way_to_leader(self, self, "127.0.0.1"), std::nullopt) << "a loop";
  EXPECT_EQ(way_to_leader({}, self, "127.0.0.1"), std::nullopt) << "none has led yet";
}

TEST(WayToLeaderTest, TheAnswerNamesTheLeader) {
  const std::string answer = standby_answer({"den\", process 7", "10.0.0.1:1", ""}, "it is away");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(answer.find(R"("leader":"den\", process 7")"), std::string::npos) << answer;
  const std::size_t head = answer.find("\r\n\r\n") + 4;
  EXPECT_NE(answer.find("Content-Length: " + std::to_string(answer.size() - head) + "\r\n"),
            std::string::npos);
}

}  // namespace
}  // namespace hearth::cli
