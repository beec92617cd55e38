#include "placement/estimate/speed.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/limits.h"
#include "placement/estimate/memory.h"
#include "placement/problem.h"
#include "tests/unit/placement/estimate/setups.h"

namespace hearth::placement {
namespace {

// The same pipeline as placement sees measured nodes.
Problem problem_of(const EstimateInput& setup, std::uint32_t stages) {
  const Shape& shape = setup.shape;
  const auto layer = [&](double rows) {
    return (weight_bytes(layer_parameters(shape), setup.weight_bits) +
            rows * setup.context * kv_bytes_int8(shape)) /
           setup.card.memory_bytes_per_second;
  };
  const double head =
      weight_bytes(head_parameters(shape), setup.weight_bits) / setup.card.memory_bytes_per_second;
  Problem problem;
  problem.model.layer_bytes.assign(shape.layers, 1000);
  problem.model.activation_bytes = shape.hidden * 2 + 24;
  problem.batch_rows = setup.batch;
  problem.nodes.assign(stages, {"node", 0.0, {layer(1.0), layer(setup.batch)}, {head, head}, 1000});
  problem.links.assign(std::size_t{stages} * stages,
                       {setup.network.delay_seconds, setup.network.bytes_per_second});
  return problem;
}

TEST(Speed, APipelineIsPredictedAsPlacementPredictsIt) {
  EstimateInput setup = small_setup(4);
  for (const std::uint32_t batch : {2U, 8U, 60U}) {
    for (const std::uint32_t count : {2U, 4U}) {
      setup.batch = batch;
      const Problem problem = problem_of(setup, count);
      std::vector<Stage> stages;
      for (std::uint32_t i = 0; i < count; ++i) {
        stages.push_back({i, {i * 8 / count, (i + 1) * 8 / count}});
      }
      const Prediction expected = predict(problem, stages);
      const Estimate found = estimate(setup, {count, 1, 1});
      EXPECT_NEAR(found.alone / expected.tokens_per_second, 1.0, 1e-9);
      EXPECT_NEAR(found.total / expected.all_tokens_per_second, 1.0, 1e-9);
      EXPECT_EQ(found.users, expected.streams);
    }
  }
}

TEST(Speed, ReplicasAddUp) {
  const EstimateInput setup = small_setup(4);
  const Estimate one = estimate(setup, {2, 1, 1});
  const Estimate two = estimate(setup, {2, 1, 2});
  EXPECT_DOUBLE_EQ(two.total, 2.0 * one.total);
  EXPECT_DOUBLE_EQ(two.per_user, one.per_user);
  EXPECT_EQ(two.users, 2 * one.users);
  EXPECT_EQ(two.users_room, 2 * one.users_room);
}

TEST(Speed, RanksShareReadingAndExchangeTwiceALayer) {
  EstimateInput setup = small_setup(4);
  setup.cards_per_machine = 4;
  const Estimate one = estimate(setup, {1, 1, 1});
  const Estimate four = estimate(setup, {1, 4, 1});
  EXPECT_NEAR(four.reading, one.reading / 4.0, one.reading * 1e-9);
  EXPECT_NEAR(four.sending + four.waiting, 16.0 * exchange_seconds(2048.0, 4, 1e10, 1e-5), 1e-12);
  EXPECT_GT(four.alone, one.alone);
  setup.cards_per_machine = 1;  // over the network the delays cost more than the sharing saves
  EXPECT_LT(estimate(setup, {1, 4, 1}).alone, one.alone);
  EXPECT_EQ(estimate(setup, {1, 4, 1}).bound, Bound::kLinkDelay);
}

TEST(Speed, AnExchangeTakesTheQuickerWay) {
  EXPECT_EQ(exchange_seconds(1000.0, 1, 1e6, 1.0), 0.0);
  EXPECT_DOUBLE_EQ(exchange_seconds(0.0, 8, 1e6, 1e-3), 1e-3);  // small: all at once
  EXPECT_NEAR(exchange_seconds(1e9, 8, 1e6, 1e-3), 2 * (1e-3 + 7.0 / 8.0 * 1e3), 1e-9);
}

TEST(Speed, KnowsWhatLimits) {
  EstimateInput setup = small_setup(4);
  EXPECT_EQ(estimate(setup, {1, 1, 1}).bound, Bound::kBandwidth);
  setup.batch = limits::kBatchRows;
  setup.context = 1;
  setup.card.fp16_flops = 1e12;
  EXPECT_EQ(estimate(setup, {1, 1, 1}).bound, Bound::kCompute);
  setup.network.bytes_per_second = 1e6;
  EXPECT_EQ(estimate(setup, {4, 1, 1}).bound, Bound::kLinkRate);
  setup.card.memory_bytes = 1.1 * 1024.0 * 1024.0 * 1024.0;
  EXPECT_EQ(estimate(setup, {1, 1, 1}).bound, Bound::kCapacity);
}

TEST(Speed, WeightsBelowSixteenBitsAreMultipliedAsIntegers) {
  EstimateInput setup = small_setup(1);
  setup.batch = limits::kBatchRows;
  setup.context = 1;
  setup.card.memory_bytes_per_second = 1e18;
  const double fp16 = estimate(setup, {1, 1, 1}).total;
  setup.weight_bits = 8.5;
  EXPECT_NEAR(estimate(setup, {1, 1, 1}).total / fp16, 2.0, 1e-6);
  setup.card.int8_flops = 0.0;
  EXPECT_NEAR(estimate(setup, {1, 1, 1}).total / fp16, 1.0, 1e-6);
}

TEST(Speed, WeightsOf32BitsAreMultipliedByOrdinaryUnits) {
  EstimateInput setup = small_setup(1);
  setup.batch = limits::kBatchRows;
  setup.context = 1;
  setup.card.memory_bytes = 1e11;
  setup.card.memory_bytes_per_second = 1e18;
  setup.card.fp32_flops = 1e13;  // a tenth of the FP16 rate
  const double fp16 = estimate(setup, {1, 1, 1}).total;
  setup.weight_bits = 16.001;  // as a file of F16 with norms of F32
  EXPECT_NEAR(estimate(setup, {1, 1, 1}).total / fp16, 1.0, 1e-6);
  setup.weight_bits = 32.0;
  EXPECT_NEAR(estimate(setup, {1, 1, 1}).total / fp16, 0.1, 1e-6);
}

TEST(Speed, AGroupThatOneMachineDoesNotHoldUsesTheNetwork) {
  EstimateInput setup = small_setup(8);
  const auto waiting = [&](std::uint32_t per_machine, const Layout& layout) {
    setup.cards_per_machine = per_machine;
    return estimate(setup, layout).waiting;
  };
  const double exchanges = 8 * 2.0;  // in delays
  EXPECT_NEAR(waiting(4, {2, 4, 1}), exchanges * 1e-5 + 2 * 1e-4, 1e-12);
  // Six and two: the second group of four has cards in both.
  EXPECT_NEAR(waiting(6, {2, 4, 1}), exchanges * 1e-4 + 2 * 1e-4, 1e-12);
  EXPECT_NEAR(waiting(1, {2, 4, 1}), exchanges * 1e-4 + 2 * 1e-4, 1e-12);
  // Six and two hold four groups of two.
  EXPECT_NEAR(waiting(8, {4, 2, 1}), exchanges * 1e-5 + 4 * 1e-5, 1e-12);
  EXPECT_NEAR(waiting(6, {4, 2, 1}), exchanges * 1e-5 + 2 * 1e-5 + 2 * 1e-4, 1e-12);
}

TEST(Speed, APipelineUsesTheNetworkBetweenMachinesOnly) {
  EstimateInput setup = small_setup(8);
  const auto waiting = [&](std::uint32_t per_machine, std::uint32_t replicas) {
    setup.cards_per_machine = per_machine;
    return estimate(setup, {8 / replicas, 1, replicas}).waiting;
  };
  EXPECT_NEAR(waiting(1, 1), 8 * 1e-4, 1e-12);
  EXPECT_NEAR(waiting(2, 1), 4 * 1e-4 + 4 * 1e-5, 1e-12);
  EXPECT_NEAR(waiting(4, 1), 2 * 1e-4 + 6 * 1e-5, 1e-12);
  EXPECT_NEAR(waiting(8, 1), 8 * 1e-5, 1e-12);
  // Two pipelines of four: each in a machine of four, or over two of two.
  EXPECT_NEAR(waiting(4, 2), 4 * 1e-5, 1e-12);
  EXPECT_NEAR(waiting(2, 2), 2 * 1e-4 + 2 * 1e-5, 1e-12);
  // Machines of three: each pipeline has cards in two of them.
  EXPECT_NEAR(waiting(3, 2), 2 * 1e-4 + 2 * 1e-5, 1e-12);
}

TEST(Speed, CountsTheRoomForUsers) {
  EstimateInput setup = small_setup(1);
  setup.context = 8192;
  const Estimate found = estimate(setup, {1, 1, 1});
  ASSERT_TRUE(found.holds_weights);
  const double user = 8192.0 * 8 * kv_bytes_int8(setup.shape);
  const double left = setup.card.memory_bytes - found.memory.weights - found.memory.activations -
                      found.memory.margin;
  EXPECT_EQ(found.users_room, static_cast<std::uint64_t>(left / user));
  EXPECT_EQ(found.memory.kv, user);
}

TEST(Speed, UsersWithoutRoomForTheirKvGiveNoSpeed) {
  EstimateInput setup = small_setup(2);
  setup.context = 8192;
  setup.batch = 1;
  const Estimate alone = estimate(setup, {2, 1, 1});
  ASSERT_GT(alone.users_room, 3U);
  setup.batch = limits::kBatchRows;
  const Estimate full = estimate(setup, {2, 1, 1});
  EXPECT_EQ(full.users_wanted, 3U * limits::kBatchRows);
  EXPECT_EQ(full.users_room, alone.users_room);
  EXPECT_EQ(full.users, full.users_room);
  EXPECT_DOUBLE_EQ(full.total, static_cast<double>(full.users) * full.per_user);
  EXPECT_LE(full.memory.total(), setup.card.memory_bytes);
  // More memory serves more of them.
  setup.card.memory_bytes *= 2.0;
  EXPECT_GT(estimate(setup, {2, 1, 1}).total, full.total);
}

TEST(Speed, APipelineRunsALimitedNumberOfSequences) {
  EstimateInput setup = small_setup(32);
  setup.shape.layers = 16;
  setup.context = 1;
  setup.batch = limits::kBatchRows;
  setup.card.memory_bytes = 1e13;
  const Estimate one = estimate(setup, {16, 1, 1});
  EXPECT_GT(one.users_wanted, limits::kRunningSequences);
  EXPECT_EQ(one.users_room, limits::kRunningSequences);
  EXPECT_EQ(one.users, limits::kRunningSequences);
  EXPECT_EQ(estimate(setup, {16, 1, 2}).users, 2 * limits::kRunningSequences);
}

TEST(Speed, WithoutRoomForOneUserNothingRuns) {
  EstimateInput setup = small_setup(1);
  setup.shape.context = 1 << 20;
  setup.context = 1 << 20;
  const Estimate found = estimate(setup, {1, 1, 1});
  EXPECT_TRUE(found.holds_weights);
  EXPECT_EQ(found.users, 0U);
  EXPECT_EQ(found.total, 0.0);
  EXPECT_EQ(found.bound, Bound::kCapacity);
}

TEST(Speed, ListsPipelinesTensorParallelAndHybrids) {
  EstimateInput setup = small_setup(8);
  const std::vector<Layout> found = layouts(setup);
  for (const Layout layout : {Layout{8, 1, 1}, Layout{4, 2, 1}, Layout{2, 4, 1}, Layout{1, 1, 8}}) {
    EXPECT_NE(std::ranges::find(found, layout), found.end());
  }
  for (const Layout& layout : found) {
    EXPECT_LE(layout.ranks, setup.shape.kv_heads);  // eight ranks have not a head each
    EXPECT_LE(layout.cards(), 8U);
  }
  setup.cards = 1000;  // more than layers and heads
  setup.card.memory_bytes = 1.01 * 1024.0 * 1024.0 * 1024.0;
  EXPECT_FALSE(layouts(setup).empty());
}

TEST(Speed, RefusesWhatIsOutOfRangeByItsFlag) {
  const auto refused = [](auto change) {
    EstimateInput setup = small_setup(2);
    change(setup);
    const Status status = check(setup);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(refused([](EstimateInput&) {}), "");
  EXPECT_EQ(refused([](EstimateInput& s) { s.cards = 0; }),
            "--gpus: the number of GPUs must be from 1 to 1024, got 0");
  EXPECT_EQ(refused([](EstimateInput& s) { s.cards = 4'000'000'000; }),
            "--gpus: the number of GPUs must be from 1 to 1024, got 4000000000");
  EXPECT_EQ(refused([](EstimateInput& s) { s.batch = 513; }),
            "--batch must be from 1 to 512, got 513");
  EXPECT_EQ(refused([](EstimateInput& s) { s.context = 0; }),
            "--context must be from 1 to 1048576, got 0");
  EXPECT_NE(refused([](EstimateInput& s) { s.card.fp16_flops = 0; }).find("--gpus"),
            std::string::npos);
  EXPECT_EQ(refused([](EstimateInput& s) { s.weight_bits = 32.0; }),
            "--gpus: the catalogue lacks the FP32 rate of card; choose another GPU, or a format of "
            "at most 16 bits with --quant");
  EXPECT_NE(refused([](EstimateInput& s) { s.network.bytes_per_second = 0; }).find("--link"),
            std::string::npos);
}

}  // namespace
}  // namespace hearth::placement
