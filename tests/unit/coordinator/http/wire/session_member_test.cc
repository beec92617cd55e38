// A member's link to the API: whose key the handshake shows decides, not an API key.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <vector>

#include "base/limits.h"
#include "coordinator/http/server.h"
#include "proto/link/tls.h"
#include "tests/unit/coordinator/http/wire/local_port.h"
#include "tests/unit/coordinator/http/wire/raw_client.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class MemberSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpOptions options;
    options.open = true;  // users of this machine need no key; a member is not one of them
    options.version = "test";
    options.timeouts.header = 3'600;  // no handshake ends by itself
    options.store = folder_.open();
    options.members =
        MemberLinks{server_identity_.certificate, server_identity_.private_key, handshake_key,
                    [this](const PublicKey& key) -> std::optional<Member> {
                      if (removed_ || key != member_.key) return std::nullopt;
                      return Member{key, "den", Role::kWorker};
                    }};
    auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }

  using Stream = asio::ssl::stream<tcp::socket>;
  // A link of that node, or one without a certificate, through its handshake; nothing when that
  // fails.
  std::unique_ptr<Stream> dial(const TlsIdentity* identity) {
    tcp::socket near = connect();
    asio::ssl::context context(asio::ssl::context::tlsv13_client);
    if (identity != nullptr) {
      context.use_certificate_chain(asio::buffer(identity->certificate));
      context.use_private_key(asio::buffer(identity->private_key), asio::ssl::context::pem);
    }
    auto stream = std::make_unique<Stream>(std::move(near), context);
    boost::system::error_code error;
    stream->handshake(asio::ssl::stream_base::client, error);
    return error ? nullptr : std::move(stream);
  }
  // A socket behind the member's byte, which the server has taken over.
  tcp::socket connect() {
    tcp::acceptor listener(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket near(io_);
    near.connect(listener.local_endpoint());
    tcp::socket far = listener.accept();
    far.non_blocking(true);
    server_->adopt(far.release());
    return near;
  }
  // That the server closes it.
  static bool ends(tcp::socket& socket) {
    boost::system::error_code error;
    char byte = 0;
    return asio::read(socket, asio::buffer(&byte, 1), error) == 0 && error;
  }
  // The answer up to its end, or empty when the connection ends without one.
  static std::string ask(Stream& stream, const std::string& path, const std::string& more = "") {
    boost::system::error_code error;
    asio::write(
        stream,
        asio::buffer("GET " + path + " HTTP/1.1\r\nHost: 10.1.2.3:11501\r\n" + more + "\r\n"),
        error);
    std::string answer;
    char byte = 0;
    while (!error && answer.find("\r\n\r\n") == answer.npos) {
      asio::read(stream, asio::buffer(&byte, 1), error);
      if (!error) answer += byte;
    }
    const auto length = answer.find("Content-Length: ");
    if (length == answer.npos) return answer;
    std::string body(std::stoul(answer.substr(length + 16)), '\0');
    asio::read(stream, asio::buffer(body), error);
    return answer + body;
  }

  SystemClock clock_;
  SystemRandom random_;
  LocalPort port_;
  StoreFolder folder_;
  asio::io_context io_;
  const TlsIdentity server_identity_ = *TlsIdentity::make(SecretKey::generate());
  const TlsIdentity member_ = *TlsIdentity::make(SecretKey::generate());
  const TlsIdentity stranger_ = *TlsIdentity::make(SecretKey::generate());
  std::atomic<bool> removed_{false};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(MemberSessionTest, AMemberAsksWithoutAKeyUntilItIsRemoved) {
  const auto link = dial(&member_);
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(ask(*link, "/v1/models").starts_with("HTTP/1.1 200"))
      << "any address of this machine";
  EXPECT_TRUE(ask(*link, "/metrics").starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(ask(*link, "/livez").starts_with("HTTP/1.1 200"));
  removed_ = true;
  EXPECT_EQ(ask(*link, "/v1/models"), "");
  const auto again = dial(&member_);
  EXPECT_TRUE(again == nullptr || ask(*again, "/v1/models").empty());
}

TEST_F(MemberSessionTest, NoOtherPeerGetsAByte) {
  const auto link = dial(&stranger_);
  EXPECT_TRUE(link == nullptr || ask(*link, "/livez").empty());
  const auto bare = dial(nullptr);
  EXPECT_TRUE(bare == nullptr || ask(*bare, "/livez").empty());
}

TEST_F(MemberSessionTest, HandshakesGiveWayBeforeAMemberThatWasServed) {
  const auto first = dial(&member_);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(ask(*first, "/v1/models").starts_with("HTTP/1.1 200"));
  std::vector<tcp::socket> silent;  // as many as one address may have, and one more
  for (std::uint32_t i = 0; i < limits::kHttpConnections / 4; ++i) silent.push_back(connect());
  EXPECT_TRUE(ends(silent.front()));
  const auto second = dial(&member_);
  ASSERT_NE(second, nullptr) << "while all places are taken";
  EXPECT_TRUE(ask(*second, "/v1/models").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(ask(*first, "/v1/models").starts_with("HTTP/1.1 200"));
}

TEST_F(MemberSessionTest, WithoutMembersASocketIsClosed) {
  HttpOptions options;
  options.version = "test";
  auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(server.ok()) << server.error().message;
  server_ = std::move(*server);
  EXPECT_EQ(dial(&member_), nullptr);
}

}  // namespace
}  // namespace hearth::coordinator::http
