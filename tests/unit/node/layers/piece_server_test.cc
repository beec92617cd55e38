// Pieces of a model from one node to another over real links: who gets them, and what else the
// link's owner sees.
#include "node/layers/piece_server.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/limits.h"
#include "node/layers/peer_source.h"
#include "proto/link/tcp_transport.h"
#include "proto/piece.h"
#include "tests/unit/proto/cluster.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131) >> 3);
  return bytes;
}

struct Seen : TransportEvents {
  void on_link_open(LinkId, bool) override { ++open; }
  void on_frame(LinkId, Frame frame) override { types.push_back(frame.type); }
  void on_link_closed(LinkId, const Error&) override { --open; }
  int open = 0;
  std::vector<FrameType> types;
};

// A node that holds bytes 1,000 to 900,000 of a file, on a thread of its own.
struct PieceServerTest : ::testing::Test {
  testing::Cluster cluster;
  const Bytes bytes = pattern(1'000'000);
  const Hash256 model = blake2b(as_bytes("a model"));
  std::string folder;
  std::shared_ptr<SharedFile> file = std::make_shared<SharedFile>();
  boost::asio::io_context io;
  std::unique_ptr<TcpTransport> transport;
  std::unique_ptr<PieceServer> server;
  Seen seen;
  std::string address;
  std::thread owner;

  PieceServerTest() {
    std::string path = (fs::temp_directory_path() / "hearth-pieces-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder = path;
    std::ofstream out(folder + "/model", std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    RangeSet ranges;
    ranges.add(1'000, 900'000);
    file->share(model,
                std::make_shared<const ModelBytes>(ModelBytes::open(folder + "/model").value()),
                ranges);
    TcpOptions tcp;
    tcp.listen_address = "127.0.0.1:0";
    tcp.identity = cluster.identity("holder");
    tcp.roster = cluster.book();
    transport = TcpTransport::open(io, tcp).value();
    server = std::make_unique<PieceServer>(*transport, file, [this](std::function<void()> work) {
      boost::asio::post(io, std::move(work));
    });
    server->set_events(&seen);
    address = transport->address();
    owner = std::thread([this] {
      const auto stays = boost::asio::make_work_guard(io);
      io.run();
    });
  }
  ~PieceServerTest() override {
    io.stop();
    owner.join();
    server.reset();
    transport.reset();
    fs::remove_all(folder);
  }

  std::shared_ptr<PeerSource> source(const std::string& node = "holder") {
    PeerOptions options{model, cluster.identity("joiner"), cluster.book(),
                        std::chrono::seconds(60)};
    return std::make_shared<PeerSource>(Holder{node, address}, options);
  }
  Result<Bytes> read(PeerSource& from, std::uint64_t begin, std::uint64_t end) {
    Bytes got;
    TRY_VOID(from.read(begin, end, [&](ByteSpan piece) {
      got.insert(got.end(), piece.begin(), piece.end());
      return ok_status();
    }));
    return got;
  }
  Bytes part(std::uint64_t begin, std::uint64_t end) const {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(begin),
            bytes.begin() + static_cast<std::ptrdiff_t>(end)};
  }
};

// Another node with a link to it, on the test's own thread.
struct Neighbour {
  explicit Neighbour(PieceServerTest& test) {
    TcpOptions tcp;
    tcp.identity = test.cluster.identity("neighbour");
    tcp.roster = test.cluster.book();
    transport = TcpTransport::open(io, tcp).value();
    transport->set_events(&seen);
    link = transport->connect(test.address);
  }
  Status send(FrameType type, Bytes payload) const {
    return transport->send(link, {type, std::move(payload)});
  }
  // Whether it came to hold; false when that takes longer than any working machine needs.
  bool run(const std::function<bool()>& until) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!until() && std::chrono::steady_clock::now() < deadline) {
      io.restart();
      io.run_one_for(std::chrono::milliseconds(20));
    }
    return until();
  }

  boost::asio::io_context io;
  std::unique_ptr<TcpTransport> transport;
  Seen seen;
  LinkId link;
};

TEST_F(PieceServerTest, GivesExactlyWhatIsAskedFor) {
  const auto from = source();
  EXPECT_EQ(from->name(), "holder at " + address);
  EXPECT_EQ(read(*from, 1'000, 900'000).value(), part(1'000, 900'000));
  EXPECT_EQ(read(*from, 1'000, 1'001).value(), part(1'000, 1'001));
  EXPECT_EQ(read(*from, 70'000, 70'000 + limits::kPieceBytes).value(),
            part(70'000, 70'000 + limits::kPieceBytes));
  EXPECT_TRUE(seen.types.empty()) << "the owner of the links sees none of it";
}

TEST_F(PieceServerTest, SeveralReadersAtOnce) {
  const auto from = source();
  std::vector<std::thread> readers;
  for (std::uint64_t i = 0; i < 6; ++i) {
    readers.emplace_back([&, i] {
      for (std::uint64_t round = 0; round < 3; ++round) {
        const std::uint64_t begin = 1'000 + i * 100'000 + round;
        EXPECT_EQ(read(*from, begin, begin + 250'000).value(), part(begin, begin + 250'000));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_F(PieceServerTest, WhatIsNotHereIsRefused) {
  const auto from = source();
  for (const auto& [begin, end] : {std::pair<std::uint64_t, std::uint64_t>{999, 1'100},
                                   {899'999, 900'001},
                                   {2'000'000, 2'000'100}}) {
    const auto got = read(*from, begin, end);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, ErrorCode::kNotFound);
    EXPECT_NE(got.error().message.find("does not have"), std::string::npos) << got.error().message;
  }
  EXPECT_EQ(read(*from, 5'000, 6'000).value(), part(5'000, 6'000)) << "and the next is answered";
  PeerOptions other{blake2b(as_bytes("another")), cluster.identity("joiner"), cluster.book(),
                    std::chrono::seconds(60)};
  PeerSource wrong(Holder{"holder", address}, other);
  EXPECT_EQ(read(wrong, 5'000, 6'000).error().code, ErrorCode::kNotFound);
}

TEST_F(PieceServerTest, OnlyTheNamedNodeIsBelieved) {
  const auto got = read(*source("somebody"), 1'000, 2'000);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message.find("is not somebody"), std::string::npos);
}

TEST_F(PieceServerTest, NoStrangerGetsAByte) {
  testing::Cluster others;
  PeerOptions options{model, others.identity("stranger"), cluster.book(), std::chrono::seconds(60)};
  PeerSource stranger(Holder{"holder", address}, options);
  EXPECT_FALSE(read(stranger, 1'000, 2'000).ok());
}

TEST_F(PieceServerTest, AHolderThatSaysNothingIsGivenUp) {
  io.stop();  // its kernel still takes connections
  PeerOptions options{model, cluster.identity("joiner"), cluster.book(),
                      std::chrono::milliseconds(300)};
  PeerSource silent(Holder{"holder", address}, options);
  EXPECT_EQ(read(silent, 1'000, 2'000).error().code, ErrorCode::kTimeout);
}

TEST_F(PieceServerTest, OtherLinksAreTheOwners) {
  Neighbour neighbour(*this);
  ASSERT_TRUE(neighbour.run([&] { return neighbour.seen.open == 1; }));
  ASSERT_TRUE(neighbour.send(FrameType::kHello, Bytes(3)).ok());
  ASSERT_TRUE(neighbour.send(FrameType::kPieceRequest, encode(PieceRequest{model, 1'000, 1})).ok());
  std::atomic<std::size_t> count{0};
  EXPECT_TRUE(neighbour.run([&] {
    boost::asio::post(io, [&] { count = seen.types.size(); });
    return count == 2;
  })) << "a link that began as another's stays it";
  boost::asio::post(io, [&] { count = 0; });
  EXPECT_TRUE(neighbour.run([&] { return count == 0; }));
}

TEST_F(PieceServerTest, AFrameThatIsNoRequestEndsTheLink) {
  Neighbour neighbour(*this);
  ASSERT_TRUE(neighbour.run([&] { return neighbour.seen.open == 1; }));
  const Bytes good = encode(PieceRequest{model, 1'000, 100});
  ASSERT_TRUE(neighbour.send(FrameType::kPieceRequest, good).ok());
  ASSERT_TRUE(neighbour.send(FrameType::kBatch, Bytes(40)).ok());
  EXPECT_TRUE(neighbour.run([&] { return neighbour.seen.open == 0; }));
}

}  // namespace
}  // namespace hearth::node
