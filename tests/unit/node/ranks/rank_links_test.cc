// Groups of ranks on threads of their own, over real links: exchanges, batches, losses, and ranks
// that say what no rank says.
#include "node/ranks/rank_links.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "proto/exchange.h"
#include "tests/unit/proto/transport_fixture.h"

namespace hearth::node {
namespace {

class RankLinksTest : public ::testing::Test {
 protected:
  std::unique_ptr<RankLinks> open(const std::string& name) {
    TcpOptions tcp;
    tcp.listen_address = "127.0.0.1:0";
    tcp.identity = cluster_.identity(name);
    tcp.roster = cluster_.book();
    Hello hello;
    hello.node = name;
    auto links = std::make_unique<RankLinks>(tcp, hello);
    EXPECT_TRUE(links->listen().ok());
    return links;
  }
  void open_group(std::uint32_t ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::string name = "rank-" + std::to_string(rank);
      links_.push_back(open(name));
      group_.push_back({name, links_.back()->listen().value(), 1});
    }
  }
  Assignment assignment(std::uint32_t rank, std::uint64_t epoch = 7) const {
    Assignment out;
    out.epoch = Epoch(epoch);
    out.group = group_;
    out.rank = rank;
    return out;
  }
  Status join(std::uint32_t rank, std::uint64_t epoch = 7) {
    return links_[rank]->join(assignment(rank, epoch), [this] { return cancelled_.load(); });
  }
  // Each rank on a thread of its own. A rank leaves when its task returns, or stays until all have
  // returned, so that no wait ends with the link of a rank that is done.
  template <typename Task>
  void on_ranks(const Task& task, bool stays = true) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < links_.size(); ++rank) {
      threads.emplace_back([this, &task, rank, stays] {
        task(rank, *links_[rank]);
        ++ended_;
        if (stays) {
          while (ended_ < links_.size()) std::this_thread::yield();
        }
        links_[rank]->leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // What `from` sends to `to` in an exchange; some parts are empty.
  static Bytes part(std::uint32_t from, std::uint32_t to, std::uint32_t number) {
    const std::uint32_t seed = number * 64 + from * 8 + to;
    return testing::pattern((seed * 37) % 5 == 0 ? 0 : seed * 101 % 20'000, seed);
  }
  Status swap(std::uint32_t rank, RankLinks& links, std::uint32_t number) const {
    const auto ranks = static_cast<std::uint32_t>(links_.size());
    std::vector<Bytes> sent(ranks);
    std::vector<Bytes> came(ranks);
    std::vector<ByteSpan> out(ranks);
    std::vector<MutableByteSpan> in(ranks);
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      sent[other] = part(rank, other, number);
      came[other].resize(part(other, rank, number).size());
      out[other] = sent[other];
      in[other] = came[other];
    }
    TRY_VOID(links.swap(out, in));
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      REQUIRE(came[other] == part(other, rank, number), "other bytes came from rank ", other);
    }
    return ok_status();
  }

  testing::Cluster cluster_;
  std::vector<std::unique_ptr<RankLinks>> links_;
  std::vector<AssignedRank> group_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<std::size_t> ended_ = 0;
};

TEST_F(RankLinksTest, SwapsWhatEachRankSends) {
  open_group(4);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    const Status joined = join(rank);
    ASSERT_TRUE(joined.ok()) << joined.error().message;
    for (std::uint32_t number = 0; number < 50; ++number) {
      const Status done = swap(rank, links, number);
      ASSERT_TRUE(done.ok()) << done.error().message;
    }
  });
}

TEST_F(RankLinksTest, BatchesComeInOrderBeforeTheirExchanges) {
  open_group(3);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    ASSERT_TRUE(join(rank).ok());
    for (std::uint32_t number = 0; number < 20; ++number) {
      const Bytes batch = testing::pattern(100 + number, number);
      if (rank == 0) {
        ASSERT_TRUE(links.send_batch(batch).ok());
      } else {
        std::optional<Bytes> came;
        while (!came) {
          auto next = links.next_batch();
          ASSERT_TRUE(next.ok()) << next.error().message;
          came = std::move(*next);
        }
        ASSERT_EQ(*came, batch);
      }
      ASSERT_TRUE(swap(rank, links, number).ok());
    }
  });
}

TEST_F(RankLinksTest, ARankThatLeavesEndsTheGroupAndIsNamed) {
  open_group(3);
  std::barrier all(3);  // a rank that waited for another one would see the end of this one
  on_ranks(
      [&](std::uint32_t rank, RankLinks& links) {
        ASSERT_TRUE(join(rank).ok());
        EXPECT_TRUE(swap(rank, links, 0).ok());
        all.arrive_and_wait();
        if (rank == 2) return;
        Status done = ok_status();
        std::uint32_t number = 1;
        while (done.ok()) done = swap(rank, links, number++);
        EXPECT_EQ(done.error().code, ErrorCode::kIo) << done.error().message;
        // The other survivor may have noticed first and left as well.
        EXPECT_TRUE(links.culprit() == "rank-2" ||
                    links.culprit() == "rank-" + std::to_string(1 - rank))
            << links.culprit();
        EXPECT_FALSE(swap(rank, links, number).ok());
      },
      false);
}

// Rank 0 polls no more after the exchange, of which the sockets hold only a part.
TEST_F(RankLinksTest, AnExchangeIsSentWhenItReturns) {
  open_group(2);
  const Bytes large = testing::pattern(24 << 20, 1);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    ASSERT_TRUE(join(rank).ok());
    Bytes came(rank == 0 ? 0 : large.size());
    std::vector<ByteSpan> out(2);
    std::vector<MutableByteSpan> in(2);
    if (rank == 0) out[1] = large;
    in[1 - rank] = came;
    const Status done = links.swap(out, in);
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_TRUE(rank == 0 || came == large);
  });
}

TEST_F(RankLinksTest, AStepUnderWayEndsBeforeARankLeaves) {
  open_group(2);
  std::atomic<bool> leaving = false;
  std::atomic<int> looks = 0;  // of rank 0, while it waits for rank 1
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    const auto leaves = [&, rank] {
      if (rank == 0 && leaving) ++looks;
      return leaving.load();
    };
    ASSERT_TRUE(links
                    .join(
                        assignment(rank), [] { return false; }, leaves)
                    .ok());
    if (rank == 0) {
      ASSERT_TRUE(links.send_batch(testing::pattern(10, 1)).ok());
      const Status done = swap(rank, links, 0);
      ASSERT_TRUE(done.ok()) << done.error().message;
      return;
    }
    std::optional<Bytes> came;
    while (!came) {
      auto next = links.next_batch();
      ASSERT_TRUE(next.ok()) << next.error().message;
      came = std::move(*next);
    }
    leaving = true;
    links_[0]->wake();
    while (looks == 0) std::this_thread::yield();
    EXPECT_TRUE(swap(rank, links, 0).ok());
    EXPECT_EQ(links.next_batch().error().code, ErrorCode::kCancelled);
  });
}

TEST_F(RankLinksTest, AFalseSizeNamesItsSender) {
  open_group(2);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    ASSERT_TRUE(join(rank).ok());
    const Bytes bytes = testing::pattern(rank == 1 ? 99 : 100, 1);
    Bytes came(100);
    std::vector<ByteSpan> out(2);
    std::vector<MutableByteSpan> in(2);
    out[1 - rank] = bytes;
    in[1 - rank] = came;
    const Status done = links.swap(out, in);
    if (rank == 1) return;
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().message.find("worker rank-1, sent 99 bytes of exchange 0"),
              std::string::npos)
        << done.error().message;
    EXPECT_EQ(links.culprit(), "rank-1");
  });
}

TEST_F(RankLinksTest, ABlamedRankEndsTheGroup) {
  open_group(2);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    ASSERT_TRUE(join(rank).ok());
    ASSERT_TRUE(swap(rank, links, 0).ok());
    if (rank == 1) return;
    const Error blamed = links.blame(1, "sent other rows");
    EXPECT_EQ(blamed.code, ErrorCode::kInvalidInput);
    EXPECT_EQ(blamed.message, "rank 1 of the group, worker rank-1, sent other rows");
    EXPECT_EQ(links.culprit(), "rank-1");
    EXPECT_EQ(swap(rank, links, 1).error().message, blamed.message);
  });
}

TEST_F(RankLinksTest, ABatchInPlaceOfAnExchangeEndsTheGroup) {
  open_group(2);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    ASSERT_TRUE(join(rank).ok());
    if (rank == 0) {
      ASSERT_TRUE(links.send_batch(testing::pattern(10, 1)).ok());
      (void)swap(rank, links, 0).ok();
    } else {
      const Status done = swap(rank, links, 0);
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(links.culprit(), "rank-0");
    }
  });
}

TEST_F(RankLinksTest, ARankThatSendsAheadWithoutEndIsLost) {
  open_group(2);
  std::atomic<bool> sent = false;
  on_ranks(
      [&](std::uint32_t rank, RankLinks& links) {
        ASSERT_TRUE(join(rank).ok());
        if (rank == 0) {
          for (std::uint32_t i = 0; i <= limits::kRankFrames + 1; ++i) {
            ASSERT_TRUE(links.send_batch(testing::pattern(10, i)).ok());
          }
          sent = true;
          while (links.swap(std::vector<ByteSpan>(2), std::vector<MutableByteSpan>(2)).ok()) {
          }
        } else {
          while (!sent) std::this_thread::yield();
          // Reads every frame that came, and none of them.
          Status lost = ok_status();
          while (lost.ok()) {
            lost = links.swap(std::vector<ByteSpan>(2), std::vector<MutableByteSpan>(2));
          }
          EXPECT_EQ(links.culprit(), "rank-0") << lost.error().message;
        }
      },
      false);
}

TEST_F(RankLinksTest, OnlyTheNodesOfTheGroupAreItsRanks) {
  open_group(2);
  const std::unique_ptr<RankLinks> other = open("other");
  std::atomic<bool> joined = false;
  std::atomic<int> looks = 0;
  // It is of the cluster, and says that it is rank 1 of this epoch.
  std::thread impostor([&] {
    Assignment claimed = assignment(1);
    claimed.group[1].node = "other";
    const Status status = other->join(claimed, [&] {
      ++looks;
      return joined.load();
    });
    EXPECT_FALSE(status.ok());
  });
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    while (rank == 1 && looks < 20) std::this_thread::yield();
    const Status done = join(rank);
    EXPECT_TRUE(done.ok()) << done.error().message;
    EXPECT_TRUE(swap(rank, links, 0).ok());
    EXPECT_TRUE(swap(rank, links, 1).ok());
    joined = true;
  });
  impostor.join();
}

TEST_F(RankLinksTest, AGroupOfAnOlderEpochIsNotJoined) {
  open_group(2);
  std::atomic<bool> over = false;
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    if (rank == 0) {
      // Waits for rank 1 of epoch 8 until the test ends.
      const Status done = links.join(assignment(0, 8), [&] { return over.load(); });
      EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
    } else {
      int looks = 0;
      const Status done = links.join(assignment(1, 7), [&] { return ++looks > 50; });
      EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
      over = true;
      links_[0]->wake();
    }
  });
}

TEST_F(RankLinksTest, TheNextGroupOfTheSameRanksJoins) {
  open_group(3);
  std::barrier all(3);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
      Status joined = join(rank, epoch);
      ASSERT_TRUE(joined.ok()) << joined.error().message;
      ASSERT_TRUE(swap(rank, links, 0).ok());
      ASSERT_TRUE(swap(rank, links, 1).ok());
      all.arrive_and_wait();
    }
  });
}

TEST_F(RankLinksTest, AWaitEndsWhenTheGroupIsCancelled) {
  open_group(2);
  on_ranks([&](std::uint32_t rank, RankLinks& links) {
    ASSERT_TRUE(join(rank).ok());
    if (rank == 1) {
      while (!cancelled_) std::this_thread::yield();
      return;
    }
    std::thread owner([&] {
      cancelled_ = true;
      links.wake();
    });
    EXPECT_EQ(swap(rank, links, 0).error().code, ErrorCode::kCancelled);
    owner.join();
  });
}

// Rank 1 as a program that may say anything.
class FalseRankTest : public RankLinksTest {
 protected:
  FalseRankTest() { open_group(2); }
  std::unique_ptr<testing::TlsPeer> peer() {
    auto made = std::make_unique<testing::TlsPeer>(group_[0].address, cluster_.identity("rank-1"));
    while (!made->greeted()) std::this_thread::yield();
    return made;
  }
  static Bytes hello(std::uint64_t epoch, std::uint32_t rank) {
    Hello hello;
    hello.node = "rank-1";
    hello.epoch = Epoch(epoch);
    hello.stage = rank;
    return testing::wire(FrameType::kHello, encode(hello));
  }
  // The error of rank 0 in two exchanges of no bytes, where rank 1 sends these frames.
  std::string error_of(std::uint64_t epoch, const std::vector<Frame>& frames) {
    std::string error;
    std::thread zero([&] {
      Status status = join(0, epoch);
      for (int i = 0; i < 2 && status.ok(); ++i) {
        status = links_[0]->swap(std::vector<ByteSpan>(2), std::vector<MutableByteSpan>(2));
      }
      if (!status.ok()) error = status.error().message;
      EXPECT_EQ(links_[0]->culprit(), status.ok() ? "" : "rank-1");
      links_[0]->leave();
    });
    const auto one = peer();
    one->say(hello(epoch, 1));
    for (const Frame& frame : frames) one->say(testing::wire(frame.type, frame.payload));
    zero.join();
    return error;
  }
};

TEST_F(FalseRankTest, FramesThatNoRankSendsNameTheirSender) {
  std::uint64_t epoch = 7;
  const auto part = [&](std::uint64_t number, std::uint64_t later = 0, std::size_t bytes = 0) {
    const Bytes zeros(bytes);
    return Frame{FrameType::kExchange, encode(ExchangePart{Epoch(epoch + later), number, zeros})};
  };
  const auto says = [&](const std::vector<Frame>& frames, const char* what) {
    const std::string error = error_of(epoch++, frames);
    EXPECT_NE(error.find(what), std::string::npos) << error << " says not: " << what;
  };
  says({part(0), part(1)}, "");
  says({part(0), part(0)}, "sent 0 bytes of exchange 0");
  says({part(1), part(0)}, "sent 0 bytes of exchange 1");
  says({part(0), part(1, 1)}, "expected 0 bytes of exchange 1 of epoch");
  says({part(0), part(1, 0, 5)}, "sent 5 bytes of exchange 1");
  says({part(0), {FrameType::kExchange, Bytes(5)}}, "sent a bad frame");
  says({part(0), {FrameType::kBatch, Bytes(5)}}, "in place of type");
  says({{FrameType::kTokens, Bytes(5)}}, "which no rank sends");
  says({part(0), {FrameType::kHello, Bytes(5)}}, "which no rank sends");
}

TEST_F(FalseRankTest, AnotherRankNumberIsNotJoined) {
  std::thread zero([&] {
    EXPECT_TRUE(join(0).ok());
    EXPECT_EQ(links_[0]->culprit(), "");
    links_[0]->leave();
  });
  for (const std::uint32_t rank : {0U, 2U, limits::kRanks, ~0U}) {
    const auto other = peer();
    other->say(hello(7, rank));
    while (!other->hung_up()) std::this_thread::yield();
  }
  const auto one = peer();
  one->say(hello(7, 1));
  zero.join();
}

// The book belongs to the main thread, and rank links to the engine's.
TEST_F(RankLinksTest, TicketsOfTheProcessAreNotTheirs) {
  const auto book = std::make_shared<TicketBook>();
  TcpOptions tcp;
  tcp.listen_address = "127.0.0.1:0";
  tcp.identity = cluster_.identity("rank-0");
  tcp.roster = cluster_.book();
  tcp.tickets = book;
  RankLinks links(std::move(tcp), Hello{});
  ASSERT_TRUE(links.listen().ok());
  EXPECT_EQ(book.use_count(), 1);
}

}  // namespace
}  // namespace hearth::node
