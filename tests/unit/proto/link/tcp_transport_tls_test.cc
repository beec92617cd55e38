// Who gets a link, and what those who get none can do: strangers, other protocols, the slow and the
// many.
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>

#include "tests/unit/proto/transport_fixture.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using testing::pattern;
using testing::RawPeer;
using testing::TlsPeer;
using testing::wire;

class TcpTransportTlsTest : public testing::TransportTest {
 protected:
  // The link that stands carries frames, whatever happened beside it.
  void expect_alive(Side& a, LinkId at_a, Side& b, LinkId at_b) {
    const std::size_t before = received(b, at_b);
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(100, 1)}));
    ASSERT_TRUE(run_until([&] { return received(b, at_b) == before + 1; }));
  }
};

std::size_t resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0, resident = 0;
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &pages, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

TEST_F(TcpTransportTlsTest, EachSideKnowsTheOtherByItsKey) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  ASSERT_TRUE(a.transport->peer(at_a));
  EXPECT_EQ(a.transport->peer(at_a)->name, "node-2");
  ASSERT_TRUE(b.transport->peer(at_b));
  EXPECT_EQ(b.transport->peer(at_b)->name, "node-1");
  EXPECT_EQ(b.transport->peer(at_b)->key, cluster_.identity("node-1").key);
  EXPECT_FALSE(a.transport->peer(LinkId(999)));
  a.close(at_a);
  EXPECT_FALSE(a.transport->peer(at_a));
}

TEST_F(TcpTransportTlsTest, KnowsTheMachineAtTheFarEnd) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  EXPECT_EQ(b.transport->host(at_b), "127.0.0.1");
  EXPECT_EQ(a.transport->host(at_a), "127.0.0.1");
  EXPECT_EQ(b.transport->host(LinkId(1'000)), "");
}

TEST_F(TcpTransportTlsTest, AStrangersKeyGetsNoLink) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  const auto stranger = TlsIdentity::make(SecretKey::generate());
  ASSERT_TRUE(stranger);
  TlsPeer peer(b.transport->address(), *stranger);
  // It may believe for a moment that it is in: its own part of the handshake is over first.
  ASSERT_TRUE(run_until([&] { return peer.greeted(); }));
  peer.say(wire(FrameType::kHello, pattern(100, 1)));
  ASSERT_TRUE(run_until([&] { return peer.hung_up(); }));
  EXPECT_EQ(b.events.opened.size(), 1u);
  ASSERT_EQ(b.refused.size(), 1u);
  EXPECT_NE(b.refused[0].find(stranger->key.hex()), std::string::npos) << b.refused[0];
  EXPECT_NE(b.refused[0].find("not in the roster"), std::string::npos) << b.refused[0];
  expect_alive(a, at_a, b, at_b);
}

TEST_F(TcpTransportTlsTest, WeDialNoStranger) {
  Side a, b;
  open(a);
  TcpOptions options;
  testing::Cluster other;
  options.listen_address = "127.0.0.1:0";
  options.identity = other.identity("b");
  options.roster = other.book();
  auto opened = TcpTransport::open(io_, options);
  ASSERT_TRUE(opened);
  (*opened)->set_events(&b.events);
  const LinkId link = a.connect((*opened)->address());
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(link); }));
  EXPECT_NE(a.events.closed[link].message.find("not in the roster"), std::string::npos);
  EXPECT_TRUE(a.events.opened.empty());
  EXPECT_TRUE(b.events.opened.empty());
}

TEST_F(TcpTransportTlsTest, OtherRolesOfTheRosterGetNoDataLink) {
  Side b;
  open(b);
  for (const Role role : {Role::kClient, Role::kAdmin}) {
    const std::string name(role_name(role));
    TlsPeer peer(b.transport->address(), cluster_.identity(name, role));
    ASSERT_TRUE(run_until([&] { return peer.greeted() && peer.hung_up(); }));
    EXPECT_NE(b.refused.back().find(name + " is in the roster as " + name), std::string::npos);
  }
  TlsPeer peer(b.transport->address(), cluster_.identity("main", Role::kCoordinator));
  ASSERT_TRUE(run_until([&] { return peer.greeted() && b.events.opened.size() == 1; }));
}

// Another certificate's key with one's own secret, or the other way round, is refused on loading;
// what is left to forge is the certificate alone, which no other key can prove.
TEST_F(TcpTransportTlsTest, ACertificateWithoutItsKeyIsWorthNothing) {
  TlsIdentity forged = cluster_.identity("victim");
  forged.private_key = TlsIdentity::make(SecretKey::generate())->private_key;
  EXPECT_FALSE(TlsContext::make(forged, [](const PublicKey&) { return ok_status(); }));
}

TEST_F(TcpTransportTlsTest, ARemovedNodeLosesItsLinksAtOnce) {
  Side a, b, c;
  open(a);
  open(b);
  open(c);
  LinkId at_a, at_b, at_c, c_at_b;
  link(a, b, at_a, at_b);
  link(c, b, at_c, c_at_b);
  cluster_.remove("node-1");
  b.events.inside_call = true;
  b.transport->recheck_peers();
  b.events.inside_call = false;
  ASSERT_TRUE(
      run_until([&] { return b.events.closed.contains(at_b) && a.events.closed.contains(at_a); }));
  EXPECT_EQ(b.events.closed[at_b].code, ErrorCode::kUnavailable);
  expect_alive(c, at_c, b, c_at_b);
  const LinkId again = a.connect(b.transport->address());
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(again); }));
  EXPECT_EQ(b.events.opened.size(), 2u);
}

// One attempt with OpenSSL's own client, set up by `prepare`.
struct ForeignClient {
  explicit ForeignClient(const std::string& address)
      : raw(address), context(SSL_CTX_new(TLS_method())) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  }
  ~ForeignClient() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  void use(const TlsIdentity& identity) { testing::use_identity(context, identity); }
  void start() {
    ssl = SSL_new(context);
    SSL_set_fd(ssl, raw.socket());
    SSL_set_connect_state(ssl);
  }
  void step() {
    char byte = 0;
    if (SSL_is_init_finished(ssl) == 0) {
      (void)SSL_do_handshake(ssl);
    } else if (SSL_read(ssl, &byte, 1) > 0) {
      ++answered;
    }
  }
  RawPeer raw;
  SSL_CTX* context;
  SSL* ssl = nullptr;
  int answered = 0;
};

constexpr unsigned char kAlpn[] = {8, 'h', 'e', 'a', 'r', 't', 'h', '/', '1'};

TEST_F(TcpTransportTlsTest, ForeignHandshakesAreRefused) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  struct Case {
    const char* what;
    std::function<void(ForeignClient&)> prepare;
  };
  const TlsIdentity known = cluster_.identity("peer");
  const std::vector<Case> cases = {
      {"TLS 1.2",
       [&](ForeignClient& c) { SSL_CTX_set_max_proto_version(c.context, TLS1_2_VERSION); }},
      {"TLS 1.2 with a key of the roster",
       [&](ForeignClient& c) {
         c.use(known);
         SSL_CTX_set_max_proto_version(c.context, TLS1_2_VERSION);
         SSL_CTX_set_alpn_protos(c.context, kAlpn, sizeof(kAlpn));
       }},
      {"no certificate",
       [&](ForeignClient& c) { SSL_CTX_set_alpn_protos(c.context, kAlpn, sizeof(kAlpn)); }},
      {"another protocol",
       [&](ForeignClient& c) {
         c.use(known);
         const unsigned char h2[] = {2, 'h', '2'};
         SSL_CTX_set_alpn_protos(c.context, h2, sizeof(h2));
       }},
  };
  for (const Case& one : cases) {
    ForeignClient client(b.transport->address());
    one.prepare(client);
    client.start();
    const std::size_t before = b.refused.size();
    ASSERT_TRUE(run_until([&] {
      client.step();
      return b.refused.size() > before;
    })) << one.what;
    EXPECT_EQ(b.events.opened.size(), 1u) << one.what;
    EXPECT_EQ(client.answered, 0) << one.what;
  }
  // The same client with everything right is let in, so each case above failed for its own reason.
  ForeignClient client(b.transport->address());
  client.use(known);
  SSL_CTX_set_alpn_protos(client.context, kAlpn, sizeof(kAlpn));
  client.start();
  ASSERT_TRUE(run_until([&] {
    client.step();
    return b.events.opened.size() == 2;
  })) << b.refused.back();
  EXPECT_EQ(SSL_version(client.ssl), TLS1_3_VERSION);
  EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get0_session(client.ssl)), 0);
  expect_alive(a, at_a, b, at_b);
}

TEST_F(TcpTransportTlsTest, PlaintextAndGarbageAreNeverParsed) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  std::vector<Bytes> said = {
      wire(FrameType::kHello, pattern(100, 1)),
      Bytes(1),
      Bytes(5, std::byte{0xFF}),
      pattern(60'000, 3),
      {std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0xFF}, std::byte{0xFF}},
      {std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{4}, std::byte{1},
       std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}}};
  const std::string_view get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  said.emplace_back(as_bytes(get).begin(), as_bytes(get).end());
  for (std::uint32_t seed = 0; seed < 50; ++seed) said.push_back(pattern(1 + seed * 37, seed));
  for (const Bytes& bytes : said) {
    RawPeer peer(b.transport->address());
    peer.say(bytes);
    ::shutdown(peer.socket(), SHUT_WR);
    ASSERT_TRUE(run_until([&] { return peer.hung_up(); })) << bytes.size();
  }
  EXPECT_EQ(b.events.opened.size(), 1u);
  EXPECT_EQ(b.transport->links(), 1u);
  expect_alive(a, at_a, b, at_b);
}

TEST_F(TcpTransportTlsTest, AHandshakeHasADeadline) {
  Side a, b;
  open(a, {.handshake_deadline = milliseconds(300)});
  open(b, {.handshake_deadline = milliseconds(300)});
  RawPeer silent(b.transport->address());
  RawPeer begun(b.transport->address());
  begun.say(Bytes{std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{2}, std::byte{0}});
  RawPeer slow(b.transport->address());  // a byte at a time does not move the deadline
  ASSERT_TRUE(run_until([&] {
    const std::byte next{0x16};
    (void)::send(slow.socket(), &next, b.refused.empty() ? 1 : 0, MSG_NOSIGNAL);
    return silent.hung_up() && begun.hung_up() && slow.hung_up();
  }));
  EXPECT_EQ(b.refused.size(), 3u);
  EXPECT_TRUE(b.events.opened.empty());
  // A listener that never answers, likewise.
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const LinkId link = a.connect("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(link); }));
  EXPECT_EQ(a.events.closed[link].code, ErrorCode::kTimeout);
  ::close(listener);
}

TEST_F(TcpTransportTlsTest, HalfOpenHandshakesAreLimitedPerAddressAndLeaveTheOldLinks) {
  Side a, b;
  open(a);
  open_limited(b, {.handshakes = {.under_way = 20, .of_address = 8}}, "limited");
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  std::vector<RawPeer> peers;
  for (int i = 0; i < 50; ++i) peers.emplace_back(b.transport->address());
  const auto refused = [&] {
    return std::count_if(peers.begin(), peers.end(), [](const RawPeer& p) { return p.hung_up(); });
  };
  ASSERT_TRUE(run_until([&] { return refused() == 42; }));
  EXPECT_EQ(b.transport->links(), 9u);
  expect_alive(a, at_a, b, at_b);
  for (RawPeer& peer : peers) peer.hang_up();
  ASSERT_TRUE(run_until([&] { return b.transport->links() == 1; }));
  LinkId again_a, again_b;
  link(a, b, again_a, again_b);
}

TEST_F(TcpTransportTlsTest, WhereHandshakesMakeRoomTheOldestOfWhoHasMostEnds) {
  Side b;
  open_limited(b, {.handshakes = {4, 2, 100, 100, 100}, .makes_room = true}, "roomy");
  std::vector<RawPeer> peers;
  const auto dial = [&](const char* from) {
    const std::size_t gone = b.refused.size();
    const std::size_t held = b.transport->links();
    peers.emplace_back(b.transport->address(), from);
    ASSERT_TRUE(run_until([&] { return b.refused.size() > gone || b.transport->links() > held; }));
  };
  for (const char* from : {"127.0.0.9", "127.0.0.2", "127.0.0.2", "127.0.0.3"}) dial(from);
  EXPECT_TRUE(b.refused.empty());
  dial("127.0.0.4");
  EXPECT_TRUE(run_until([&] { return peers[1].hung_up(); })) << "though another is older";
  dial("127.0.0.5");
  EXPECT_TRUE(run_until([&] { return peers[0].hung_up(); })) << "all have one: the oldest";
  for (const std::size_t one : {2, 3, 4, 5}) EXPECT_FALSE(peers[one].hung_up()) << one;
  EXPECT_EQ(b.transport->links(), 4u);
}

TEST_F(TcpTransportTlsTest, AFloodOfStrangersCostsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is counted too";
#endif
  Side b;
  open(b);
  const auto stranger = TlsIdentity::make(SecretKey::generate()).value();
  const auto flood = [&](int count) {
    for (int i = 0; i < count; ++i) {
      TlsPeer peer(b.transport->address(), stranger);
      ASSERT_TRUE(run_until([&] { return peer.greeted() && peer.hung_up(); }));
      RawPeer raw(b.transport->address());
      raw.say(pattern(2000, static_cast<std::uint32_t>(i)));
      ASSERT_TRUE(run_until([&] { return raw.hung_up(); }));
    }
  };
  flood(50);
  const std::size_t before = resident_bytes();
  flood(300);
  EXPECT_LT(resident_bytes(), before + 2 * limits::kMiB);
  EXPECT_EQ(b.refused.size(), 700u);
  EXPECT_EQ(b.transport->links(), 0u);
}

TEST_F(TcpTransportTlsTest, TheKeyOfALongLinkChanges) {
  Side a, b;
  open(a, {.key_bytes = 100'000});
  open(b, {.key_bytes = 70'000});
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(90'000, i)}));
    ASSERT_TRUE(b.send(at_b, {FrameType::kTokens, pattern(50'000, i)}));
  }
  ASSERT_TRUE(run_until([&] { return received(b, at_b) == 40 && received(a, at_a) == 40; }));
  for (std::uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(b.events.frames[at_b][i].payload, pattern(90'000, i));
    EXPECT_EQ(a.events.frames[at_a][i].payload, pattern(50'000, i));
  }
}

// A switch between the nodes sees nothing of a frame.
TEST_F(TcpTransportTlsTest, NothingOfAFrameIsOnTheWire) {
  Side b;
  open(b);
  TlsPeer peer(b.transport->address(), cluster_.identity("peer"));
  ASSERT_TRUE(run_until([&] { return peer.greeted() && b.events.opened.size() == 1; }));
  const std::string secret = "the activations of somebody's prompt";
  const ByteSpan bytes = as_bytes(secret);
  ASSERT_TRUE(b.send(b.events.opened[0], {FrameType::kBatch, Bytes(bytes.begin(), bytes.end())}));
  io_.run_for(milliseconds(50));
  std::string wire_bytes(100'000, '\0');
  const ssize_t got = ::recv(peer.raw().socket(), wire_bytes.data(), wire_bytes.size(), MSG_PEEK);
  ASSERT_GT(got, static_cast<ssize_t>(secret.size()));
  wire_bytes.resize(static_cast<std::size_t>(got));
  EXPECT_EQ(wire_bytes.find(secret), std::string::npos);
  EXPECT_EQ(wire_bytes.find("HRT2"), std::string::npos);
}

}  // namespace
}  // namespace hearth
