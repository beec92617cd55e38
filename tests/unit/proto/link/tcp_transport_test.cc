// Frames over links that stand: order, limits, ends, and frames that may be anything.
#include "proto/link/tcp_transport.h"

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "proto/link/ping.h"
#include "tests/unit/proto/transport_fixture.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using testing::pattern;
using testing::RawPeer;
using testing::TlsPeer;
using testing::wire;

class TcpTransportTest : public testing::TransportTest {};

TEST_F(TcpTransportTest, CarriesFramesInOrderBothWays) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  for (std::uint32_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(i * 37 % 5000, i)}));
    ASSERT_TRUE(b.send(at_b, {FrameType::kTokens, pattern(i * 11 % 700, i + 1)}));
  }
  ASSERT_TRUE(run_until([&] { return received(a, at_a) == 500 && received(b, at_b) == 500; }));
  for (std::uint32_t i = 0; i < 500; ++i) {
    EXPECT_EQ(b.events.frames[at_b][i].payload, pattern(i * 37 % 5000, i));
    EXPECT_EQ(b.events.frames[at_b][i].type, FrameType::kBatch);
    EXPECT_EQ(a.events.frames[at_a][i].payload, pattern(i * 11 % 700, i + 1));
  }
}

TEST_F(TcpTransportTest, CarriesFramesOfEverySize) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  std::vector<std::size_t> sizes = {0,
                                    1,
                                    31,
                                    32,
                                    33,
                                    32 * 1024 - 32,
                                    32 * 1024 - 31,
                                    32 * 1024,
                                    256 * 1024 - 1,
                                    256 * 1024,
                                    256 * 1024 + 1,
                                    3'000'000,
                                    limits::kFrameBytes};
  for (const std::size_t size : sizes) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(size, 5)}));
    ASSERT_TRUE(run_until([&] { return received(b, at_b) == 1; })) << size;
    EXPECT_EQ(b.events.frames[at_b][0].payload, pattern(size, 5));
    b.events.frames[at_b].clear();
  }
}

// A stage computes a frame of one row as it comes, and then the next one is there.
TEST_F(TcpTransportTest, TimersHaveTheirTurnWhileEachFrameTakesLong) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  constexpr std::size_t kFrames = 150;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(1000, i)}));
  }
  b.events.on_any_frame = [](LinkId) { std::this_thread::sleep_for(milliseconds(3)); };
  std::size_t before = kFrames;  // the timer
  boost::asio::steady_timer timer(io_, milliseconds(30));
  timer.async_wait([&](const boost::system::error_code&) { before = received(b, at_b); });
  ASSERT_TRUE(run_until([&] { return received(b, at_b) == kFrames; }));
  EXPECT_LT(before, kFrames * 2 / 3);
}

// A thread that waits for one link reads it so. Small frames come several to a read.
TEST_F(TcpTransportTest, APollReadsWithoutTheIoContextAndLeavesNothingBehind) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  const auto poll_until = [&](const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < end) b.transport->poll(at_b);
    return done();
  };
  constexpr std::uint32_t kFrames = 50;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(i * 997 % 40'000, i)}));
  }
  ASSERT_TRUE(poll_until([&] { return received(b, at_b) == kFrames; }));
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    EXPECT_EQ(b.events.frames[at_b][i].payload, pattern(i * 997 % 40'000, i));
  }
  // The io_context still reads what comes later, and a poll sees the end of the link.
  ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(10, 1)}));
  ASSERT_TRUE(run_until([&] { return received(b, at_b) == kFrames + 1; }));
  a.transport->close(at_a);
  ASSERT_TRUE(poll_until([&] { return b.events.closed.contains(at_b); }));
  b.transport->poll(at_b);
  b.transport->poll(LinkId(~0ULL));
}

TEST_F(TcpTransportTest, AnswersPingsByItself) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  ASSERT_TRUE(a.send(at_a, {FrameType::kPing, encode(Ping{0, 0})}));
  ASSERT_TRUE(a.send(at_a, {FrameType::kPing, encode(Ping{5000, 100'000})}));
  ASSERT_TRUE(run_until([&] { return received(a, at_a) == 2; }));
  EXPECT_EQ(a.events.frames[at_a][0].type, FrameType::kPong);
  EXPECT_TRUE(a.events.frames[at_a][0].payload.empty());
  EXPECT_EQ(a.events.frames[at_a][1].payload, Bytes(5000));
  EXPECT_EQ(received(b, at_b), 0u) << "none of its owner's business";
  ASSERT_TRUE(a.send(at_a, {FrameType::kPing, encode(Ping{0xFFFFFFFF, 0})}));
  ASSERT_TRUE(run_until([&] { return b.events.closed.contains(at_b); }));
  EXPECT_EQ(b.events.closed.at(at_b).code, ErrorCode::kInvalidInput);
}

TEST_F(TcpTransportTest, SendsBeforeTheLinkIsOpen) {
  Side a, b;
  open(a);
  open(b);
  const LinkId at_a = a.connect(b.transport->address());
  ASSERT_TRUE(a.send(at_a, {FrameType::kHello, pattern(10, 1)}));
  ASSERT_TRUE(
      run_until([&] { return !b.events.opened.empty() && received(b, b.events.opened[0]) == 1; }));
}

TEST_F(TcpTransportTest, FullQueueIsNoCapacityAndLosesNothingSentBefore) {
  Side a, b;
  open(a, {.send_queue_bytes = 16 * limits::kMiB});
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  std::size_t accepted = 0;
  std::optional<Error> refused;
  Frame frame;
  while (!refused && accepted < 1000) {  // b does not read: the kernel's buffers fill too
    frame = {FrameType::kBatch, pattern(limits::kMiB, 3)};
    const Status status = a.send(at_a, std::move(frame));
    if (status)
      ++accepted;
    else
      refused = status.error();
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::kNoCapacity);
  EXPECT_EQ(frame.payload, pattern(limits::kMiB, 3)) << "it is still the sender's";
  EXPECT_GE(accepted, 15u);
  ASSERT_TRUE(run_until([&] { return received(b, at_b) == accepted; }));
  EXPECT_TRUE(a.send(at_a, {FrameType::kBatch, {}}));
  EXPECT_TRUE(a.events.closed.empty());
}

TEST_F(TcpTransportTest, RefusesAFrameOverTheLimit) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  const Status status = a.send(at_a, {FrameType::kBatch, Bytes(limits::kFrameBytes + 1)});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
}

TEST_F(TcpTransportTest, CloseSendsWhatIsQueuedAndEndsBothSides) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(8 * limits::kMiB, 1)}));
  ASSERT_TRUE(a.send(at_a, {FrameType::kRefused, pattern(40, 2)}));
  a.close(at_a);
  a.close(at_a);
  EXPECT_TRUE(a.send(at_a, {FrameType::kBatch, {}}));  // swallowed
  ASSERT_TRUE(run_until([&] { return b.events.closed.contains(at_b); }));
  ASSERT_EQ(received(b, at_b), 2u);
  EXPECT_EQ(b.events.frames[at_b][1].payload, pattern(40, 2));
  EXPECT_EQ(b.events.closed[at_b].code, ErrorCode::kUnavailable);
  ASSERT_TRUE(run_until([&] { return a.transport->links() == 0; }));
  EXPECT_EQ(a.events.closed.at(at_a).code, ErrorCode::kCancelled);
}

TEST_F(TcpTransportTest, CloseInsideEveryEvent) {
  Side a, b;
  open(a);
  open(b);
  b.events.on_any_frame = [&](LinkId link) { b.transport->close(link); };
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(100, 1)}));
  ASSERT_TRUE(
      run_until([&] { return b.events.closed.contains(at_b) && a.events.closed.contains(at_a); }));
  EXPECT_EQ(received(b, at_b), 1u);
  b.events.on_open = [&](LinkId link) { b.transport->close(link); };
  const LinkId second = a.connect(b.transport->address());
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(second); }));
  ASSERT_TRUE(run_until([&] { return b.transport->links() == 0; }));
}

TEST_F(TcpTransportTest, CloseWhileConnecting) {
  Side a, b;
  open(a);
  open(b);
  const LinkId link = a.connect(b.transport->address());
  a.close(link);
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(link); }));
  EXPECT_EQ(a.events.closed[link].code, ErrorCode::kCancelled);
  EXPECT_TRUE(a.events.opened.empty());
}

TEST_F(TcpTransportTest, TransportMayEndInsideAnEvent) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  b.events.on_any_frame = [&](LinkId) { b.transport.reset(); };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(100, 1)}));
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(at_a); }));
  EXPECT_EQ(received(b, at_b), 1u);
  EXPECT_FALSE(b.events.closed.contains(at_b));
}

TEST_F(TcpTransportTest, NoProcessListens) {
  Side a;
  open(a);
  std::string address;
  {
    Side gone;
    open(gone);
    address = gone.transport->address();
  }
  const LinkId link = a.connect(address);
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(link); }));
  EXPECT_EQ(a.events.closed[link].code, ErrorCode::kUnavailable);
}

TEST_F(TcpTransportTest, RefusesWhatIsNoAddress) {
  Side a;
  open(a);
  for (const char* address : {"no-address", "host.example:80", "10.0.0.1", "[::1", ""}) {
    const LinkId link = a.connect(address);
    ASSERT_TRUE(run_until([&] { return a.events.closed.contains(link); }));
    EXPECT_EQ(a.events.closed[link].code, ErrorCode::kInvalidInput) << address;
  }
}

TEST_F(TcpTransportTest, APortIsTakenOnce) {
  Side a;
  open(a);
  TcpOptions options;
  options.listen_address = a.transport->address();
  options.identity = cluster_.identity("second");
  options.roster = cluster_.book();
  const auto second = TcpTransport::open(io_, options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
}

TEST_F(TcpTransportTest, HostileBytesEndTheirLinkOnly) {
  Side a, b;
  open(a);
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  const Bytes good = wire(FrameType::kHello, pattern(100, 1));
  struct Case {
    const char* what;
    std::size_t offset;
    std::byte value;
  };
  const std::vector<Case> cases = {
      {"magic", 0, std::byte{'X'}},
      {"unknown type", 4, std::byte{200}},
      {"control frame", 4, std::byte{7}},
      {"reserved", 6, std::byte{1}},
      {"ping that says more", 4, std::byte{8}},
      {"over 64 MiB", 11, std::byte{0x7F}},
      {"over 2^63", 15, std::byte{0xFF}},
  };
  for (const Case& c : cases) {
    TlsPeer peer = known_peer(b);
    Bytes bytes = good;
    ASSERT_NE(bytes[c.offset], c.value) << c.what;
    bytes[c.offset] = c.value;
    const std::size_t before = b.events.closed.size();
    peer.say(bytes);
    ASSERT_TRUE(run_until([&] { return b.events.closed.size() > before; })) << c.what;
    const LinkId bad = b.events.opened.back();
    EXPECT_EQ(b.events.closed.at(bad).code, ErrorCode::kInvalidInput) << c.what;
    EXPECT_EQ(received(b, bad), 0u) << c.what;
    ASSERT_FALSE(b.refused.empty()) << c.what;
    EXPECT_EQ(b.refused.back().find("node "), 0u) << "the log names it: " << b.refused.back();
    b.refused.clear();
    EXPECT_TRUE(run_until([&] { return peer.hung_up(); })) << c.what;
  }
  ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(10, 1)}));
  ASSERT_TRUE(run_until([&] { return received(b, at_b) == 1; }));
}

TEST_F(TcpTransportTest, FramesByteByByteAndTruncatedAnywhere) {
  Side b;
  open(b);
  const Bytes bytes = wire(FrameType::kHello, pattern(64, 9));
  TlsPeer slow = known_peer(b);
  for (const std::byte byte : bytes) {
    slow.say({&byte, 1});
    io_.run_for(milliseconds(1));
  }
  ASSERT_TRUE(run_until([&] { return received(b, b.events.opened.back()) == 1; }));
  for (std::size_t cut = 0; cut < bytes.size(); cut += 7) {
    const std::size_t before = b.events.closed.size();
    TlsPeer peer = known_peer(b);
    peer.say(ByteSpan(bytes).first(cut));
    peer.hang_up();
    ASSERT_TRUE(run_until([&] { return b.events.closed.size() > before; })) << cut;
    EXPECT_EQ(received(b, b.events.opened.back()), 0u);
  }
}

TEST_F(TcpTransportTest, AnAnnouncedLengthCostsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is counted too";
#endif
  Side b;
  // None of a hundred peers says another word.
  open(b, {.links_of_key = 100,
           .first_frame_deadline = std::chrono::minutes(10),
           .stall_deadline = std::chrono::minutes(10),
           .silence = std::chrono::minutes(10)});
  std::vector<TlsPeer> peers;
  Bytes header = wire(FrameType::kBatch, {});
  const std::uint64_t length = limits::kFrameBytes;
  std::memcpy(header.data() + 8, &length, sizeof(length));
  const auto resident = [] {
    FILE* file = std::fopen("/proc/self/statm", "r");
    unsigned long pages = 0, pages_resident = 0;
    EXPECT_EQ(std::fscanf(file, "%lu %lu", &pages, &pages_resident), 2);
    std::fclose(file);
    return pages_resident * 4096;
  };
  const std::size_t before = resident();
  for (int i = 0; i < 100; ++i) {
    peers.push_back(known_peer(b));
    peers.back().say(header);
    peers.back().say(pattern(1000, 1));
  }
  ASSERT_TRUE(run_until([&] { return b.events.opened.size() == 100; }));
  io_.run_for(milliseconds(200));
  EXPECT_EQ(b.transport->links(), 100u);
  EXPECT_LT(resident(), before + 100 * limits::kMiB);  // 6.4 GB were announced
}

TEST_F(TcpTransportTest, SilentAndHalfSilentPeersAreDropped) {
  Side b;
  open(b, {.first_frame_deadline = milliseconds(300)});
  const Bytes bytes = wire(FrameType::kHello, pattern(64, 9));
  TlsPeer silent = known_peer(b);
  TlsPeer half = known_peer(b);
  half.say(ByteSpan(bytes).first(20));
  TlsPeer whole = known_peer(b);
  whole.say(bytes);
  ASSERT_TRUE(run_until([&] { return b.events.closed.size() == 2; }));
  for (const auto& [link, why] : b.events.closed) {
    EXPECT_EQ(why.code, ErrorCode::kTimeout);
    EXPECT_EQ(received(b, link), 0u);
  }
  EXPECT_EQ(b.transport->links(), 1u);
  EXPECT_FALSE(whole.hung_up());
}

TEST_F(TcpTransportTest, AFrameThatStopsHalfWayIsDropped) {
  Side b;
  open(b, {.stall_deadline = milliseconds(300)});
  const Bytes bytes = wire(FrameType::kHello, pattern(64, 9));
  TlsPeer peer = known_peer(b);
  peer.say(bytes);
  peer.say(ByteSpan(bytes).first(50));
  ASSERT_TRUE(run_until([&] { return b.events.closed.size() == 1; }));
  EXPECT_EQ(b.events.closed.begin()->second.code, ErrorCode::kTimeout);
  EXPECT_EQ(received(b, b.events.opened[0]), 1u);
}

TEST_F(TcpTransportTest, APeerThatStopsReadingIsDropped) {
  Side b;
  open(b, {.stall_deadline = milliseconds(300)});
  TlsPeer peer = known_peer(b);
  peer.say(wire(FrameType::kHello, {}));
  ASSERT_TRUE(run_until([&] { return b.events.opened.size() == 1; }));
  ASSERT_TRUE(b.send(b.events.opened[0], {FrameType::kBatch, Bytes(32 * limits::kMiB)}));
  ASSERT_TRUE(run_until([&] { return b.events.closed.size() == 1; }));
  EXPECT_EQ(b.events.closed.begin()->second.code, ErrorCode::kTimeout);
}

// A process that is frozen keeps its sockets; what ends its links is that it gives no sign of life.
TEST_F(TcpTransportTest, AnIdleLinkLivesAndAPeerWithoutASignOfLifeIsDropped) {
  const TcpOptions quick{.beat = milliseconds(50), .silence = milliseconds(1'000)};
  Side a, b;
  open(a, quick);
  open(b, quick);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  ASSERT_TRUE(a.send(at_a, {FrameType::kHello, {}}));
  TlsPeer frozen = known_peer(b);
  const LinkId at_frozen = b.events.opened.back();
  frozen.say(wire(FrameType::kHello, {}));
  frozen.say(wire(FrameType::kBeat, {}));
  ASSERT_TRUE(run_until([&] { return b.events.closed.contains(at_frozen); }));
  EXPECT_EQ(b.events.closed[at_frozen].code, ErrorCode::kTimeout);
  EXPECT_NE(b.events.closed[at_frozen].message.find("the peer sent nothing"), std::string::npos);
  EXPECT_EQ(received(b, at_frozen), 1u) << "a ping is the transport's own";
  const auto end = std::chrono::steady_clock::now() + milliseconds(2'500);
  while (std::chrono::steady_clock::now() < end) io_.run_one_for(milliseconds(50));
  EXPECT_FALSE(a.events.closed.contains(at_a) || b.events.closed.contains(at_b));
  ASSERT_TRUE(b.send(at_b, {FrameType::kHello, {}}));
  ASSERT_TRUE(run_until([&] { return received(a, at_a) == 1 && received(b, at_b) == 1; }));
}

TEST_F(TcpTransportTest, AFloodOfConnectionsLeavesTheOldOnes) {
  Side a, b;
  open(a);
  open(b, {.connections = 8});
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  std::vector<RawPeer> peers;
  for (int i = 0; i < 50; ++i) peers.emplace_back(b.transport->address());
  const auto refused = [&] {
    return std::count_if(peers.begin(), peers.end(), [](const RawPeer& p) { return p.hung_up(); });
  };
  ASSERT_TRUE(run_until([&] { return refused() == 43; }));
  EXPECT_EQ(b.transport->links(), 8u);
  ASSERT_TRUE(a.send(at_a, {FrameType::kBatch, pattern(10, 1)}));
  ASSERT_TRUE(run_until([&] { return received(b, at_b) == 1; }));
  for (RawPeer& peer : peers) peer.hang_up();
  ASSERT_TRUE(run_until([&] { return b.transport->links() == 1; }));
  LinkId again_a, again_b;
  link(a, b, again_a, again_b);
}

TEST_F(TcpTransportTest, OwnConnectionsAreLimitedToo) {
  Side a, b;
  open(a, {.connections = 1});
  open(b);
  LinkId at_a, at_b;
  link(a, b, at_a, at_b);
  const LinkId second = a.connect(b.transport->address());
  ASSERT_TRUE(run_until([&] { return a.events.closed.contains(second); }));
  EXPECT_EQ(a.events.closed[second].code, ErrorCode::kNoCapacity);
}

}  // namespace
}  // namespace hearth
