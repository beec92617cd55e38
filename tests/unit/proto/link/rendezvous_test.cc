// Punched links: what the coordinator shows the two ends, and what each does with it. A
// simultaneous open needs routers or a delay, so here one end listens on the port that it has shown
// (tests/e2e/nat_test.py has both).
#include "proto/link/rendezvous.h"

#include <array>
#include <optional>

#include "base/descriptor.h"
#include "proto/link/route.h"
#include "tests/unit/proto/transport_fixture.h"

namespace hearth {
namespace {

Ticket new_ticket() {
  Ticket ticket;
  random_bytes(ticket.bytes);
  return ticket;
}

TimePoint test_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  return at;
}

// One end of a punched link, with sockets that may share a local port.
class RawEnd {
 public:
  Descriptor bound(std::uint16_t port) {
    Descriptor made(::socket(AF_INET, SOCK_STREAM, 0));
    const int on = 1;
    EXPECT_EQ(::setsockopt(*made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    const sockaddr_in here = loopback(port);
    EXPECT_EQ(::bind(*made, reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
    sockaddr_in at{};
    socklen_t size = sizeof(at);
    EXPECT_EQ(::getsockname(*made, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    return made;
  }
  // Shows a ticket at this address, from the port of the connection before or from another one.
  void show(const std::string& address, const Ticket& ticket, bool same_port = true) {
    Descriptor made = bound(same_port ? port_ : 0);
    const sockaddr_in to = loopback(parse_address(address)->port);
    EXPECT_EQ(::connect(*made, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    const Bytes head = ticket_head(ticket);
    EXPECT_EQ(::send(*made, head.data(), head.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(head.size()));
    shown_.push_back(std::move(made));
  }
  // What has come on the first connection; nothing: none yet.
  std::optional<Bytes> answer() const {
    Bytes bytes(kPunchAnswerBytes);
    const ssize_t got = ::recv(*shown_[0], bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_PEEK);
    if (got < 0) return std::nullopt;
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }
  void hang_up() { shown_.clear(); }
  void listen() {
    listener_ = bound(port_);
    EXPECT_EQ(::listen(*listener_, 4), 0);
    EXPECT_EQ(::fcntl(*listener_, F_SETFL, O_NONBLOCK), 0);
  }
  // Below 0: no connection waits.
  int accept() const { return ::accept(*listener_, nullptr, nullptr); }
  std::uint16_t port() const { return port_; }

 private:
  std::vector<Descriptor> shown_;
  Descriptor listener_;
  std::uint16_t port_ = 0;
};

class RendezvousTest : public testing::TransportTest {
 protected:
  RendezvousTest() {
    TcpOptions tcp;
    tcp.tickets = tickets_;
    open(data_, tcp);
    open(control_, tcp);
  }
  std::string route_of(const Ticket& secret) const {
    return punched_route(secret, data(), parse_address(control())->port);
  }
  std::string data() const { return data_.transport->address(); }
  std::string control() const { return control_.transport->address(); }
  void show_both(RawEnd& end, const Ticket& secret, bool same_port = true) {
    end.show(data(), shown_ticket(secret, CoordinatorPort::kData), false);
    end.show(control(), shown_ticket(secret, CoordinatorPort::kControl), same_port);
  }
  Status expect(const std::string& account = "a", TimePoint now = test_now()) {
    dialler_ = new_ticket();
    acceptor_ = new_ticket();
    return rendezvous_.expect(dialler_, acceptor_, account, now);
  }

  const std::shared_ptr<TicketBook> tickets_ = std::make_shared<TicketBook>();
  Side data_, control_;
  Rendezvous rendezvous_{tickets_};
  Ticket dialler_;
  Ticket acceptor_;
};

TEST_F(RendezvousTest, EachEndGetsTheAddressOfTheOther) {
  ASSERT_TRUE(expect().ok());
  RawEnd one, other;
  show_both(one, dialler_);
  ASSERT_TRUE(run_until([&] { return tickets_->size() == 2; }));
  EXPECT_FALSE(one.answer()) << "the other one has not come";
  show_both(other, acceptor_);
  ASSERT_TRUE(run_until([&] { return one.answer() && other.answer(); }));
  EXPECT_EQ(decode_punch_answer(dialler_, *one.answer())->text(),
            "127.0.0.1:" + std::to_string(other.port()));
  EXPECT_EQ(decode_punch_answer(acceptor_, *other.answer())->text(),
            "127.0.0.1:" + std::to_string(one.port()));
  EXPECT_EQ(tickets_->size(), 0U);
  EXPECT_EQ(rendezvous_.under_way(), 0U);
}

TEST_F(RendezvousTest, ARouterThatGivesEachConnectionAnotherPortEndsIt) {
  ASSERT_TRUE(expect().ok());
  RawEnd one, other;
  show_both(one, dialler_, false);
  ASSERT_TRUE(run_until([&] { return one.answer().has_value(); }));
  EXPECT_TRUE(one.answer()->empty()) << "it was told nothing";
  // The other end comes late, and learns nothing of the first one.
  show_both(other, acceptor_);
  ASSERT_TRUE(run_until([&] { return rendezvous_.under_way() == 0; }));
  EXPECT_TRUE(other.answer()->empty());
}

TEST_F(RendezvousTest, AnEndThatDoesNotComeEndsItWithTheTickets) {
  const TimePoint begin = test_now();
  ASSERT_TRUE(expect("a", begin).ok());
  RawEnd one;
  show_both(one, dialler_);
  ASSERT_TRUE(run_until([&] { return tickets_->size() == 2; }));
  EXPECT_EQ(rendezvous_.under_way(), 1U);
  tickets_->forget_late(begin + std::chrono::seconds(limits::kTicketSeconds));
  ASSERT_TRUE(run_until([&] { return one.answer().has_value(); }));
  EXPECT_TRUE(one.answer()->empty());
  EXPECT_EQ(rendezvous_.under_way(), 0U);
}

TEST_F(RendezvousTest, AnEndThatHasGoneDisturbsNothing) {
  ASSERT_TRUE(expect().ok());
  RawEnd one, other;
  show_both(one, dialler_);
  one.hang_up();
  show_both(other, acceptor_);
  ASSERT_TRUE(run_until([&] { return other.answer().has_value(); }));
  EXPECT_EQ(tickets_->size(), 0U);
}

TEST_F(RendezvousTest, TheSecretItselfIsNoTicketAndNoTicketIsGoodTwice) {
  ASSERT_TRUE(expect().ok());
  for (const Ticket& ticket : {dialler_, acceptor_}) {
    RawEnd thief;
    thief.show(data(), ticket, false);
    ASSERT_TRUE(run_until([&] { return thief.answer().has_value(); }));
    EXPECT_TRUE(thief.answer()->empty());
  }
  EXPECT_EQ(tickets_->size(), 4U);
  RawEnd one, again;
  show_both(one, dialler_);
  ASSERT_TRUE(run_until([&] { return tickets_->size() == 2; }));
  show_both(again, dialler_);
  ASSERT_TRUE(run_until([&] { return again.answer().has_value(); }));
  EXPECT_TRUE(again.answer()->empty());
}

TEST_F(RendezvousTest, TheLinksUnderWayAreLimited) {
  for (std::uint32_t i = 0; i < limits::kPunchesOfNode; ++i) ASSERT_TRUE(expect("a").ok());
  EXPECT_EQ(expect("a").error().code, ErrorCode::kNoCapacity);
  for (std::uint32_t i = limits::kPunchesOfNode; i < limits::kPunches; ++i) {
    ASSERT_TRUE(expect("node " + std::to_string(i)).ok());
  }
  EXPECT_EQ(expect("b").error().code, ErrorCode::kNoCapacity);
  const TimePoint later = test_now() + std::chrono::seconds(limits::kTicketSeconds);
  EXPECT_TRUE(expect("a", later).ok()) << "those before are over";
}

TEST_F(RendezvousTest, TheNodeThatDialsBecomesTheClientOfAnEndThatConnectsToo) {
  Side a, b;
  open(a);
  open(b);
  ASSERT_TRUE(expect().ok());
  RawEnd other;
  show_both(other, acceptor_);
  other.listen();
  const LinkId at_a = a.connect(route_of(dialler_));
  int accepted = -1;
  ASSERT_TRUE(run_until([&] { return (accepted = other.accept()) >= 0; }));
  b.transport->adopt(accepted);
  ASSERT_TRUE(run_until([&] { return a.events.was_incoming.contains(at_a); }));
  EXPECT_FALSE(a.events.was_incoming[at_a]);
  EXPECT_EQ(a.transport->peer(at_a)->name, "node-4");
  ASSERT_TRUE(run_until([&] { return b.events.opened.size() == 1; }));
  ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, testing::pattern(300'000, 1)}));
  ASSERT_TRUE(run_until([&] { return received(b, b.events.opened[0]) == 1; }));
}

TEST_F(RendezvousTest, TheNodeThatIsMetBecomesTheServer) {
  Side a, b;
  const auto own = std::make_shared<TicketBook>();
  TcpOptions tcp;
  tcp.tickets = own;
  open(a, tcp);
  open(b);
  ASSERT_TRUE(expect().ok());
  RawEnd other;
  show_both(other, dialler_);
  other.listen();
  ASSERT_TRUE(b.transport->meet(route_of(acceptor_)).ok());
  int accepted = -1;
  ASSERT_TRUE(run_until([&] { return (accepted = other.accept()) >= 0; }));
  const Ticket ticket = new_ticket();
  const LinkId at_a = a.connect(Route{RouteKind::kReverse, {}, ticket}.text());
  own->take(ticket, test_now())(accepted);
  ASSERT_TRUE(run_until(
      [&] { return a.events.was_incoming.contains(at_a) && b.events.opened.size() == 1; }));
  EXPECT_TRUE(b.events.was_incoming[b.events.opened[0]]);
}

TEST_F(RendezvousTest, APeerOutsideTheRosterIsRefused) {
  Side a;
  open(a);
  ASSERT_TRUE(expect().ok());
  RawEnd other;
  show_both(other, acceptor_);
  other.listen();
  const LinkId at_a = a.connect(route_of(dialler_));
  int accepted = -1;
  ASSERT_TRUE(run_until([&] { return (accepted = other.accept()) >= 0; }));
  const Descriptor foreign(accepted);
  const Bytes bytes(64, std::byte{0x16});
  EXPECT_GT(::send(*foreign, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(at_a); }));
  EXPECT_FALSE(a.events.was_incoming.contains(at_a));
}

TEST_F(RendezvousTest, APeerThatRefusesIsTriedAFewTimes) {
  Side a;
  open(a);
  ASSERT_TRUE(expect().ok());
  RawEnd other;
  show_both(other, acceptor_);  // nothing listens on its port
  const LinkId at_a = a.connect(route_of(dialler_));
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(at_a); }));
  EXPECT_NE(a.events.closed.at(at_a).message.find("through both routers"), std::string::npos)
      << a.events.closed.at(at_a).message;
  EXPECT_EQ(a.transport->links(), 0U);
}

TEST_F(RendezvousTest, APeerThatComesAfterSomeTriesIsReached) {
  Side a, b;
  open(a);
  open(b);
  ASSERT_TRUE(expect().ok());
  RawEnd other;
  show_both(other, acceptor_);
  const LinkId at_a = a.connect(route_of(dialler_));
  ASSERT_TRUE(run_until([&] { return other.answer().has_value(); }));
  other.listen();
  int accepted = -1;
  ASSERT_TRUE(run_until([&] { return (accepted = other.accept()) >= 0; }));
  b.transport->adopt(accepted);
  ASSERT_TRUE(run_until([&] { return a.events.was_incoming.contains(at_a); }));
}

TEST_F(RendezvousTest, ALinkThatIsClosedMeanwhileLeavesNothing) {
  Side a;
  open(a);
  ASSERT_TRUE(expect().ok());
  const LinkId at_a = a.connect(route_of(dialler_));
  ASSERT_TRUE(run_until([&] { return tickets_->size() == 2; }));
  a.close(at_a);
  EXPECT_EQ(a.transport->links(), 0U);
  RawEnd other;
  show_both(other, acceptor_);
  ASSERT_TRUE(run_until([&] { return other.answer().has_value(); }));
  EXPECT_FALSE(a.events.was_incoming.contains(at_a));
  EXPECT_EQ(a.events.closed.at(at_a).code, ErrorCode::kCancelled);
}

TEST_F(RendezvousTest, ACoordinatorThatIsNotThereFailsTheLink) {
  Side a;
  open(a);
  const LinkId at_a = a.connect(punched_route(new_ticket(), "127.0.0.1:1", 1));
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(at_a); }));
  EXPECT_NE(a.events.closed.at(at_a).message.find("the coordinator"), std::string::npos);
}

// Listeners in the place of the coordinator's ports, whose answers may be anything.
struct HostileTest : RendezvousTest {
  HostileTest() {
    for (RawEnd* port : {&liar, &liar_control}) {
      port->bound(0);
      port->listen();
    }
    open(a);
  }
  std::string route(const Ticket& secret) const {
    return punched_route(secret, "127.0.0.1:" + std::to_string(liar.port()), liar_control.port());
  }
  // What becomes of a link whose node gets this answer.
  std::string outcome(const Ticket& secret, const Bytes& answer) {
    const LinkId link = a.connect(route(secret));
    int accepted = -1;
    EXPECT_TRUE(run_until([&] { return (accepted = liar.accept()) >= 0; }));
    const Descriptor taken(accepted);
    EXPECT_EQ(::send(*taken, answer.data(), answer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answer.size()));
    ::shutdown(*taken, SHUT_WR);
    EXPECT_TRUE(run_until([&] { return a.events.closed.contains(link); }));
    return a.events.closed.at(link).message;
  }
  RawEnd liar, liar_control;
  Side a;
};

TEST_F(HostileTest, AnAnswerWithoutTheSecretIsRefused) {
  const Ticket secret = new_ticket();
  const Bytes forged = encode_punch_answer(new_ticket(), {"127.0.0.1", 4000});
  EXPECT_NE(outcome(secret, forged).find("not from the coordinator"), std::string::npos);
  Bytes cut = encode_punch_answer(secret, {"127.0.0.1", 4000});
  cut.pop_back();
  EXPECT_NE(outcome(secret, cut).find("gives no address"), std::string::npos);
  EXPECT_NE(outcome(secret, {}).find("gives no address"), std::string::npos);
  EXPECT_NE(outcome(secret, Bytes(200, std::byte{0xff})).find("1 to 64"), std::string::npos);
  EXPECT_NE(outcome(secret, Bytes(200, std::byte{0})).find("1 to 64"), std::string::npos);
}

TEST_F(HostileTest, APortOfTheSystemIsNotDialled) {
  const Ticket secret = new_ticket();
  EXPECT_NE(outcome(secret, encode_punch_answer(secret, {"127.0.0.1", 443})).find("port"),
            std::string::npos);
}

TEST_F(HostileTest, TheLinksOfAProcessAreLimited) {
  for (std::uint32_t i = 0; i < limits::kPunchesHere; ++i) {
    a.connect(route(new_ticket()));
  }
  EXPECT_EQ(a.transport->links(), limits::kPunchesHere);
  const LinkId more = a.connect(route(new_ticket()));
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(more); }));
  EXPECT_EQ(a.events.closed.at(more).code, ErrorCode::kNoCapacity);
  const Status met = a.transport->meet(route(new_ticket()));
  EXPECT_EQ(met.error().code, ErrorCode::kNoCapacity);
}

TEST(PunchAnswer, IsReadAsItWasWritten) {
  const Ticket secret = new_ticket();
  for (const Address& address :
       {Address{"203.0.113.7", 1024}, Address{"2001:db8:1:2:3:4:5:6", 65535}}) {
    const Bytes answer = encode_punch_answer(secret, address);
    EXPECT_EQ(punch_answer_bytes(answer[0]), answer.size());
    EXPECT_LE(answer.size(), kPunchAnswerBytes);
    EXPECT_EQ(*decode_punch_answer(secret, answer), address);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      Bytes changed = answer;
      changed[i] ^= std::byte{1};
      EXPECT_FALSE(decode_punch_answer(secret, changed).ok()) << i;
    }
  }
}

TEST(PunchAddress, MustBeOneMachineThatACoordinatorThereCouldSee) {
  const Address outside{"203.0.113.1", 4000};
  const Address home{"192.168.1.1", 4000};
  const Address here{"127.0.0.1", 4000};
  const Address six{"2001:db8::1", 4000};
  EXPECT_TRUE(check_punch_address({"198.51.100.7", 1024}, outside).ok());
  EXPECT_TRUE(check_punch_address({"198.51.100.7", 50'000}, home).ok());
  EXPECT_TRUE(check_punch_address({"10.0.0.7", 50'000}, home).ok());
  EXPECT_TRUE(check_punch_address({"127.0.0.1", 50'000}, here).ok());
  EXPECT_TRUE(check_punch_address({"2001:db8::2", 50'000}, six).ok());
  for (const Address& refused :
       {Address{"198.51.100.7", 1023}, Address{"198.51.100.7", 22}, Address{"10.0.0.7", 50'000},
        Address{"100.64.0.7", 50'000}, Address{"127.0.0.1", 50'000}, Address{"0.0.0.0", 50'000},
        Address{"224.0.0.1", 50'000}, Address{"255.255.255.255", 50'000},
        Address{"2001:db8::2", 50'000}}) {
    EXPECT_FALSE(check_punch_address(refused, outside).ok()) << refused.text();
  }
  for (const Address& refused :
       {Address{"::", 50'000}, Address{"ff02::1", 50'000}, Address{"::1", 50'000},
        Address{"fe80::1", 50'000}, Address{"::ffff:127.0.0.1", 50'000},
        Address{"203.0.113.7", 50'000}}) {
    EXPECT_FALSE(check_punch_address(refused, six).ok()) << refused.text();
  }
}

}  // namespace
}  // namespace hearth
