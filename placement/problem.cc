#include "placement/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/limits.h"
#include "placement/groups.h"

namespace hearth::placement {
namespace {

constexpr double kPromptRows = 128.0;  // of one step of prefill

Status check_seconds(const std::string& whose, const char* field, double seconds, double min) {
  char range[64];
  std::snprintf(range, sizeof range, "%g to %g", min, static_cast<double>(limits::kPlacedSeconds));
  REQUIRE(std::isfinite(seconds) && seconds >= min && seconds <= limits::kPlacedSeconds, whose,
          ": ", field, " must be a number from ", range);
  return ok_status();
}

Status check_bytes(const char* field, std::uint64_t bytes) {
  REQUIRE(bytes <= limits::kPlacedBytes, field, " is ", bytes, "; the limit is ",
          limits::kPlacedBytes);
  return ok_status();
}

Status check_model(const Problem& problem) {
  const Model& model = problem.model;
  REQUIRE(!model.layer_bytes.empty() && model.layer_bytes.size() <= limits::kModelLayers,
          "the model has ", model.layer_bytes.size(), " layers; it must have 1 to ",
          limits::kModelLayers);
  for (const std::uint64_t bytes : model.layer_bytes) {
    REQUIRE(bytes > 0, "the bytes of a layer are 0; they must be at least 1");
    TRY_VOID(check_bytes("the bytes of a layer", bytes));
  }
  REQUIRE(model.read_bytes().size() == model.layer_bytes.size(), "the model has ",
          model.layer_bytes.size(), " layers and bytes read of ", model.layer_read_bytes.size());
  for (std::size_t i = 0; i < model.layer_bytes.size(); ++i) {
    REQUIRE(model.read_bytes()[i] > 0 && model.read_bytes()[i] <= model.layer_bytes[i],
            "a row reads ", model.read_bytes()[i],
            " bytes of a layer; it must read from 1 to the layer's ", model.layer_bytes[i]);
  }
  TRY_VOID(check_bytes("the embedding", model.embedding_bytes));
  TRY_VOID(check_bytes("the head", model.head_bytes));
  TRY_VOID(check_bytes("the activations of a row", model.activation_bytes));
  REQUIRE(model.layer_kv.empty() || model.layer_kv.size() == model.layer_bytes.size(),
          "the model has ", model.layer_bytes.size(), " layers and the KV of ",
          model.layer_kv.size());
  // These limits keep what sequences have in all layers within 64 bits.
  for (std::uint32_t layer = 0; layer < problem.layers(); ++layer) {
    const KvBytes kv = model.kv_of({layer, layer + 1});
    REQUIRE(kv.position <= limits::kPlacedKvBytes, "the KV of a position in a layer takes ",
            kv.position, " bytes; the limit is ", limits::kPlacedKvBytes);
    TRY_VOID(check_bytes("the state of a layer", kv.state));
  }
  TRY_VOID(check_bytes("the exchanges of a layer", model.exchanges.layer_bytes));
  TRY_VOID(check_bytes("the exchange of the head", model.exchanges.head_bytes));
  REQUIRE(model.exchanges.whole_part >= 0.0 && model.exchanges.whole_part < 1.0,
          "the whole part of a layer is ", model.exchanges.whole_part,
          "; it must be 0 or more and below 1");
  REQUIRE(problem.kv_tokens <= limits::kPlacedTokens, problem.kv_tokens,
          " positions of KV; the limit is ", limits::kPlacedTokens);
  return ok_status();
}

std::uint64_t layer_bytes_of(const Problem& problem, LayerRange layers) {
  INVARIANT(layers.begin <= layers.end && layers.end <= problem.layers(),
            "a stage's layers are the model's");
  const auto begin = problem.model.layer_bytes.begin();
  std::uint64_t bytes = std::accumulate(begin + layers.begin, begin + layers.end, std::uint64_t{0});
  if (layers.begin == 0) bytes += problem.model.embedding_bytes;
  if (layers.end == problem.layers()) bytes += problem.model.head_bytes;
  return bytes;
}

// The node, or the figures of the group, that computes a stage.
class StageNode {
 public:
  StageNode(const Problem& problem, const Stage& stage) {
    INVARIANT(stage.node < problem.nodes.size(), "a stage is on one of the problem's nodes");
    if (stage.group.empty()) {
      alone_ = &problem.nodes[stage.node];
    } else {
      group_ = group_node(problem, stage.group);
    }
  }
  const Node& get() const { return alone_ != nullptr ? *alone_ : group_; }

 private:
  const Node* alone_ = nullptr;
  Node group_;
};

static_assert(limits::kBatchRows >= 2, "a batch has more than one row");

// Until each of `steps` steps of `rows` rows is back.
double round_seconds(const StepTimes& times, std::uint32_t steps, double rows) {
  const StepSeconds seconds = times.at(rows);
  return std::max(seconds.ring, steps * seconds.slowest);
}

// Of all sequences, as a stage shares its budget between pages and states
// (node/engine/stage_memory.cc): one sequence of kv_tokens positions always has room before more
// states are taken.
std::uint64_t kv_room(const Problem& problem, const Stage& stage) {
  const std::uint64_t weights = layer_bytes_of(problem, stage.layers);
  const StageNode computing(problem, stage);
  const Node& node = computing.get();
  const KvBytes kv = problem.model.kv_of(stage.layers);
  if (kv.position + kv.state == 0) return std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t left = node.memory_bytes - std::min(node.memory_bytes, weights);
  const std::uint64_t budget = std::min(left, node.kv_budget_bytes);
  if (kv.state > budget) return 0;
  if (kv.position == 0) return std::numeric_limits<std::uint64_t>::max();
  if (kv.state == 0) return budget / kv.position;
  const std::uint64_t beside = budget - std::min(budget, kv.position * problem.kv_tokens);
  const std::uint64_t states =
      std::min({limits::kSequenceStates, node.kv_budget_bytes / 2 / kv.state, beside / kv.state});
  return (budget - std::max<std::uint64_t>(states, 1) * kv.state) / kv.position;
}

double mean(const std::vector<std::uint64_t>& bytes) {
  double sum = 0.0;
  for (const std::uint64_t each : bytes) sum += static_cast<double>(each);
  return sum / static_cast<double>(bytes.size());
}

}  // namespace

double Model::mean_layer_bytes() const { return mean(layer_bytes); }
double Model::mean_read_bytes() const { return mean(read_bytes()); }

Status check(const Node& node) {
  REQUIRE(!node.name.empty() && node.name.size() <= limits::kNodeNameBytes,
          "a node's name must have 1 to ", limits::kNodeNameBytes, " bytes");
  const std::string whose = "node " + node.name;
  TRY_VOID(check_seconds(whose, "the seconds of a step", node.step_seconds, 0.0));
  TRY_VOID(
      check_seconds(whose, "the seconds of a layer", node.layer.one, limits::kLayerSecondsLeast));
  TRY_VOID(check_seconds(whose, "the seconds of a layer in a batch", node.layer.batch,
                         limits::kLayerSecondsLeast));
  TRY_VOID(check_seconds(whose, "the seconds of the head", node.head.one, 0.0));
  TRY_VOID(check_seconds(whose, "the seconds of the head in a batch", node.head.batch, 0.0));
  REQUIRE(node.memory_bytes <= limits::kPlacedBytes, whose, ": the memory is ", node.memory_bytes,
          " bytes; the limit is ", limits::kPlacedBytes);
  return ok_status();
}

// Builds texts only for an error, because a swarm may have a million links.
Status check(const Link& link, const std::string& from, const std::string& to) {
  const auto within = [](double value, double max) { return value >= 0.0 && value <= max; };
  if (within(link.delay_seconds, limits::kPlacedSeconds) &&
      within(link.bytes_per_second, limits::kLinkBytesPerSecond)) {
    return ok_status();
  }
  const std::string whose = "the link from " + from + " to " + to;
  TRY_VOID(check_seconds(whose, "the delay", link.delay_seconds, 0.0));
  REQUIRE(std::isfinite(link.bytes_per_second) && link.bytes_per_second >= 0.0 &&
              link.bytes_per_second <= limits::kLinkBytesPerSecond,
          whose, ": the bytes a second must be a number from 0 to ", limits::kLinkBytesPerSecond);
  return ok_status();
}

Status check(const Problem& problem) {
  TRY_VOID(check_model(problem));
  const std::size_t nodes = problem.nodes.size();
  REQUIRE(nodes >= 1 && nodes <= limits::kWorkers, "the problem has ", nodes,
          " nodes; it must have 1 to ", limits::kWorkers);
  REQUIRE(problem.links.size() == nodes * nodes, problem.links.size(), " links of ", nodes,
          " nodes; there must be one for every pair of nodes");
  REQUIRE(problem.batch_rows >= 2 && problem.batch_rows <= limits::kBatchRows, "a batch has ",
          problem.batch_rows, " rows; it must have 2 to ", limits::kBatchRows);
  REQUIRE(!problem.model.is_whole || problem.stages == 1,
          (problem.stages == 0 ? "any number of" : std::to_string(problem.stages)),
          " stages; one stage must hold every layer of this model, because its layers read more "
          "than the output of the layer before: ask for 1 stage");
  REQUIRE(problem.stages <= problem.layers(), problem.stages,
          " stages need as many layers, and the model has ", problem.layers(),
          "; ask for fewer stages");
  for (const Node& node : problem.nodes) TRY_VOID(check(node));
  REQUIRE(problem.islands.empty() || problem.islands.size() == nodes, problem.islands.size(),
          " islands of ", nodes, " nodes; there must be one for every node, or none");
  for (std::size_t from = 0; from < nodes; ++from) {
    for (std::size_t to = 0; to < nodes; ++to) {
      if (from == to) continue;
      TRY_VOID(check(problem.links[from * nodes + to], problem.nodes[from].name,
                     problem.nodes[to].name));
    }
  }
  return ok_status();
}

std::uint64_t stage_bytes(const Problem& problem, LayerRange layers) {
  return layer_bytes_of(problem, layers) + problem.model.kv_of(layers).of(problem.kv_tokens);
}

bool fits(const Problem& problem, const Stage& stage) {
  const StageNode computing(problem, stage);
  const Node& node = computing.get();
  const std::uint64_t weights = layer_bytes_of(problem, stage.layers);
  const std::uint64_t kv = problem.model.kv_of(stage.layers).of(problem.kv_tokens);
  return weights <= node.memory_bytes &&
         kv <= std::min(node.memory_bytes - weights, node.kv_budget_bytes);
}

double stage_seconds(const Problem& problem, const Stage& stage, double rows) {
  const StageNode computing(problem, stage);
  const Node& node = computing.get();
  double bytes = 0.0;
  for (std::uint32_t i = stage.layers.begin; i < stage.layers.end; ++i) {
    bytes += static_cast<double>(problem.model.read_bytes()[i]);
  }
  const double layers = bytes / problem.model.mean_read_bytes();
  double seconds = node.step_seconds + layers * at_rows(node.layer, rows, problem.batch_rows);
  if (stage.layers.end == problem.layers()) seconds += at_rows(node.head, rows, problem.batch_rows);
  return seconds;
}

double delay_seconds(const Problem& problem, const std::vector<Stage>& stages, std::size_t from) {
  if (stages.size() == 1) return 0.0;
  const Stage& to = stages[(from + 1) % stages.size()];
  return problem.link(stages[from].node, to.node).delay_seconds;
}

// The last stage sends tokens, which have a few bytes.
double bytes_seconds(const Problem& problem, const std::vector<Stage>& stages, std::size_t from,
                     double rows) {
  if (from + 1 == stages.size()) return 0.0;
  const Link& link = problem.link(stages[from].node, stages[from + 1].node);
  return rows * static_cast<double>(problem.model.activation_bytes) / link.bytes_per_second;
}

double ring_seconds(const Problem& problem, const std::vector<Stage>& stages, double rows) {
  INVARIANT(!stages.empty(), "a pipeline has a stage");
  double seconds = 0.0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    seconds += stage_seconds(problem, stages[i], rows) + delay_seconds(problem, stages, i) +
               bytes_seconds(problem, stages, i, rows);
  }
  return seconds;
}

StepTimes step_times(const Problem& problem, const std::vector<Stage>& stages) {
  const auto of_rows = [&](const auto& seconds) {
    return RowSeconds{seconds(1.0), seconds(problem.batch_rows)};
  };
  StepTimes times{static_cast<std::uint32_t>(stages.size()), problem.batch_rows};
  times.ring = of_rows([&](double rows) { return ring_seconds(problem, stages, rows); });
  for (std::size_t i = 0; i < stages.size(); ++i) {
    times.parts.push_back(
        of_rows([&](double rows) { return stage_seconds(problem, stages[i], rows); }));
    if (i + 1 == stages.size()) break;
    times.parts.push_back(
        of_rows([&](double rows) { return bytes_seconds(problem, stages, i, rows); }));
  }
  return times;
}

double pace_seconds(const Problem& problem, const std::vector<Stage>& stages, double rows) {
  double pace = ring_seconds(problem, stages, rows) / static_cast<double>(stages.size() + 1);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    pace = std::max(
        {pace, stage_seconds(problem, stages[i], rows), bytes_seconds(problem, stages, i, rows)});
  }
  return pace;
}

double cost_seconds(const Problem& problem, const std::vector<Stage>& stages) {
  if (problem.objective != Objective::kThroughput) return ring_seconds(problem, stages, 1.0);
  return pace_seconds(problem, stages, problem.batch_rows);
}

Prediction predict(const Problem& problem, const std::vector<Stage>& stages) {
  Prediction prediction;
  const StepTimes times = step_times(problem, stages);
  prediction.tokens_per_second = 1.0 / times.ring.one;
  prediction.streams = problem.batch_rows * (times.stages + 1);
  const std::uint32_t steps = steps_of_sequences(times, prediction.streams);
  prediction.all_tokens_per_second =
      prediction.streams / round_seconds(times, steps, double{1.0} * prediction.streams / steps);
  const std::uint32_t prompt_steps = steps_of_rows(times, kPromptRows);
  prediction.prompt_tokens_per_second =
      kPromptRows * prompt_steps / round_seconds(times, prompt_steps, kPromptRows);
  prediction.kv_tokens = std::numeric_limits<std::uint64_t>::max();
  for (const Stage& stage : stages) {
    prediction.kv_tokens = std::min(prediction.kv_tokens, kv_room(problem, stage));
  }
  return prediction;
}

double rate_of(const Problem& problem, const Prediction& prediction) {
  return problem.objective != Objective::kThroughput ? prediction.tokens_per_second
                                                     : prediction.all_tokens_per_second;
}

}  // namespace hearth::placement
