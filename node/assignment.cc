#include "node/assignment.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "proto/fixed_field.h"
#include "proto/frame.h"

namespace hearth::node {
namespace {

Status check_address(const char* field, const std::string& address) {
  REQUIRE(!address.empty() && address.size() <= limits::kAddressBytes, field, " has ",
          address.size(), " bytes; it must have 1 to ", limits::kAddressBytes);
  return ok_status();
}

Status check_layers(const Assignment& assignment, std::uint32_t model_layers) {
  const LayerRange layers = assignment.layers;
  REQUIRE(layers.begin < layers.end && layers.end <= model_layers, "assigned layers ", layers.begin,
          " to ", layers.end, " are not a range of the model, which has layers 0 to ",
          model_layers);
  REQUIRE((layers.begin == 0) == assignment.is_first(),
          "layers must begin at 0 on the first stage and only there");
  REQUIRE((layers.end == model_layers) == assignment.is_last(), "layers must end at ", model_layers,
          " on the last stage and only there");
  return ok_status();
}

Status check_range(const char* field, std::uint32_t value, std::uint32_t limit) {
  REQUIRE(value >= 1 && value <= limit, field, " is ", value, "; it must be 1 to ", limit);
  return ok_status();
}

Status read_group(const control::v1::Assign& assign, Assignment& assignment) {
  if (assign.group().empty()) return ok_status();
  TRY_VOID(check_range("ranks", static_cast<std::uint32_t>(assign.group_size()), limits::kRanks));
  REQUIRE(assign.group_size() > 1, "a group has one rank; it must have 2 to ", limits::kRanks);
  assignment.rank = assign.rank();
  REQUIRE(assignment.rank < static_cast<std::uint32_t>(assign.group_size()), "rank is ",
          assignment.rank, "; it must be 0 to ", assign.group_size() - 1);
  bool any = false;
  for (const auto& rank : assign.group()) {
    TRY_VOID(check_node_name(rank.node()));
    TRY_VOID(check_address("the address of a rank", rank.address()));
    any = any || rank.part() > 0;
    const bool twice = std::ranges::any_of(assignment.group, [&](const AssignedRank& other) {
      return other.node == rank.node() || other.address == rank.address();
    });
    REQUIRE(!twice, "the group has two ranks at worker ", rank.node(), ", address ", rank.address(),
            "; each rank must have its own");
    assignment.group.push_back({rank.node(), rank.address(), rank.part()});
  }
  REQUIRE(any, "every rank of the group has part 0; at least one must have more");
  return ok_status();
}

Status check_seconds_of(const char* rows, double ring, double part) {
  for (const double seconds : {ring, part}) {
    REQUIRE(std::isfinite(seconds) && seconds >= 0.0, "times of ", rows,
            ": they must be numbers of seconds, at least 0");
  }
  REQUIRE(part <= ring, "times of ", rows, ": a part is longer than the ring");
  return ok_status();
}

Result<std::optional<placement::StepTimes>> read_times(const control::v1::Assign& assign) {
  if (!assign.has_times()) return std::optional<placement::StepTimes>();
  const control::v1::StepTimes& given = assign.times();
  REQUIRE(given.batch_rows() >= 2 && given.batch_rows() <= limits::kBatchRows,
          "times.batch_rows is ", given.batch_rows(), "; it must be 2 to ", limits::kBatchRows);
  const std::uint32_t parts = 2 * assign.stages() - 1;
  REQUIRE(given.part_seconds_size() == static_cast<int>(parts) &&
              given.part_batch_seconds_size() == static_cast<int>(parts),
          "times have ", given.part_seconds_size(), " and ", given.part_batch_seconds_size(),
          " parts; the stages and their links are ", parts);
  placement::StepTimes times{assign.stages(), given.batch_rows()};
  times.ring = {given.ring_seconds(), given.ring_batch_seconds()};
  for (int i = 0; i < given.part_seconds_size(); ++i) {
    const placement::RowSeconds part{given.part_seconds(i), given.part_batch_seconds(i)};
    TRY_VOID(check_seconds_of("one row", times.ring.one, part.one));
    TRY_VOID(check_seconds_of("a batch", times.ring.batch, part.batch));
    times.parts.push_back(part);
  }
  REQUIRE(times.at(1.0).slowest > 0.0, "times of one row: every part is 0; one must be more");
  return std::optional(times);
}

}  // namespace

Result<Assignment> read_assignment(const control::v1::Assign& assign, std::uint32_t model_layers) {
  Assignment assignment;
  assignment.epoch = Epoch(assign.epoch());
  assignment.stage = assign.stage();
  assignment.stages = assign.stages();
  assignment.layers = {assign.layers().begin(), assign.layers().end()};
  assignment.next_address = assign.next_address();
  assignment.coordinator_address = assign.coordinator_address();
  assignment.next_node = assign.next_node();
  assignment.previous_node = assign.previous_node();
  assignment.batch_rows = assign.batch_rows();
  assignment.batches_in_flight = assign.batches_in_flight();
  assignment.protocol = assign.protocol();
  REQUIRE(assignment.epoch.value != 0, "an assignment has epoch 0; epochs begin at 1");
  TRY_VOID(check_range("stages", assignment.stages, limits::kStages));
  REQUIRE(assignment.stage < assignment.stages, "stage is ", assignment.stage, "; it must be 0 to ",
          assignment.stages - 1);
  TRY_VOID(check_layers(assignment, model_layers));
  TRY_VOID(check_range("batch_rows", assignment.batch_rows, limits::kBatchRows));
  TRY_VOID(check_range("batches_in_flight", assignment.batches_in_flight, limits::kStages + 1));
  TRY(assignment.times, read_times(assign));
  if (assign.itl_target_milliseconds() != 0) {
    TRY_VOID(check_range("itl_target_milliseconds", assign.itl_target_milliseconds(),
                         limits::kItlTargetMilliseconds));
    assignment.itl_target = std::chrono::milliseconds(assign.itl_target_milliseconds());
  }
  if (assignment.stages > 1) {
    TRY_VOID(check_address("next_address", assignment.next_address));
    TRY_VOID(check_node_name(assignment.next_node));
    TRY_VOID(check_node_name(assignment.previous_node));
  }
  if (!assign.model().empty()) {
    Hash256& model = assignment.model.emplace();
    REQUIRE(read_field(assign.model(), model.bytes), "model has ", assign.model().size(),
            " bytes; it must have ", model.bytes.size());
  }
  if (assignment.is_last()) {
    TRY_VOID(check_address("coordinator_address", assignment.coordinator_address));
  }
  TRY_VOID(read_group(assign, assignment));
  return assignment;
}

}  // namespace hearth::node
