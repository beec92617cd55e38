// What peers may make a transport hold: of one link, of one peer on all its links, and of all.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "proto/link/ping.h"
#include "proto/link/tcp_transport.h"
#include "tests/unit/proto/transport_fixture.h"

namespace hearth {
namespace {

using testing::pattern;
using testing::TlsPeer;
using testing::wire;

constexpr std::chrono::minutes kLong{10};
constexpr std::size_t kKernelBytes = 16 * limits::kMiB;  // that a connection takes at the most

class TcpTransportMemoryTest : public testing::TransportTest {
 protected:
  // Peers of this side say nothing for as long as a test likes.
  void open_patient(Side& side, TcpOptions options) {
    options.first_frame_deadline = options.stall_deadline = options.silence = kLong;
    open(side, std::move(options));
  }
  // Frames of 1 MiB until there is no room.
  static std::size_t fill(Side& side, LinkId link) {
    std::size_t accepted = 0;
    while (side.send(link, {FrameType::kBatch, Bytes(limits::kMiB)}).ok()) ++accepted;
    return accepted * limits::kMiB;
  }
};

TEST_F(TcpTransportMemoryTest, EachPingOfABurstIsAnswered) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  for (std::uint32_t i = 0; i < limits::kPings; ++i) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kPing, encode(Ping{limits::kPingBytes, 0})}));
  }
  ASSERT_TRUE(run_until([&] { return received(a, at_a) == limits::kPings; }));
  for (const Frame& frame : a.events.frames[at_a]) {
    EXPECT_EQ(frame.payload.size(), limits::kPingBytes);
  }
}

TEST_F(TcpTransportMemoryTest, OneAnswerToAPingIsUnderWay) {
  Side b;
  open_patient(b, {.send_queue_bytes = 16 * limits::kMiB});
  TlsPeer peer = known_peer(b);
  const int little = 64 * 1024;  // of the answers is taken by a peer that does not read
  ::setsockopt(peer.raw().socket(), SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
  const LinkId link = b.events.opened.back();
  const Bytes ping = wire(FrameType::kPing, encode(Ping{limits::kPingBytes, 0}));
  for (std::uint32_t i = 0; i < limits::kPings; ++i) peer.say(ping);
  peer.say(wire(FrameType::kHello, {}));
  ASSERT_TRUE(run_until([&] { return received(b, link) == 1; }));
  EXPECT_TRUE(b.send(link, {FrameType::kBatch, Bytes(14 * limits::kMiB)})) << "one is queued";
  for (std::uint32_t i = 0; i < limits::kPings; ++i) peer.say(ping);
  ASSERT_TRUE(run_until([&] { return b.events.closed.contains(link); }));
  EXPECT_EQ(b.events.closed.at(link).code, ErrorCode::kInvalidInput);
}

TEST_F(TcpTransportMemoryTest, LinksOfOnePeerShareItsQueueAndLeaveRoomToOthers) {
  constexpr std::size_t kShare = 64 * limits::kMiB;
  constexpr std::size_t kAll = 128 * limits::kMiB;
  Side b;
  open_patient(b, {.send_queue_bytes = kShare, .all_queue_bytes = kAll});
  std::vector<TlsPeer> peers;
  std::vector<LinkId> links;
  for (const char* name : {"greedy", "greedy", "other", "third"}) {
    peers.push_back(known_peer(b, name));
    links.push_back(b.events.opened.back());
  }
  const std::size_t greedy = fill(b, links[0]) + fill(b, links[1]);
  EXPECT_GE(greedy, kShare - limits::kMiB);
  EXPECT_LT(greedy, kShare + 2 * kKernelBytes) << "of both links together";
  const std::size_t other = fill(b, links[2]);
  EXPECT_GT(other, 0U);
  EXPECT_LT(greedy + other, kAll + 3 * kKernelBytes);
  EXPECT_GT(fill(b, links[3]), 0U) << "there is room for who comes last";
}

TEST_F(TcpTransportMemoryTest, HalfOfAFrameCountsToo) {
  Side b;
  open_patient(b, {.send_queue_bytes = 8 * limits::kMiB});
  Bytes header = wire(FrameType::kBatch, {});
  const std::uint64_t length = limits::kFrameBytes;
  std::memcpy(header.data() + 8, &length, sizeof(length));
  std::vector<TlsPeer> peers;
  std::vector<LinkId> links;
  const Bytes piece(64 * limits::kKiB);
  for (int i = 0; i < 3; ++i) {
    peers.push_back(known_peer(b));
    links.push_back(b.events.opened.back());
    peers.back().say(header);
    for (int k = 0; k < 48 && b.events.closed.empty(); ++k) {
      peers.back().say(piece);
      io_.poll();
    }
  }
  ASSERT_TRUE(run_until([&] { return !b.events.closed.empty(); }));
  EXPECT_EQ(b.events.closed.size(), 1U);
  EXPECT_EQ(b.events.closed.at(links[2]).code, ErrorCode::kNoCapacity);
}

TEST_F(TcpTransportMemoryTest, APeerHasItsNumberOfLinks) {
  Side b;
  open_patient(b, {.links_of_key = 2});
  const TlsPeer first = known_peer(b);
  const TlsPeer second = known_peer(b);
  TlsPeer third(b.transport->address(), cluster_.identity("peer"));
  ASSERT_TRUE(run_until([&] { return third.hung_up(); }));
  ASSERT_EQ(b.refused.size(), 1U);
  EXPECT_NE(b.refused.front().find("2 links here, which is the limit"), std::string::npos);
  const TlsPeer other = known_peer(b, "other");
  EXPECT_LT(TcpOptions().links_of_key, limits::kConnections / 2) << "unless it is set";
}

}  // namespace
}  // namespace hearth
