// Real sockets on loopback: transports of one cluster on one io_context, and peers that may say
// anything, with TLS and without.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/address.h"
#include "proto/link/tcp_transport.h"
#include "tests/unit/proto/cluster.h"

namespace hearth::testing {

using std::chrono::milliseconds;

struct Recorder : TransportEvents {
  void on_link_open(LinkId link, bool incoming) override {
    EXPECT_FALSE(inside_call);
    opened.push_back(link);
    was_incoming[link] = incoming;
    if (on_open) on_open(link);
  }
  void on_frame(LinkId link, Frame frame) override {
    EXPECT_FALSE(inside_call);
    EXPECT_FALSE(closed.contains(link)) << "a frame after the end of its link";
    frames[link].push_back(std::move(frame));
    if (on_any_frame) on_any_frame(link);
  }
  void on_link_closed(LinkId link, const Error& why) override {
    EXPECT_FALSE(inside_call);
    EXPECT_FALSE(closed.contains(link)) << "two ends of one link";
    closed.emplace(link, why);
  }
  std::vector<LinkId> opened;
  std::map<LinkId, bool> was_incoming;
  std::map<LinkId, std::vector<Frame>> frames;
  std::map<LinkId, Error> closed;
  std::function<void(LinkId)> on_open;
  std::function<void(LinkId)> on_any_frame;
  bool inside_call = false;
};

// What a connection of `context` shows the other side.
inline void use_identity(SSL_CTX* context, const TlsIdentity& identity) {
  BIO* text = BIO_new_mem_buf(identity.certificate.data(), -1);
  X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
  BIO* key_text = BIO_new_mem_buf(identity.private_key.data(), -1);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(key_text, nullptr, nullptr, nullptr);
  EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  EVP_PKEY_free(key);
  X509_free(certificate);
  BIO_free(key_text);
  BIO_free(text);
}

// A peer that may say anything, and nothing of TLS unless it is told to.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address, const char* from = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &here.sin_addr);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(parse_address(address)->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(::fcntl(socket_, F_SETFL, O_NONBLOCK), 0);
  }
  ~RawPeer() {
    if (socket_ >= 0) ::close(socket_);
  }
  RawPeer(RawPeer&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  void say(ByteSpan bytes) {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() { ::close(std::exchange(socket_, -1)); }
  // By the other side; what it said before is dropped.
  bool hung_up() const {
    char bytes[4096];
    ssize_t got = 0;
    do {
      got = ::recv(socket_, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }
  int socket() const { return socket_; }

 private:
  int socket_;
};

// A node of the roster, or one with a key outside it, whose frames may be anything.
class TlsPeer {
 public:
  TlsPeer(const std::string& address, const TlsIdentity& identity)
      : raw_(address),
        context_(TlsContext::make(identity, [](const PublicKey&) { return ok_status(); }).value()),
        stream_(std::make_unique<TlsStream>(*context_, raw_.socket(), TlsStream::Side::kClient,
                                            limits::kTlsKeyBytes)) {}
  // Whether the handshake is over on this side.
  bool greeted() {
    if (!greeted_) greeted_ = stream_->handshake() == TlsStep::kDone;
    return greeted_;
  }
  void say(ByteSpan bytes) {
    while (!bytes.empty()) {
      std::size_t done = 0;
      ASSERT_EQ(stream_->records().write(bytes, false, done), TlsStep::kDone);
      bytes = bytes.subspan(done);
    }
  }
  void hang_up() { raw_.hang_up(); }
  bool hung_up() {
    Bytes bytes(4096);
    std::size_t done = 0;
    TlsStep step = greeted_ ? TlsStep::kDone : stream_->handshake();
    greeted_ = step == TlsStep::kDone;
    while (step == TlsStep::kDone) step = stream_->records().read(bytes, done);
    return step == TlsStep::kClosed || step == TlsStep::kFailed;
  }
  RawPeer& raw() { return raw_; }

 private:
  RawPeer raw_;
  std::unique_ptr<TlsContext> context_;
  std::unique_ptr<TlsStream> stream_;
  bool greeted_ = false;
};

class TransportTest : public ::testing::Test {
 protected:
  struct Side {
    Recorder events;
    std::vector<std::string> refused;  // incoming links, and why
    std::unique_ptr<TcpTransport> transport;
    LinkId connect(std::string_view address) {
      events.inside_call = true;
      const LinkId link = transport->connect(address);
      events.inside_call = false;
      return link;
    }
    Status send(LinkId link, Frame&& frame) {
      events.inside_call = true;
      Status status = transport->send(link, std::move(frame));
      events.inside_call = false;
      return status;
    }
    void close(LinkId link) {
      events.inside_call = true;
      transport->close(link);
      events.inside_call = false;
    }
  };

  // A node of its own for every side; what is not about handshakes is not limited by them.
  void open(Side& side, TcpOptions options = {}) {
    options.handshakes = {200, 200, 10'000, 10'000, 100};
    open_limited(side, std::move(options), "node-" + std::to_string(++nodes_));
  }
  void open_limited(Side& side, TcpOptions options, const std::string& name) {
    options.listen_address = "127.0.0.1:0";
    options.identity = cluster_.identity(name);
    options.roster = cluster_.book();
    options.on_refused = [&side](const std::string& why) { side.refused.push_back(why); };
    auto opened = TcpTransport::open(io_, options);
    ASSERT_TRUE(opened) << opened.error().message;
    side.transport = std::move(*opened);
    side.transport->set_events(&side.events);
  }
  // Runs events until `done`; false when that takes longer than any working machine needs.
  template <typename Done>
  bool run_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(milliseconds(50));
    }
    return true;
  }
  // a connected to b: the ends of one link.
  void link(Side& a, Side& b, LinkId& at_a, LinkId& at_b) {
    const std::size_t before = b.events.opened.size();
    at_a = a.connect(b.transport->address());
    ASSERT_TRUE(run_until(
        [&] { return b.events.opened.size() > before && a.events.was_incoming.contains(at_a); }));
    at_b = b.events.opened.back();
    EXPECT_FALSE(a.events.was_incoming[at_a]);
    EXPECT_TRUE(b.events.was_incoming[at_b]);
  }
  std::size_t received(Side& side, LinkId link) { return side.events.frames[link].size(); }

  // A node of the roster at the far end of an open link of `side`.
  TlsPeer known_peer(Side& side, const std::string& name = "peer") {
    TlsPeer peer(side.transport->address(), cluster_.identity(name));
    const std::size_t before = side.events.opened.size();
    EXPECT_TRUE(run_until([&] { return peer.greeted() && side.events.opened.size() > before; }));
    return peer;
  }

  boost::asio::io_context io_;
  Cluster cluster_;
  int nodes_ = 0;
};

inline Bytes pattern(std::size_t size, std::uint32_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    seed = seed * 1664525 + 1013904223;
    bytes[i] = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

inline Bytes wire(FrameType type, const Bytes& payload) {
  Bytes bytes = encode_header(type, payload.size());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

}  // namespace hearth::testing
