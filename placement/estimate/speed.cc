#include "placement/estimate/speed.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"
#include "placement/estimate/memory.h"

namespace hearth::placement {
namespace {

constexpr double kActivationBytes = 2.0;
constexpr double kFp16Bits = 16.0;
constexpr double kRowBytes = 24.0;  // beside the activations: sequence, position, token, flags
constexpr double kExchangesOfLayer = 2.0;  // behind attention and behind the feed-forward
constexpr double kMarginShare = 0.1;       // as card_budget() of node/engine/card keeps it
constexpr double kMarginLeast = 1024.0 * 1024.0 * 1024.0;

struct Wire {
  double bytes_per_second = 0.0;
  double delay = 0.0;
};

// Between cards of which `together` should be in one machine.
Wire wire_of(const EstimateInput& setup, std::uint64_t together) {
  if (together <= setup.cards_per_machine) {
    return {setup.card.link_bytes_per_second, setup.card.link_seconds};
  }
  return {setup.network.bytes_per_second, setup.network.delay_seconds};
}

// Weights of 16 bits and more are multiplied as FP16, others as integers where the card can.
double multiply_rate(const EstimateInput& setup) {
  const Card& card = setup.card;
  return setup.weight_bits < kFp16Bits && card.int8_flops > 0.0 ? card.int8_flops : card.fp16_flops;
}

struct Part {
  double reading = 0.0;
  double computing = 0.0;  // all of it
  double seconds() const { return std::max(reading, computing); }
};

// One layer, for each rank.
Part layer_part(const EstimateInput& setup, std::uint32_t ranks, double rows) {
  const Shape& shape = setup.shape;
  const double weights = weight_bytes(layer_parameters_read(shape, rows), setup.weight_bits);
  const double kv = rows * setup.context * kv_bytes_int8(shape);
  const double scores = 2.0 * shape.heads * shape.head_dim * setup.context;  // and mixing values
  const double operations = 2.0 * rows * (layer_parameters_used(shape) + scores);
  return {(weights + kv) / setup.card.memory_bytes_per_second / ranks,
          operations / multiply_rate(setup) / ranks};
}

Part head_part(const EstimateInput& setup, std::uint32_t ranks, double rows) {
  const double weights = weight_bytes(head_parameters(setup.shape), setup.weight_bits);
  const double operations = 2.0 * rows * head_parameters(setup.shape);
  return {weights / setup.card.memory_bytes_per_second / ranks,
          operations / multiply_rate(setup) / ranks};
}

// A round of a step batch through a pipeline.
struct Round {
  double reading = 0.0;
  double computing = 0.0;
  double sending = 0.0;
  double waiting = 0.0;
  double slowest = 0.0;  // stage, or transfer between two: the next batch waits for it
  double seconds() const { return reading + computing + sending + waiting; }
};

Round round_of(const EstimateInput& setup, const Layout& layout, double rows) {
  const Shape& shape = setup.shape;
  const Part layer = layer_part(setup, layout.ranks, rows);
  const Part head = head_part(setup, layout.ranks, rows);
  const Wire inside = wire_of(setup, layout.ranks);
  const double activations = rows * shape.hidden * kActivationBytes;
  double exchange = 0.0;
  double exchange_delay = 0.0;
  if (layout.ranks > 1) {
    const double all = kExchangesOfLayer * exchange_seconds(activations, layout.ranks,
                                                            inside.bytes_per_second, inside.delay);
    exchange_delay = std::min(all, kExchangesOfLayer * inside.delay);
    exchange = all - exchange_delay;
  }
  Round round;
  round.reading = shape.layers * layer.reading + head.reading;
  round.computing =
      shape.layers * (layer.seconds() - layer.reading) + head.seconds() - head.reading;
  round.sending = shape.layers * exchange;
  round.waiting = shape.layers * exchange_delay;
  const double most = std::ceil(double{1.0} * shape.layers / layout.stages);
  const double least = std::floor(double{1.0} * shape.layers / layout.stages);
  const double each = layer.seconds() + exchange + exchange_delay;
  round.slowest = std::max(most * each, least * each + head.seconds());
  if (layout.stages == 1) return round;
  const Wire between = wire_of(setup, std::uint64_t{layout.stages} * layout.ranks);
  const double hop = (activations + rows * kRowBytes) / between.bytes_per_second;
  round.sending += (layout.stages - 1) * hop;  // the last stage sends tokens, which have few bytes
  round.waiting += layout.stages * between.delay;
  round.slowest = std::max(round.slowest, hop);
  return round;
}

CardMemory memory_of(const EstimateInput& setup, const Layout& layout) {
  const Shape& shape = setup.shape;
  const double layers = std::ceil(double{1.0} * shape.layers / layout.stages);
  const double outside = (layout.stages == 1 && !shape.tied ? 2.0 : 1.0) * head_parameters(shape);
  const double rows = std::max(setup.batch, limits::kBatchRows);
  CardMemory memory;
  memory.weights =
      weight_bytes(layers * layer_parameters(shape) + outside, setup.weight_bits) / layout.ranks;
  const double users = double{1.0} * setup.batch * steps_in_flight(layout.stages);
  memory.kv = users * setup.context * layers * kv_bytes_int8(shape) / layout.ranks;
  // Rows in and out, residual, queries, and gate, up and down of the feed-forward, in FP32.
  memory.activations = rows * 4.0 * (4.0 * shape.hidden + 3.0 * shape.feed_forward);
  memory.margin = std::max(setup.card.memory_bytes * kMarginShare, kMarginLeast);
  return memory;
}

Bound bound_of(const Round& round) {
  const double most = std::max({round.reading, round.computing, round.sending, round.waiting});
  if (most == round.reading) return Bound::kBandwidth;
  if (most == round.computing) return Bound::kCompute;
  return most == round.sending ? Bound::kLinkRate : Bound::kLinkDelay;
}

Status check_range(const char* what, std::uint32_t value, std::uint32_t high) {
  REQUIRE(value >= 1 && value <= high, what, " must be from 1 to ", high, ", got ", value);
  return ok_status();
}

}  // namespace

std::uint32_t steps_in_flight(std::uint32_t stages) { return stages == 1 ? 1 : stages + 1; }

double exchange_seconds(double bytes, std::uint32_t ranks, double bytes_per_second, double delay) {
  INVARIANT(ranks >= 1 && bytes_per_second > 0.0, "ranks have a link");
  if (ranks == 1) return 0.0;
  const double others = ranks - 1.0;
  const double at_once = delay + others * bytes / bytes_per_second;
  const double in_shares = 2.0 * (delay + others / ranks * bytes / bytes_per_second);
  return std::min(at_once, in_shares);
}

Status check(const EstimateInput& setup) {
  TRY_VOID(check_range("--gpus: the number of GPUs", setup.cards, limits::kPlannedCards));
  TRY_VOID(check_range("--per-machine", setup.cards_per_machine, limits::kPlannedCards));
  TRY_VOID(check_range("--batch", setup.batch, limits::kBatchRows));
  TRY_VOID(check_range("--context", setup.context, limits::kModelContext));
  REQUIRE(setup.card.memory_bytes > 0.0 && setup.card.memory_bytes_per_second > 0.0 &&
              setup.card.fp16_flops > 0.0 && setup.card.link_bytes_per_second > 0.0,
          "--gpus: the catalogue lacks the memory, its rate, the FP16 rate or the link of ",
          setup.card.key, "; choose another GPU");
  REQUIRE(setup.network.bytes_per_second > 0.0, "--link: the rate must be above 0");
  return ok_status();
}

Estimate estimate(const EstimateInput& setup, const Layout& layout) {
  INVARIANT(layout.stages >= 1 && layout.stages <= setup.shape.layers, "a stage has a layer");
  INVARIANT(layout.ranks >= 1 && layout.ranks <= setup.shape.kv_heads, "a rank has a KV head");
  INVARIANT(layout.replicas >= 1 && layout.cards() <= setup.cards, "the cards are there");
  Estimate result;
  result.layout = layout;
  result.memory = memory_of(setup, layout);
  const double steps = steps_in_flight(layout.stages);
  const double room = setup.card.memory_bytes - (result.memory.total() - result.memory.kv);
  result.holds_weights = room >= 0.0;
  result.users = std::uint64_t{layout.replicas} * setup.batch * steps_in_flight(layout.stages);
  const double each = result.memory.kv / (steps * setup.batch);
  result.users_room = layout.replicas * static_cast<std::uint64_t>(std::max(0.0, room) / each);
  result.alone = 1.0 / round_of(setup, layout, 1.0).seconds();
  const Round round = round_of(setup, layout, setup.batch);
  const double period = std::max(round.seconds(), steps * round.slowest);
  result.per_user = 1.0 / period;
  result.total = static_cast<double>(result.users) / period;
  result.reading = round.reading;
  result.computing = round.computing;
  result.sending = round.sending;
  result.waiting = round.waiting;
  result.bound = result.holds_weights ? bound_of(round) : Bound::kCapacity;
  return result;
}

std::vector<Layout> layouts(const EstimateInput& setup) {
  std::vector<Layout> found;
  const std::uint32_t cards = setup.cards;
  for (std::uint32_t stages = 1; stages <= std::min(cards, setup.shape.layers); ++stages) {
    const Layout shortest{stages, 1, cards / stages};
    if (!estimate(setup, shortest).holds_weights) continue;
    if (shortest.replicas > 1) found.push_back(shortest);
    break;
  }
  for (std::uint32_t ranks = 1; ranks <= std::min(cards, setup.shape.kv_heads); ++ranks) {
    if (cards % ranks != 0 || cards / ranks > setup.shape.layers) continue;
    const Layout all{cards / ranks, ranks, 1};
    if (std::ranges::find(found, all) == found.end()) found.push_back(all);
  }
  // More cards than layers and heads can use in one pipeline.
  if (found.empty()) found.push_back({std::min(cards, setup.shape.layers), 1, 1});
  return found;
}

}  // namespace hearth::placement
