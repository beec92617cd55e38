// Memory and speed of a model on equal cards, from the cards' rates alone (a roofline): a layer
// takes the longer of reading its weights and KV and of multiplying. Real kernels reach a part of
// these rates.
//
// A layout has `replicas` pipelines of `stages`; each stage is a group of `ranks` cards that share
// its layers (tensor parallelism) and exchange activations twice a layer. A pipeline of S stages
// has users for S + 1 step batches, and divides them between as many steps as placement/steps.h
// says; a single stage has one step. Its cards stand side by side in the machines; where a group or
// a pipeline does not lie within one machine, it uses the network.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "placement/estimate/figures.h"

namespace hearth::placement {

// Hearth has no tensor parallelism: layouts with more than one rank are predictions only.
inline constexpr bool kRunsTensorParallel = false;

struct Layout {
  std::uint32_t stages = 1;
  std::uint32_t ranks = 1;
  std::uint32_t replicas = 1;
  std::uint64_t cards() const { return std::uint64_t{stages} * ranks * replicas; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct EstimateInput {
  Shape shape;
  double weight_bits = 16.0;
  Card card;
  std::uint32_t cards = 1;
  std::uint32_t cards_per_machine = 1;
  Network network;               // between machines
  std::uint32_t batch = 1;       // rows of a step batch in decode, each of another sequence
  std::uint32_t context = 4096;  // positions of each sequence
};

// The resource that takes the longest, or has no room.
enum class Bound : std::uint8_t {
  kCapacity,   // memory for the weights and one full context
  kBandwidth,  // reading weights and KV
  kCompute,
  kLinkRate,
  kLinkDelay,
};

// Of the card that holds most.
struct CardMemory {
  double weights = 0.0;
  double kv = 0.0;  // of the users, at least one, each with a full context
  double activations = 0.0;
  double margin = 0.0;  // kept free, as node/engine/card keeps it
  double total() const { return weights + kv + activations + margin; }
};

struct Estimate {
  Layout layout;
  CardMemory memory;
  bool holds_weights = false;
  std::uint64_t users_wanted = 0;  // replicas * batch * batches_of_users()
  // Sequences with a full context for which there is KV, at most kRunningSequences a pipeline.
  std::uint64_t users_room = 0;
  std::uint64_t users = 0;  // that run: the fewer of the two
  double alone = 0.0;       // tokens a second of a single sequence
  double per_user = 0.0;    // of each of `users`
  double total = 0.0;       // of all of them
  // Parts of the round of one step batch, in seconds; they add up to its time when it meets no
  // other.
  double reading = 0.0;
  double computing = 0.0;  // beyond the reading that it overlaps
  double sending = 0.0;
  double waiting = 0.0;  // delays of links
  Bound bound = Bound::kBandwidth;
};

// Every number is in its range. kInvalidInput names the flag and its limit.
Status check(const EstimateInput& setup);

// The layout must use at most setup.cards, and at most as many stages as there are layers and as
// many ranks as there are KV heads.
Estimate estimate(const EstimateInput& setup, const Layout& layout);

// Pipeline, tensor parallel and hybrids of all cards; and replicas of the shortest pipeline that
// serves a user, where more than one has room. Fewest ranks first.
std::vector<Layout> layouts(const EstimateInput& setup);

// The rows of one step.
struct StepLoad {
  double rows = 0.0;
  double kept = 0.0;    // positions whose KV is read; of each sequence once
  double scored = 0.0;  // positions to which rows attend; of each row
};
// Seconds of one layer, and of the last stage's head, on one card. Without a StepLoad, each row is
// of another sequence of setup.context positions.
double layer_seconds(const EstimateInput& setup, const StepLoad& step);
double layer_seconds(const EstimateInput& setup, double rows);
double head_seconds(const EstimateInput& setup, double rows);
double margin_bytes(const Card& card);  // kept free, as node/engine/card keeps it
// Of a card, what stages do not take for weights and KV: buffers of a step, and the margin.
double reserved_bytes(const EstimateInput& setup);
// Bytes of one row from a stage to the next.
double row_bytes(const Shape& shape);
bool is_f32(const EstimateInput& setup);  // else weights are multiplied at the FP16 or INT8 rate

// The full step batches whose rows are the users of a pipeline.
std::uint32_t batches_of_users(std::uint32_t stages);

// Seconds in which `ranks` GPUs sum their partial activations of `bytes` (an all-reduce). Each
// sends all to every other, or reduces its own share and sends the sum to all, whichever is
// quicker.
double exchange_seconds(double bytes, std::uint32_t ranks, double bytes_per_second, double delay);

}  // namespace hearth::placement
