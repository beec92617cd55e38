#include "node/engine/card/card_graphs.h"

#include <gtest/gtest.h>

#include "tests/emulated/emulated_runtime.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

class Graphs : public ::testing::Test {
 protected:
  void SetUp() override {
    emulated::set_memory(std::uint64_t{2} << 30);
    memory_ = cuda::DeviceMemory::allocate(256).value();
    memory_.part(0, 256);
    stream_ = cuda::make_stream().value();
  }
  void TearDown() override {
    emulated::set_graph_memory(0);
    emulated::set_memory(std::uint64_t{2} << 30);
  }

  // One step of `rows` rows; true when it was said to the card anew and not started as a graph.
  bool said(std::uint32_t rows) {
    bool called = false;
    const auto calls = [&] {
      called = true;
      return cuda::fill_zero(memory_.data(), 4, stream_.get());
    };
    const Status status = graphs_.run({0, rows, 8, 8}, stream_.get(), calls);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return called;
  }
  void make(std::uint32_t rows) {
    EXPECT_TRUE(said(rows));
    EXPECT_TRUE(said(rows));
    EXPECT_FALSE(said(rows));
  }

  cuda::DeviceMemory memory_;
  cuda::OwnedStream stream_;
  CardGraphs graphs_;
};

TEST_F(Graphs, AreMadeOfShapesThatComeTwice) {
  make(1);
  make(2);
  EXPECT_FALSE(said(1));
  EXPECT_EQ(graphs_.count().made, 2U);
  EXPECT_EQ(graphs_.count().kept, 2U);
}

TEST_F(Graphs, TheOneThatWasLongestNotUsedGoesFirst) {
  emulated::set_graph_memory(1 << 20);
  const std::uint64_t before = emulated::memory_used();
  make(1);
  for (std::uint32_t rows = 2; rows < 3 * CardGraphs::kMost; ++rows) {
    make(rows);
    EXPECT_FALSE(said(1)) << rows;
  }
  const CardGraphs::Count& count = graphs_.count();
  EXPECT_EQ(count.made, 3 * CardGraphs::kMost - 1);
  EXPECT_EQ(count.kept, CardGraphs::kMost);
  EXPECT_EQ(count.dropped, count.made - count.kept);
  EXPECT_EQ(count.bytes, std::uint64_t{CardGraphs::kMost} << 20);
  EXPECT_EQ(emulated::memory_used() - before, count.bytes);
  EXPECT_TRUE(said(2)) << "it is gone";
}

TEST_F(Graphs, TakeNoMoreThanTheirBytes) {
  emulated::set_graph_memory(CardGraphs::kBytesMost / 4);
  for (std::uint32_t rows = 1; rows <= 9; ++rows) {
    make(rows);
    EXPECT_LE(graphs_.count().bytes, CardGraphs::kBytesMost);
  }
  EXPECT_EQ(graphs_.count().kept, 4U);
  EXPECT_FALSE(said(6));
  EXPECT_TRUE(said(5));
}

TEST_F(Graphs, OneThatIsTooLargeAloneIsKept) {
  emulated::set_graph_memory(CardGraphs::kBytesMost * 2);
  make(1);
  make(2);
  EXPECT_EQ(graphs_.count().kept, 1U);
}

TEST_F(Graphs, WithoutMemoryForOneStepsRunAsTheyAre) {
  emulated::set_graph_memory(1 << 20);
  emulated::set_memory(emulated::memory_used() + (5 << 19));
  const std::uint64_t before = emulated::memory_used();
  make(1);
  make(2);
  EXPECT_TRUE(said(3));
  EXPECT_TRUE(said(3));
  EXPECT_EQ(emulated::memory_used(), before) << "what was made is given back";
  EXPECT_EQ(graphs_.count().kept, 0U);
  for (std::uint32_t rows = 1; rows < 4; ++rows) EXPECT_TRUE(said(rows));
  EXPECT_EQ(graphs_.count().made, 2U);
}

}  // namespace
}  // namespace hearth::node
