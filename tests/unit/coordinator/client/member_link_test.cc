#include "coordinator/client/member_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hex.h"
#include "proto/link/control_links.h"

namespace hearth::client {
namespace {

TlsIdentity identity() { return *TlsIdentity::make(SecretKey::generate()); }

TEST(MemberLinkTest, ItsBaseLeadsToItAndNoOther) {
  const TlsIdentity own = identity();
  const auto base = open_member_link({{"10.1.2.3:11501", "10.1.2.4:11501"}, own, identity().key});
  ASSERT_TRUE(base.ok()) << base.error().message;
  EXPECT_EQ(*base, "https://10.1.2.3:11501");
  const MemberLink* link = member_link_of(*base + "/v1/models");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->identity.key, own.key);
  EXPECT_EQ(member_link_of(*base), link);
  EXPECT_EQ(member_link_of("http://10.1.2.3:11501/v1/models"), nullptr);
  EXPECT_EQ(member_link_of("https://10.1.2.3:115011/"), nullptr);
  EXPECT_EQ(member_link_of("https://10.1.2.3/"), nullptr);
  EXPECT_FALSE(open_member_link({{"10.1.2.3:11501", "nowhere"}, own, own.key}).ok());
  EXPECT_FALSE(open_member_link({{}, own, own.key}).ok());
}

// openssl pkey -pubin -outform DER | sha256sum, of the public key of RFC 8032, 7.1, test 1.
TEST(MemberLinkTest, AKeyIsPinnedByTheHashOfItsSubjectPublicKeyInfo) {
  const auto bytes = from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(pinned_key(*PublicKey::parse(*bytes)),
            "sha256//BuP9j9opu2CrWVV95h7bCuzbIxE0vjDnW0Vfjht5L6k=");
}

TEST(MemberLinkTest, NothingListensThere) {
  EXPECT_EQ(dial_member_link({{"127.0.0.1:1"}, identity(), identity().key}), -1);
  EXPECT_EQ(dial_member_link({{"127.0.0.1:1", "127.0.0.2:1"}, identity(), identity().key}), -1);
}

// A socket that listens on loopback, and once filled lets every caller wait.
class Listener {
 public:
  Listener() {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const name = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(socket_, name, size), 0);
    EXPECT_EQ(::listen(socket_, 0), 0);
    EXPECT_EQ(::getsockname(socket_, name, &size), 0);
    port_ = ntohs(at.sin_port);
  }
  ~Listener() {
    for (const int each : filling_) ::close(each);
    ::close(socket_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void fill() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port_);
    for (bool connects = true; connects;) {
      filling_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(filling_.back(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
      pollfd one{filling_.back(), POLLOUT, 0};
      connects = ::poll(&one, 1, 500) == 1;
    }
  }
  char first_byte() const {
    const int from = ::accept(socket_, nullptr, nullptr);
    char byte = 0;
    EXPECT_EQ(::recv(from, &byte, 1, 0), 1);
    ::close(from);
    return byte;
  }

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
  std::vector<int> filling_;
};

TEST(MemberLinkTest, OfSeveralAddressesTheOneThatAnswersCounts) {
  Listener silent;
  silent.fill();
  const Listener answers;
  const int socket = dial_member_link(
      {{"127.0.0.1:1", silent.address(), answers.address()}, identity(), identity().key});
  ASSERT_GE(socket, 0);
  EXPECT_EQ(std::byte(answers.first_byte()), kMemberByte);
  ::close(socket);
}

}  // namespace
}  // namespace hearth::client
