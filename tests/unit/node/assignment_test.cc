#include "node/assignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/limits.h"

namespace hearth::node {
namespace {

control::v1::Assign good() {
  control::v1::Assign assign;
  assign.set_epoch(4);
  assign.set_stage(1);
  assign.set_stages(3);
  assign.mutable_layers()->set_begin(2);
  assign.mutable_layers()->set_end(4);
  assign.set_next_address("next:1");
  assign.set_next_node("next");
  assign.set_previous_node("previous");
  assign.set_batch_rows(64);
  assign.set_batches_in_flight(4);
  return assign;
}

std::string refusal(const std::function<void(control::v1::Assign&)>& change) {
  control::v1::Assign assign = good();
  change(assign);
  const auto read = read_assignment(assign, 6);
  return read.ok() ? "" : read.error().message;
}

TEST(Assignment, ReadsWhatFits) {
  const auto assignment = read_assignment(good(), 6);
  ASSERT_TRUE(assignment.ok());
  EXPECT_EQ(assignment->layers, (LayerRange{2, 4}));
  EXPECT_FALSE(assignment->is_first());
  EXPECT_FALSE(assignment->is_last());
  EXPECT_FALSE(assignment->model);
  control::v1::Assign with_receipts = good();
  with_receipts.set_model(std::string(32, 'm'));
  const auto receipts = read_assignment(with_receipts, 6);
  ASSERT_TRUE(receipts.ok());
  EXPECT_EQ(receipts->model->bytes[31], std::byte{'m'});
  EXPECT_FALSE(assignment->itl_target);
  control::v1::Assign paced = good();
  paced.set_itl_target_milliseconds(60'000);
  const auto target = read_assignment(paced, 6);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->itl_target, std::chrono::minutes(1));
}

// Of the three stages of good(), and their two links.
void set_times(control::v1::Assign& assign, double ring, double part, double others) {
  control::v1::StepTimes& times = *assign.mutable_times();
  times.set_batch_rows(16);
  times.set_ring_seconds(ring);
  times.set_ring_batch_seconds(2.0 * ring);
  for (int i = 0; i < 5; ++i) {
    times.add_part_seconds(i == 3 ? part : others);
    times.add_part_batch_seconds(2.0 * (i == 3 ? part : others));
  }
}

TEST(Assignment, ReadsTheTimesOfSteps) {
  control::v1::Assign assign = good();
  EXPECT_FALSE(read_assignment(assign, 6)->times.has_value());
  set_times(assign, 0.5, 0.25, 0.0);
  const auto read = read_assignment(assign, 6);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_TRUE(read->times.has_value());
  EXPECT_EQ(read->times->stages, 3u);
  EXPECT_EQ(read->times->batch_rows, 16u);
  EXPECT_DOUBLE_EQ(read->times->ring.batch, 1.0);
  EXPECT_DOUBLE_EQ(read->times->at(1.0).slowest, 0.25);
}

TEST(Assignment, RefusesTimesThatAreNoTimes) {
  const auto says = [](const std::string& what,
                       const std::function<void(control::v1::Assign&)>& of) {
    const std::string said = refusal(of);
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  const auto with = [](double ring, double part, double others) {
    return [=](control::v1::Assign& assign) { set_times(assign, ring, part, others); };
  };
  const double huge = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(with(1e300, 1e-300, 1e300)), "");
  says("times of one row: they must be numbers of seconds", with(huge, 0.1, 0.1));
  says("they must be numbers of seconds", with(std::nan(""), 0.1, 0.1));
  says("they must be numbers of seconds", with(0.1, std::nan(""), 0.1));
  says("they must be numbers of seconds, at least 0", with(0.1, 0.1, -1.0));
  says("times of one row: a part is longer than the ring", with(0.1, 0.2, 0.1));
  says("every part is 0", with(0.1, 0.0, 0.0));
  says("times of a batch: a part is longer", [](auto& a) {
    set_times(a, 1.0, 0.1, 0.1);
    a.mutable_times()->set_part_batch_seconds(4, 2.5);
  });
  says("times have 5 and 6 parts; the stages and their links are 5", [](auto& a) {
    set_times(a, 1.0, 0.1, 0.1);
    a.mutable_times()->add_part_batch_seconds(0.1);
  });
  for (const std::uint32_t rows : {0u, 1u, limits::kBatchRows + 1}) {
    says("times.batch_rows is " + std::to_string(rows), [&](auto& a) {
      set_times(a, 1.0, 0.1, 0.1);
      a.mutable_times()->set_batch_rows(rows);
    });
  }
}

TEST(Assignment, RefusesWhatDoesNotAndNamesIt) {
  EXPECT_NE(refusal([](auto& a) { a.set_epoch(0); }).find("epoch"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_stages(0); }).find("stages"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_stages(limits::kStages + 1); }).find("512"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_stage(3); }).find("stage is 3"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.mutable_layers()->set_end(2); }).find("layers"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.mutable_layers()->set_end(7); }), "");
  EXPECT_NE(refusal([](auto& a) { a.mutable_layers()->set_begin(0); }).find("first"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.mutable_layers()->set_end(6); }).find("last"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_batch_rows(0); }).find("batch_rows"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_batch_rows(513); }).find("512"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_batches_in_flight(0); }), "");
  EXPECT_NE(refusal([](auto& a) { a.set_itl_target_milliseconds(60'001); }).find("60000"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_next_address(""); }).find("next_address"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_next_address(std::string(257, 'x')); }), "");
  EXPECT_NE(refusal([](auto& a) { a.set_next_node(""); }).find("node name"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_previous_node("a\n"); }).find("node name"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.set_model("short"); }).find("model has 5"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) {
              a.set_stage(2);
              a.mutable_layers()->set_end(6);
            }).find("coordinator_address"),
            std::string::npos);
}

void add_ranks(control::v1::Assign& assign, int count) {
  for (int i = 0; i < count; ++i) {
    auto& rank = *assign.add_group();
    rank.set_node("rank-" + std::to_string(i));
    rank.set_address("10.0.0.1:" + std::to_string(1000 + i));
    rank.set_part(i + 1);
  }
}

TEST(Assignment, ReadsAGroup) {
  control::v1::Assign assign = good();
  add_ranks(assign, 3);
  assign.set_rank(2);
  const auto read = read_assignment(assign, 6);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->rank, 2u);
  EXPECT_FALSE(read->leads());
  EXPECT_EQ(read->group.at(1), (AssignedRank{"rank-1", "10.0.0.1:1001", 2}));
  EXPECT_TRUE(read_assignment(good(), 6)->leads());
}

TEST(Assignment, RefusesAGroupThatIsNone) {
  const auto with = [](int count, const std::function<void(control::v1::Assign&)>& change) {
    return refusal([&](control::v1::Assign& assign) {
      add_ranks(assign, count);
      change(assign);
    });
  };
  EXPECT_NE(with(1, [](auto&) {}).find("2 to 8"), std::string::npos);
  EXPECT_NE(with(9, [](auto&) {}).find("ranks is 9"), std::string::npos);
  EXPECT_NE(with(2, [](auto& a) { a.set_rank(2); }).find("rank is 2"), std::string::npos);
  EXPECT_NE(with(2, [](auto& a) { a.mutable_group(1)->set_node(""); }), "");
  EXPECT_NE(with(2, [](auto& a) { a.mutable_group(1)->set_node(a.group(0).node()); }), "");
  EXPECT_NE(with(2, [](auto& a) { a.mutable_group(1)->set_address(a.group(0).address()); }), "");
  EXPECT_NE(with(2, [](auto& a) { a.mutable_group(1)->set_address(""); }), "");
  const auto empty = [](auto& a) {
    for (auto& rank : *a.mutable_group()) rank.set_part(0);
  };
  EXPECT_NE(with(2, empty).find("part 0"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
