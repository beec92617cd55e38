#include "placement/estimate/speed.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"
#include "placement/estimate/memory.h"
#include "placement/steps.h"

namespace hearth::placement {
namespace {

constexpr double kActivationBytes = 2.0;
constexpr double kFp16Bits = 16.0;
constexpr double kF32BitsLeast = 24.0;  // a file of F16 has a little more than 16: norms are F32
constexpr double kRowBytes = 24.0;      // beside the activations: sequence, position, token, flags
constexpr double kExchangesOfLayer = 2.0;  // behind attention and behind the feed-forward
constexpr double kMarginShare = 0.1;       // as card_budget() of node/engine/card keeps it
constexpr double kMarginLeast = 1024.0 * 1024.0 * 1024.0;

struct Wire {
  double bytes_per_second = 0.0;
  double delay = 0.0;
};

Wire card_wire(const EstimateInput& setup) {
  return {setup.card.link_bytes_per_second, setup.card.link_seconds};
}

Wire network_wire(const EstimateInput& setup) {
  return {setup.network.bytes_per_second, setup.network.delay_seconds};
}

// The most machines over which one of `groups` of `together` cards spreads. 1: the machines, of
// which the last may have fewer cards, hold every group whole.
std::uint64_t machines_of_group(const EstimateInput& setup, std::uint64_t together,
                                std::uint64_t groups) {
  const std::uint64_t each = setup.cards_per_machine;
  const std::uint64_t full = setup.cards / each;
  const std::uint64_t last = setup.cards % each;
  if (full * (each / together) + last / together >= groups) return 1;
  if (groups == 1 || together % each == 0) return (together + each - 1) / each;
  return (together + each - 2) / each + 1;  // of one that begins with a machine's last card
}

// F32 on ordinary units. F16 and BF16 on matrix units with sums in FP32, as the articles count.
// Fewer bits as integers where the card can.
double multiply_rate(const EstimateInput& setup) {
  const Card& card = setup.card;
  if (is_f32(setup)) return card.fp32_flops;
  return setup.weight_bits < kFp16Bits && card.int8_flops > 0.0 ? card.int8_flops : card.fp16_flops;
}

struct Part {
  double reading = 0.0;
  double computing = 0.0;  // all of it
  double seconds() const { return std::max(reading, computing); }
};

// One layer, for each rank.
Part layer_part(const EstimateInput& setup, std::uint32_t ranks, const StepLoad& step) {
  const Shape& shape = setup.shape;
  const double weights = weight_bytes(layer_parameters_read(shape, step.rows), setup.weight_bits);
  const double kv = step.kept * kv_bytes_int8(shape);
  const double scores = 2.0 * shape.heads * shape.head_dim * step.scored;  // and mixing values
  const double operations = 2.0 * (step.rows * layer_parameters_used(shape) + scores);
  return {(weights + kv) / setup.card.memory_bytes_per_second / ranks,
          operations / multiply_rate(setup) / ranks};
}

StepLoad decoded(const EstimateInput& setup, double rows) {
  return {rows, rows * setup.context, rows * setup.context};
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

// From each stage to the next, and back to the first with tokens, which have few bytes.
void add_hops(const EstimateInput& setup, const Layout& layout, double bytes, Round& round) {
  const std::uint64_t machines =
      machines_of_group(setup, std::uint64_t{layout.stages} * layout.ranks, layout.replicas);
  const auto crossings =
      static_cast<double>(std::min<std::uint64_t>(machines, layout.stages)) - 1.0;
  const double within = layout.stages - 1.0 - crossings;
  const auto add = [&](const Wire& wire, double hops, double delays) {
    const double hop = bytes / wire.bytes_per_second;
    round.sending += hops * hop;
    round.waiting += delays * wire.delay;
    if (hops > 0.0) round.slowest = std::max(round.slowest, hop);
  };
  const bool returns_over_network = crossings > 0.0;
  add(network_wire(setup), crossings, returns_over_network ? crossings + 1.0 : 0.0);
  add(card_wire(setup), within, returns_over_network ? within : within + 1.0);
}

Round round_of(const EstimateInput& setup, const Layout& layout, double rows) {
  const Shape& shape = setup.shape;
  const Part layer = layer_part(setup, layout.ranks, decoded(setup, rows));
  const Part head = head_part(setup, layout.ranks, rows);
  const std::uint64_t groups = std::uint64_t{layout.stages} * layout.replicas;
  const Wire inside =
      machines_of_group(setup, layout.ranks, groups) == 1 ? card_wire(setup) : network_wire(setup);
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
  add_hops(setup, layout, rows * row_bytes(shape), round);
  return round;
}

// Rows in and out, residual, queries, and gate, up and down of the feed-forward, in FP32.
double activation_buffers(const EstimateInput& setup) {
  const double rows = std::max(setup.batch, limits::kBatchRows);
  return rows * 4.0 * (4.0 * setup.shape.hidden + 3.0 * setup.shape.feed_forward);
}

CardMemory memory_of(const EstimateInput& setup, const Layout& layout) {
  const Shape& shape = setup.shape;
  const double layers = std::ceil(double{1.0} * shape.layers / layout.stages);
  const double outside = (layout.stages == 1 && !shape.tied ? 2.0 : 1.0) * head_parameters(shape);
  CardMemory memory;
  memory.weights =
      weight_bytes(layers * layer_parameters(shape) + outside, setup.weight_bits) / layout.ranks;
  const double users = double{1.0} * setup.batch * batches_of_users(layout.stages);
  memory.kv = users * setup.context * layers * kv_bytes_int8(shape) / layout.ranks;
  memory.activations = activation_buffers(setup);
  memory.margin = margin_bytes(setup.card);
  return memory;
}

// Steps that share one row of each of `served` sequences.
std::uint64_t flying(const EstimateInput& setup, const Layout& layout, std::uint64_t served) {
  const std::uint64_t least = batches_of_users(layout.stages);
  if (layout.stages == 1 || served <= least) return std::min(least, served);
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMostSteps, served));
  return steps_that_share(layout.stages, most, [&](std::uint32_t steps) {
    const Round round = round_of(setup, layout, static_cast<double>(served) / steps);
    return StepSeconds{round.seconds(), round.slowest};
  });
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

bool is_f32(const EstimateInput& setup) { return setup.weight_bits > kF32BitsLeast; }

double layer_seconds(const EstimateInput& setup, const StepLoad& step) {
  return layer_part(setup, 1, step).seconds();
}

double layer_seconds(const EstimateInput& setup, double rows) {
  return layer_seconds(setup, decoded(setup, rows));
}

double head_seconds(const EstimateInput& setup, double rows) {
  return head_part(setup, 1, rows).seconds();
}

double margin_bytes(const Card& card) {
  return std::max(card.memory_bytes * kMarginShare, kMarginLeast);
}

double reserved_bytes(const EstimateInput& setup) {
  return activation_buffers(setup) + margin_bytes(setup.card);
}

double row_bytes(const Shape& shape) { return shape.hidden * kActivationBytes + kRowBytes; }

std::uint32_t batches_of_users(std::uint32_t stages) { return stages == 1 ? 1 : stages + 1; }

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
  REQUIRE(!is_f32(setup) || setup.card.fp32_flops > 0.0,
          "--gpus: the catalogue lacks the FP32 rate of ", setup.card.key,
          "; choose another GPU, or a format of at most 16 bits with --quant");
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
  const std::uint64_t steps = batches_of_users(layout.stages);
  const double room = setup.card.memory_bytes - (result.memory.total() - result.memory.kv);
  result.holds_weights = room >= 0.0;
  const std::uint64_t wanted = steps * setup.batch;
  const double each = result.memory.kv / static_cast<double>(wanted);
  // A context of one position has room for more sequences than a pipeline may run.
  const double held = std::min<double>(limits::kRunningSequences, std::max(0.0, room) / each);
  const std::uint64_t running = std::min(wanted, static_cast<std::uint64_t>(held));
  const std::uint64_t served = std::max<std::uint64_t>(1, running);  // one has a speed, even so
  result.memory.kv = each * static_cast<double>(served);
  result.users_wanted = layout.replicas * wanted;
  result.users_room = layout.replicas * static_cast<std::uint64_t>(held);
  result.users = layout.replicas * running;
  result.alone = 1.0 / round_of(setup, layout, 1.0).seconds();
  // With few users there are fewer steps, and then each has fewer rows.
  const double in_flight = static_cast<double>(flying(setup, layout, served));
  const Round round = round_of(setup, layout, static_cast<double>(served) / in_flight);
  const double period = std::max(round.seconds(), in_flight * round.slowest);
  result.per_user = 1.0 / period;
  result.total = static_cast<double>(result.users) / period;
  result.reading = round.reading;
  result.computing = round.computing;
  result.sending = round.sending;
  result.waiting = round.waiting;
  result.bound = result.users_room > 0 ? bound_of(round) : Bound::kCapacity;
  return result;
}

std::vector<Layout> layouts(const EstimateInput& setup) {
  std::vector<Layout> found;
  const std::uint32_t cards = setup.cards;
  for (std::uint32_t stages = 1; stages <= std::min(cards, setup.shape.layers); ++stages) {
    const Layout shortest{stages, 1, cards / stages};
    if (estimate(setup, shortest).users_room == 0) continue;
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
