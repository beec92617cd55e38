#include "cli/serve/beside_models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <vector>

#include "base/available_memory.h"
#include "base/random.h"
#include "node/engine/stage_memory.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::cli {
namespace {

using coordinator::RoomBeside;
using coordinator::SwarmStatus;

struct BesideModelsTest : ::testing::Test {
  BesideModelsTest() {
    options.local_workers = 1;
    options.device = "cpu";
    options.memory_bytes = 0;
    models.resize(2);
    own.nodes.emplace_back().name = "local-1";
    own.nodes.back().process_id = static_cast<std::uint64_t>(getpid());
    joined = own;
    joined.nodes.emplace_back().name = "attic";
  }

  boost::asio::io_context io;
  hearth::testing::FakeClock clock;
  SystemRandom random;
  std::vector<OfferedModel> models;
  std::uint32_t current = 0;
  ServeOptions options;
  SwarmStatus own;
  SwarmStatus joined;
  BesideModels beside{BesideModels::Wiring{
      io, clock, random, {}, nullptr, nullptr, false, models, current, options}};
};

TEST_F(BesideModelsTest, MemoryThatALoadedModelMayStillTakeIsNotFree) {
  const std::uint64_t half = node::memory_budget(0) / 2;
  ASSERT_GT(half, 0U);
  models[1].local_bytes = half;
  models[0].local_bytes = *held_memory(getpid()) / 2;  // the worker holds all of it
  EXPECT_EQ(beside.room(1, own), RoomBeside::kNow);
  EXPECT_TRUE(beside.fits_in_place(1, own));
  models[0].local_bytes = half + half / 2;  // and has not touched most of its KV
  EXPECT_EQ(beside.room(1, own), RoomBeside::kImpossible);
  EXPECT_TRUE(beside.fits_in_place(1, own)) << "the current model's memory is free then";
  models[1].local_bytes = 4 * half;
  EXPECT_FALSE(beside.fits_in_place(1, own));
}

TEST_F(BesideModelsTest, TheBoundOfMemoryHoldsAllModels) {
  options.memory_bytes = 100;
  models[0].local_bytes = 60;
  models[1].local_bytes = 40;
  EXPECT_EQ(beside.room(1, own), RoomBeside::kNow);
  models[1].local_bytes = 41;
  EXPECT_EQ(beside.room(1, own), RoomBeside::kImpossible);
  EXPECT_TRUE(beside.fits_in_place(1, own));
}

TEST_F(BesideModelsTest, WorkersThatJoinedKeepTheCurrentModel) {
  options.memory_bytes = 100;
  models[0].local_bytes = 10;
  models[1].local_bytes = 10;
  EXPECT_EQ(beside.room(1, joined), RoomBeside::kImpossible);
  models[1].served.spec.gives_embeddings = true;
  EXPECT_EQ(beside.room(1, joined), RoomBeside::kNow);
  EXPECT_FALSE(beside.fits_in_place(1, joined));
}

}  // namespace
}  // namespace hearth::cli
