// Links through a relay: an honest one, and one that reads, changes, swaps and repeats what it
// forwards.
#include "proto/link/relay.h"

#include <array>
#include <optional>

#include "base/random.h"
#include "proto/link/route.h"
#include "tests/unit/proto/transport_fixture.h"

namespace hearth {
namespace {

using testing::pattern;
using testing::RawPeer;

Ticket drawn() {
  Ticket ticket;
  random_bytes(ticket.bytes);
  return ticket;
}

TimePoint steady_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

class RelayTest : public testing::TransportTest {
 protected:
  // A node that relays.
  void open_relay(const RelayOptions& options = {}) {
    TcpOptions tcp;
    tcp.tickets = tickets_;
    open(home_, tcp);
    relay_ = std::make_unique<Relay>(tickets_, options);
  }
  std::string route_of(const Ticket& ticket) const {
    return relayed_route(ticket, home_.transport->address());
  }
  // A link from `a` to `b` through the relay.
  void relay_link(Side& a, Side& b, LinkId& at_a, LinkId& at_b) {
    const Ticket ours = drawn();
    const Ticket theirs = drawn();
    ASSERT_TRUE(relay_->expect(ours, theirs, "a", steady_now()).ok());
    const std::size_t before = b.events.opened.size();
    at_a = a.connect(route_of(ours));
    ASSERT_TRUE(b.transport->meet(route_of(theirs)).ok());
    ASSERT_TRUE(run_until(
        [&] { return a.events.was_incoming.contains(at_a) && b.events.opened.size() > before; }));
    at_b = b.events.opened.back();
  }

  const std::shared_ptr<TicketBook> tickets_ = std::make_shared<TicketBook>();
  Side home_;
  std::unique_ptr<Relay> relay_;
};

TEST_F(RelayTest, ForwardsFramesBetweenTwoNodesThatKnowEachOther) {
  open_relay();
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  relay_link(a, b, at_a, at_b);
  EXPECT_FALSE(a.events.was_incoming[at_a]);
  EXPECT_TRUE(b.events.was_incoming[at_b]);
  // Each sees the other's key, not the relay's, which is node-1.
  EXPECT_EQ(a.transport->peer(at_a)->name, "node-3");
  EXPECT_EQ(b.transport->peer(at_b)->name, "node-2");
  for (std::uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(i * 37'001 % 300'000, i)}));
    ASSERT_TRUE(b.send(at_b, {FrameType::kTokens, pattern(i * 11 % 700, i + 1)}));
  }
  ASSERT_TRUE(run_until([&] { return received(a, at_a) == 50 && received(b, at_b) == 50; }));
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(b.events.frames[at_b][i].payload, pattern(i * 37'001 % 300'000, i));
    EXPECT_EQ(a.events.frames[at_a][i].payload, pattern(i * 11 % 700, i + 1));
  }
  EXPECT_EQ(relay_->figures().links, 1U);
  EXPECT_GT(relay_->figures().bytes_total, 1'000'000U);
  a.close(at_a);
  ASSERT_TRUE(run_until([&] { return b.events.closed.contains(at_b); }));
  ASSERT_TRUE(run_until([&] { return relay_->figures().links == 0; }));
}

TEST_F(RelayTest, IsNoProxyForOtherConnections) {
  open_relay();
  Side a, b;
  open(a);
  open(b);
  RawPeer stranger(home_.transport->address());
  stranger.say(ticket_head(drawn()));
  ASSERT_TRUE(run_until([&] { return stranger.hung_up(); }));
  ASSERT_EQ(home_.refused.size(), 1U);
  EXPECT_NE(home_.refused[0].find("ticket"), std::string::npos);
  // The tickets of a link that is open bring no third connection into it.
  const Ticket ours = drawn();
  const Ticket theirs = drawn();
  ASSERT_TRUE(relay_->expect(ours, theirs, "a", steady_now()).ok());
  const LinkId at_a = a.connect(route_of(ours));
  ASSERT_TRUE(b.transport->meet(route_of(theirs)).ok());
  ASSERT_TRUE(run_until([&] { return b.events.opened.size() == 1; }));
  for (const Ticket& ticket : {ours, theirs}) {
    RawPeer again(home_.transport->address());
    again.say(ticket_head(ticket));
    ASSERT_TRUE(run_until([&] { return again.hung_up(); }));
  }
  EXPECT_FALSE(a.events.closed.contains(at_a));
}

TEST_F(RelayTest, AnOutsiderWithATicketFailsAtTheHandshake) {
  open_relay();
  Side b;
  open(b);
  const Ticket ours = drawn();
  const Ticket theirs = drawn();
  ASSERT_TRUE(relay_->expect(ours, theirs, "a", steady_now()).ok());
  ASSERT_TRUE(b.transport->meet(route_of(theirs)).ok());
  RawPeer thief(home_.transport->address());
  thief.say(ticket_head(ours));
  thief.say(pattern(500, 1));
  ASSERT_TRUE(run_until([&] { return !b.refused.empty(); }));
  EXPECT_TRUE(b.events.opened.empty());
  ASSERT_TRUE(run_until([&] { return thief.hung_up(); }));
}

TEST_F(RelayTest, HoldsSoManyLinksOfANodeAndForgetsThoseThatNeverCame) {
  RelayOptions options;
  options.links = 3;
  options.links_of_node = 2;
  open_relay(options);
  const TimePoint now = steady_now();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(relay_->expect(drawn(), drawn(), "a", now).ok());
  const Status third = relay_->expect(drawn(), drawn(), "a", now);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kNoCapacity);
  EXPECT_TRUE(relay_->expect(drawn(), drawn(), "b", now).ok());
  EXPECT_FALSE(relay_->expect(drawn(), drawn(), "c", now).ok()) << "the whole relay is full";
  tickets_->forget_late(now + std::chrono::seconds(limits::kTicketSeconds));
  EXPECT_TRUE(relay_->expect(drawn(), drawn(), "a", now).ok());
}

TEST_F(RelayTest, AnOrderToMeetThatComesTooEarlyIsTriedAgain) {
  TcpOptions tcp;
  tcp.tickets = tickets_;
  Side a, b;
  open(a, tcp);
  open(b);
  const Ticket ticket = drawn();
  ASSERT_TRUE(b.transport->meet(relayed_route(ticket, a.transport->address())).ok());
  ASSERT_TRUE(run_until([&] { return !a.refused.empty(); })) << "a does not know the ticket yet";
  const LinkId at_a = a.connect(Route{RouteKind::kReverse, {}, ticket}.text());
  ASSERT_TRUE(
      run_until([&] { return a.events.was_incoming.contains(at_a) && !b.events.opened.empty(); }));
  EXPECT_TRUE(b.refused.empty());
}

TEST_F(RelayTest, ALinkWhoseRelayEndsEnds) {
  open_relay();
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  relay_link(a, b, at_a, at_b);
  relay_.reset();
  ASSERT_TRUE(
      run_until([&] { return a.events.closed.contains(at_a) && b.events.closed.contains(at_b); }));
}

TEST_F(RelayTest, AReverseRouteIsOpenedByTheOtherSide) {
  TcpOptions tcp;
  tcp.tickets = tickets_;
  Side a, b;
  open(a, tcp);
  open(b);
  const Ticket ticket = drawn();
  const LinkId at_a = a.connect(Route{RouteKind::kReverse, {}, ticket}.text());
  ASSERT_TRUE(b.transport->meet(relayed_route(ticket, a.transport->address())).ok());
  ASSERT_TRUE(
      run_until([&] { return a.events.was_incoming.contains(at_a) && !b.events.opened.empty(); }));
  EXPECT_FALSE(a.events.was_incoming[at_a]) << "a dialled, as the pipeline sees it";
  EXPECT_TRUE(b.events.was_incoming[b.events.opened[0]]);
  ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(100, 1)}));
  ASSERT_TRUE(run_until([&] { return received(b, b.events.opened[0]) == 1; }));
}

TEST_F(RelayTest, AReverseRouteThatIsClosedTakesNoConnection) {
  TcpOptions tcp;
  tcp.tickets = tickets_;
  Side a;
  open(a, tcp);
  const Ticket ticket = drawn();
  const LinkId at_a = a.connect(Route{RouteKind::kReverse, {}, ticket}.text());
  a.close(at_a);
  RawPeer late(a.transport->address());
  late.say(ticket_head(ticket));
  ASSERT_TRUE(run_until([&] { return late.hung_up() && a.events.closed.contains(at_a); }));
  EXPECT_TRUE(a.events.opened.empty());
}

TEST_F(RelayTest, OnlyRoutesWithATicketAndAnAddressAreMet) {
  Side a;
  open(a);
  EXPECT_FALSE(a.transport->meet("127.0.0.1:1").ok());
  EXPECT_FALSE(a.transport->meet(Route{RouteKind::kReverse, {}, drawn()}.text()).ok());
  const LinkId without_book = a.connect(Route{RouteKind::kReverse, {}, drawn()}.text());
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(without_book); }));
}

// Connections without TLS, which a relay cannot tell from others.
class RawRelayed : public RelayTest {
 protected:
  struct End {
    explicit End(const std::string& address) : peer(address) {}
    void hear() {
      std::array<std::byte, 65'536> bytes{};
      ssize_t got = 0;
      do {
        got = ::recv(peer.socket(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got > 0) heard.insert(heard.end(), bytes.begin(), bytes.begin() + got);
      } while (got > 0);
      over = over || got == 0 || errno != EAGAIN;
    }
    RawPeer peer;
    Bytes heard;
    bool over = false;  // the other side has closed its direction
  };

  void relay_raw(const std::string& account = "a", bool brief = false) {
    const Ticket ours = drawn();
    const Ticket theirs = drawn();
    ASSERT_TRUE(relay_->expect(ours, theirs, account, steady_now(), brief).ok());
    a_.emplace(home_.transport->address());
    b_.emplace(home_.transport->address());
    a_->peer.say(ticket_head(ours));
    b_->peer.say(ticket_head(theirs));
    ASSERT_TRUE(run_until([&] { return relay_->figures().links == 1; }));
  }
  bool both_over() {
    return run_until([&] {
      a_->hear();
      b_->hear();
      return a_->over && b_->over && relay_->figures().links == 0;
    });
  }

  std::optional<End> a_, b_;
};

TEST_F(RawRelayed, ASlowReaderGetsEverythingAndHoldsUpItsSender) {
  open_relay();
  relay_raw();
  const Bytes all = pattern(std::uint32_t{64} << 20U, 7);
  std::size_t sent = 0;
  bool full = false;
  const auto send = [&] {
    while (sent < all.size()) {
      const ssize_t more = ::send(a_->peer.socket(), all.data() + sent, all.size() - sent,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
      if (more < 0) return errno == EAGAIN;
      sent += static_cast<std::size_t>(more);
    }
    return false;
  };
  ASSERT_TRUE(run_until([&] { return full = full || send(); }));
  EXPECT_LT(sent, all.size()) << "neither side buffers so much";
  ASSERT_TRUE(run_until([&] {
    send();
    b_->hear();
    return b_->heard.size() == all.size();
  }));
  EXPECT_EQ(b_->heard, all);
}

TEST_F(RawRelayed, ALinkWithoutBytesEnds) {
  RelayOptions options;
  options.idle = std::chrono::milliseconds(100);
  open_relay(options);
  relay_raw();
  EXPECT_TRUE(both_over());
}

TEST_F(RawRelayed, AClosedDirectionLeavesTheOtherOne) {
  open_relay();
  relay_raw();
  a_->peer.say(pattern(1'000, 1));
  ASSERT_EQ(::shutdown(a_->peer.socket(), SHUT_WR), 0);
  ASSERT_TRUE(run_until([&] {
    b_->hear();
    return b_->over;
  }));
  EXPECT_EQ(b_->heard, pattern(1'000, 1));
  b_->peer.say(pattern(500, 2));
  ASSERT_EQ(::shutdown(b_->peer.socket(), SHUT_WR), 0);
  ASSERT_TRUE(both_over());
  EXPECT_EQ(a_->heard, pattern(500, 2));
}

TEST_F(RawRelayed, AnEndThatWaitsInVainIsClosedAndCountsNoMore) {
  RelayOptions options;
  options.links = 1;
  open_relay(options);
  const Ticket ours = drawn();
  ASSERT_TRUE(relay_->expect(ours, drawn(), "a", steady_now()).ok());
  End one(home_.transport->address());
  one.peer.say(ticket_head(ours));
  ASSERT_TRUE(run_until([&] { return tickets_->size() == 1; })) << "it is taken";
  EXPECT_FALSE(relay_->expect(drawn(), drawn(), "a", steady_now()).ok());
  tickets_->forget_late(steady_now() + std::chrono::seconds(limits::kTicketSeconds));
  ASSERT_TRUE(run_until([&] {
    one.hear();
    return one.over;
  }));
  EXPECT_TRUE(relay_->expect(drawn(), drawn(), "a", steady_now()).ok());
}

TEST_F(RawRelayed, LinksOfCommandsAreFewAndBrief) {
  RelayOptions options;
  options.brief_links = 3;
  options.brief_links_of_node = 2;
  options.brief = std::chrono::milliseconds(100);
  open_relay(options);
  relay_raw("a", true);
  ASSERT_TRUE(run_until([&] {
    if (!a_->over) (void)::send(a_->peer.socket(), "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    a_->hear();
    return relay_->figures().links == 0;
  })) << "whether bytes move or not";
  const auto expect = [&](const char* account, bool brief) {
    return relay_->expect(drawn(), drawn(), account, steady_now(), brief).ok();
  };
  ASSERT_TRUE(run_until([&] { return expect("a", true); }));
  EXPECT_TRUE(expect("a", true));
  EXPECT_FALSE(expect("a", true));
  EXPECT_TRUE(expect("b", true));
  EXPECT_FALSE(expect("c", true));
  EXPECT_TRUE(expect("a", false)) << "a pipeline has room";
}

TEST_F(RawRelayed, OnlyLinksOfMembersGoOn) {
  open_relay();
  relay_raw("a");
  relay_->keep_only({"a", "b"});
  a_->peer.say(pattern(10, 1));
  ASSERT_TRUE(run_until([&] {
    b_->hear();
    return b_->heard.size() == 10;
  }));
  relay_->keep_only({"b"});
  EXPECT_TRUE(both_over());
}

TEST_F(RawRelayed, ATicketOfARelayThatEndedBringsNothing) {
  open_relay();
  const Ticket ours = drawn();
  const Ticket theirs = drawn();
  ASSERT_TRUE(relay_->expect(ours, theirs, "a", steady_now()).ok());
  relay_.reset();
  for (const Ticket& ticket : {ours, theirs}) {
    End late(home_.transport->address());
    late.peer.say(ticket_head(ticket));
    if (ticket == ours) continue;
    ASSERT_TRUE(run_until([&] {
      late.hear();
      return late.over;
    }));
  }
}

// A relay that does what it likes with the bytes.
class Meddler {
 public:
  using Change = std::function<void(Bytes& bytes, std::size_t total)>;  // of one read

  Meddler() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
    EXPECT_EQ(::listen(listener_, 2), 0);
  }
  ~Meddler() {
    for (const int one : ends_) ::close(one);
    ::close(listener_);
  }
  std::string address() const {
    sockaddr_in at{};
    socklen_t size = sizeof(at);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  // Forwards what has come; `change` sees the bytes of the first connection.
  void pump() {
    if (ends_.size() < 2) {
      const int taken = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
      if (taken >= 0) ends_.push_back(taken);
      return;
    }
    for (std::size_t from = 0; from < 2; ++from) forward(from);
  }
  Change change;
  Bytes seen;  // of the first connection, behind its ticket

 private:
  void forward(std::size_t from) {
    Bytes bytes(64 * 1024);
    const std::size_t want = skipped_[from] < kHead ? kHead - skipped_[from] : bytes.size();
    const ssize_t got = ::recv(ends_[from], bytes.data(), want, MSG_DONTWAIT);
    if (got == 0) ::shutdown(ends_[1 - from], SHUT_WR);
    if (got <= 0) return;
    if (skipped_[from] < kHead) {
      skipped_[from] += static_cast<std::size_t>(got);
      return;
    }
    bytes.resize(static_cast<std::size_t>(got));
    if (from == 0) {
      const std::size_t total = seen.size();
      seen.insert(seen.end(), bytes.begin(), bytes.end());
      if (change) change(bytes, total);
    }
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t more =
          ::send(ends_[1 - from], bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more < 0 && errno == EAGAIN) continue;  // the test's peers read little
      if (more < 0) return;
      sent += static_cast<std::size_t>(more);
    }
  }
  static constexpr std::size_t kHead = 33;
  int listener_;
  std::vector<int> ends_;
  std::array<std::size_t, 2> skipped_{};
};

class MeddledLink : public RelayTest {
 protected:
  // Opens a link through the meddler, changes what `a` then sends, and checks that `b` gets a
  // prefix of the frames, unchanged, and then the end of the link.
  void meddle(const Meddler::Change& change) {
    Side a, b;
    open(a);
    open(b);
    Meddler relay;
    const LinkId at_a = a.connect(relayed_route(drawn(), relay.address()));
    ASSERT_TRUE(run_until([&] {  // the first of the two connections is that of `a`
      relay.pump();
      return a.transport->links() == 1;
    }));
    ASSERT_TRUE(b.transport->meet(relayed_route(drawn(), relay.address())).ok());
    ASSERT_TRUE(run_until([&] {
      relay.pump();
      return a.events.was_incoming.contains(at_a) && !b.events.opened.empty();
    }));
    const LinkId at_b = b.events.opened[0];
    relay.change = change;
    const Bytes secret = pattern(5'000, 42);
    std::size_t sent = 0;
    ASSERT_TRUE(run_until([&] {
      if (!a.events.closed.contains(at_a) && sent < 200) {
        EXPECT_TRUE(a.send(at_a, {FrameType::kBatch, secret}));
        ++sent;
      }
      relay.pump();
      return b.events.closed.contains(at_b);
    }));
    EXPECT_LT(received(b, at_b), sent);
    for (const Frame& frame : b.events.frames[at_b]) {
      EXPECT_EQ(frame.type, FrameType::kBatch);
      EXPECT_EQ(frame.payload, secret);
    }
    const auto found =
        std::search(relay.seen.begin(), relay.seen.end(), secret.begin(), secret.begin() + 16);
    EXPECT_EQ(found, relay.seen.end()) << "the relay sees no byte of a frame in clear";
  }
};

TEST_F(MeddledLink, AFlippedBitEndsIt) {
  for (const std::size_t where : {0U, 1U, 2U, 5U, 100U}) {
    meddle([where, done = false](Bytes& bytes, std::size_t) mutable {
      if (done || bytes.size() <= where) return;
      bytes[where] ^= std::byte{0x10};
      done = true;
    });
  }
}

TEST_F(MeddledLink, SwappedRecordsEndIt) {
  meddle([held = Bytes(), done = false](Bytes& bytes, std::size_t) mutable {
    if (done) return;
    if (held.empty()) {
      held = std::exchange(bytes, {});
      return;
    }
    bytes.insert(bytes.end(), held.begin(), held.end());
    done = true;
  });
}

TEST_F(MeddledLink, RepeatedRecordsEndIt) {
  meddle([done = false](Bytes& bytes, std::size_t) mutable {
    if (done) return;
    const Bytes again = bytes;
    bytes.insert(bytes.end(), again.begin(), again.end());
    done = true;
  });
}

TEST_F(MeddledLink, LeftOutRecordsEndIt) {
  meddle([done = false](Bytes& bytes, std::size_t) mutable {
    if (!std::exchange(done, true)) bytes.clear();
  });
}

}  // namespace
}  // namespace hearth
