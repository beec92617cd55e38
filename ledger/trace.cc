#include "ledger/trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"
#include "ledger/merkle.h"

namespace hearth::ledger {
namespace {

constexpr std::uint32_t kBlock = 32;  // CANONICAL.md, 1
constexpr std::uint32_t kEntryOps = 2;
constexpr std::uint32_t kHeadOps = 3;
constexpr auto kFirstLayerOp = static_cast<std::uint32_t>(TraceOp::kAttentionNorm);
constexpr auto kFirstHeadOp = static_cast<std::uint32_t>(TraceOp::kOutputNorm);

constexpr std::array<std::string_view, kTraceOps> kNames = {"incoming",
                                                            "enter",
                                                            "attention norm",
                                                            "query",
                                                            "key",
                                                            "value",
                                                            "heads",
                                                            "stored",
                                                            "chain",
                                                            "attention",
                                                            "mixed",
                                                            "attention output",
                                                            "joined",
                                                            "feed-forward norm",
                                                            "gate",
                                                            "up",
                                                            "activated",
                                                            "down",
                                                            "residual",
                                                            "output norm",
                                                            "logits",
                                                            "token",
                                                            "outgoing"};

std::uint64_t larger_half(std::uint64_t size) { return std::bit_floor(size - 1); }

void open(const TreeRange& node, unsigned levels, std::vector<TreeRange>& out) {
  if (levels == 0 || node.size() == 1) {
    out.push_back(node);
    return;
  }
  const std::uint64_t middle = node.begin + larger_half(node.size());
  open({node.begin, middle}, levels - 1, out);
  open({middle, node.end}, levels - 1, out);
}

Hash256 close(const TreeRange& node, unsigned levels, std::span<const Hash256>& left) {
  if (levels == 0 || node.size() == 1) {
    const Hash256 hash = left.front();
    left = left.subspan(1);
    return hash;
  }
  const std::uint64_t middle = node.begin + larger_half(node.size());
  const Hash256 lower = close({node.begin, middle}, levels - 1, left);
  return node_hash(lower, close({middle, node.end}, levels - 1, left));
}

// Numbers that a trace is counted by; kInvalidInput names the first that is out of its range.
Status check_shape(const TraceShape& shape) {
  const auto within = [](const char* name, std::uint32_t value, std::uint32_t most) -> Status {
    REQUIRE(value >= 1 && value <= most, std::string("the trace's ") + name + " is " +
                                             std::to_string(value) + ", not 1 to " +
                                             std::to_string(most));
    return ok_status();
  };
  TRY_VOID(within("number of layers", shape.layers, limits::kModelLayers));
  REQUIRE(shape.layer_begin < shape.layer_end && shape.layer_end <= shape.layers,
          "the trace's layers are none of the model's");
  TRY_VOID(within("hidden size", shape.hidden, limits::kModelFeedForward));
  TRY_VOID(within("feed-forward size", shape.feed_forward, limits::kModelFeedForward));
  TRY_VOID(within("number of heads", shape.heads, limits::kModelFeedForward));
  TRY_VOID(within("number of kv heads", shape.kv_heads, shape.heads));
  TRY_VOID(within("head size", shape.head_dim, limits::kModelHeadDim));
  TRY_VOID(within("vocabulary", shape.vocabulary, limits::kVocabulary));
  TRY_VOID(within("prompt", shape.prompt, limits::kModelContext));
  REQUIRE(shape.hidden % kBlock == 0 && shape.feed_forward % kBlock == 0 &&
              shape.head_dim % kBlock == 0,
          "the trace's sizes are no multiples of 32");
  REQUIRE(shape.heads % shape.kv_heads == 0 &&
              std::uint64_t{shape.heads} * shape.head_dim <= limits::kModelFeedForward,
          "the trace's heads are no whole groups of at most " +
              std::to_string(limits::kModelFeedForward) + " values");
  REQUIRE(shape.sliding_window == 0 || shape.global_every > 0,
          "the trace has a window and no global layer");
  REQUIRE(std::abs(shape.residual_shift) <= 64, "the trace's residual shift is beyond 64");
  REQUIRE(std::isfinite(shape.epsilon) && shape.epsilon >= 0.0F && shape.score_scale >= 0.0F &&
              shape.score_scale <= 0x1p20F && std::isfinite(shape.embedding_scale),
          "the trace's epsilon or scales are out of range");
  for (const auto* frequencies : {&shape.frequencies, &shape.local_frequencies}) {
    REQUIRE(std::ranges::all_of(*frequencies, [](double f) { return f > 0.0 && f <= 1.0; }),
            "a frequency of the trace is not in (0, 1]");
  }
  return ok_status();
}

template <typename Visit>
void visit_numbers(auto& shape, const Visit& visit) {
  for (auto* field :
       {&shape.layer_begin, &shape.layer_end, &shape.layers, &shape.hidden, &shape.feed_forward,
        &shape.heads, &shape.kv_heads, &shape.head_dim, &shape.vocabulary, &shape.prompt,
        &shape.sliding_window, &shape.global_every}) {
    visit(*field);
  }
  visit(shape.residual_shift);
  visit(shape.epsilon);
  visit(shape.score_scale);
  visit(shape.embedding_scale);
  visit(shape.traits);
}

}  // namespace

std::string_view trace_op_name(TraceOp op) { return kNames[static_cast<std::size_t>(op)]; }

std::uint32_t TraceShape::slots(std::uint32_t position) const {
  return kEntryOps + kLayerOps * (layer_end - layer_begin) + (samples(position) ? kHeadOps : 0) + 1;
}

TraceSlot TraceShape::at(std::uint32_t position, std::uint32_t slot) const {
  INVARIANT(slot < slots(position), "a slot of the position");
  if (slot + 1 == slots(position)) return {TraceOp::kOutgoing, layer_begin};
  if (slot < kEntryOps) return {static_cast<TraceOp>(slot), layer_begin};
  const std::uint32_t behind = slot - kEntryOps;
  const std::uint32_t layer = layer_begin + behind / kLayerOps;
  if (layer < layer_end) return {static_cast<TraceOp>(kFirstLayerOp + behind % kLayerOps), layer};
  const std::uint32_t head = behind - kLayerOps * (layer_end - layer_begin);
  return {static_cast<TraceOp>(kFirstHeadOp + head), layer_begin};
}

std::uint32_t TraceShape::index_of(std::uint32_t position, const TraceSlot& slot) const {
  const auto op = static_cast<std::uint32_t>(slot.op);
  if (slot.op == TraceOp::kOutgoing) return slots(position) - 1;
  if (op < kEntryOps) return op;
  if (op < kFirstHeadOp) {
    return kEntryOps + kLayerOps * (slot.layer - layer_begin) + op - kFirstLayerOp;
  }
  return kEntryOps + kLayerOps * (layer_end - layer_begin) + op - kFirstHeadOp;
}

std::size_t TraceShape::quantised_bytes(std::uint32_t cols) const {
  return cols + cols / kBlock * sizeof(float) + sizeof(std::int32_t);
}

std::size_t TraceShape::stored_bytes() const {
  return 2 * std::size_t{head_dim} + head_dim / kBlock * sizeof(float) + sizeof(float);
}

std::size_t TraceShape::value_bytes(TraceOp op) const {
  const std::uint32_t wide = heads * head_dim;
  switch (op) {
    case TraceOp::kIncoming:
    case TraceOp::kOutgoing: return sizeof(Hash256);
    case TraceOp::kToken: return sizeof(std::uint32_t);
    case TraceOp::kEnter:
    case TraceOp::kResidual: return std::size_t{hidden} * sizeof(std::uint16_t);
    case TraceOp::kAttentionNorm:
    case TraceOp::kFeedForwardNorm:
    case TraceOp::kOutputNorm: return quantised_bytes(hidden);
    case TraceOp::kQuery:
    case TraceOp::kHeads:
    case TraceOp::kAttention: return std::size_t{wide} * sizeof(float);
    case TraceOp::kKey:
    case TraceOp::kValue: return std::size_t{kv_heads} * head_dim * sizeof(float);
    case TraceOp::kStored: return kv_heads * stored_bytes();
    case TraceOp::kChain: return kv_heads * sizeof(Hash256);
    case TraceOp::kMixed: return quantised_bytes(wide);
    case TraceOp::kAttentionOutput:
    case TraceOp::kJoined:
    case TraceOp::kDown: return std::size_t{hidden} * sizeof(float);
    case TraceOp::kGate:
    case TraceOp::kUp: return std::size_t{feed_forward} * sizeof(float);
    case TraceOp::kActivated: return quantised_bytes(feed_forward);
    case TraceOp::kLogits: return std::size_t{vocabulary} * sizeof(float);
  }
  return 0;
}

std::size_t TraceShape::chunk_bytes(TraceOp op) const {
  return op == TraceOp::kStored ? stored_bytes() : kTraceChunk;
}

std::size_t TraceShape::chunks(TraceOp op) const {
  return (value_bytes(op) + chunk_bytes(op) - 1) / chunk_bytes(op);
}

std::size_t TraceShape::element_bytes(TraceOp op) const {
  switch (op) {
    case TraceOp::kIncoming:
    case TraceOp::kOutgoing:
    case TraceOp::kChain: return sizeof(Hash256);
    case TraceOp::kEnter:
    case TraceOp::kResidual: return sizeof(std::uint16_t);
    case TraceOp::kAttentionNorm:
    case TraceOp::kFeedForwardNorm:
    case TraceOp::kOutputNorm:
    case TraceOp::kMixed:
    case TraceOp::kActivated:
    case TraceOp::kStored: return 1;
    default: return sizeof(float);
  }
}

Bytes encode(const TraceShape& shape) {
  Bytes out;
  ByteWriter writer(out);
  visit_numbers(shape, [&writer](auto value) { writer.write(value); });
  for (const auto* frequencies : {&shape.frequencies, &shape.local_frequencies}) {
    for (const double frequency : *frequencies) writer.write(frequency);
  }
  return out;
}

Result<TraceShape> parse_trace_shape(ByteSpan bytes) {
  TraceShape shape;
  ByteReader reader(bytes);
  visit_numbers(shape, [&reader](auto& value) {
    value = reader.read<std::remove_reference_t<decltype(value)>>();
  });
  REQUIRE(!reader.failed() && shape.head_dim <= limits::kModelHeadDim &&
              reader.remaining() == 2 * (shape.head_dim / 2) * sizeof(double),
          "the shape of the trace has not the length of its head size");
  for (auto* frequencies : {&shape.frequencies, &shape.local_frequencies}) {
    for (std::uint32_t i = 0; i < shape.head_dim / 2; ++i) {
      frequencies->push_back(reader.read<double>());
    }
  }
  TRY_VOID(check_shape(shape));
  return shape;
}

Hash256 trace_chunk(ByteSpan chunk) {
  Blake2b hash;
  hash.update(as_bytes("hearth.chk"));
  hash.update(chunk);
  return hash.finish();
}

std::vector<Hash256> trace_chunks(const TraceShape& shape, TraceOp op, ByteSpan value) {
  std::vector<Hash256> out;
  const std::size_t size = shape.chunk_bytes(op);
  for (std::size_t at = 0; at < value.size(); at += size) {
    out.push_back(trace_chunk(value.subspan(at, std::min(size, value.size() - at))));
  }
  return out;
}

Hash256 trace_leaf(const Hash256& salt, std::uint32_t position, std::uint32_t slot,
                   std::span<const Hash256> chunks) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("trace"));
  writer.write(position);
  writer.write(slot);
  for (const Hash256& chunk : chunks) writer.append(chunk.bytes);
  return leaf_hash(keyed_blake2b(salt, all).bytes);
}

Hash256 position_leaf(const Hash256& position_root) { return leaf_hash(position_root.bytes); }

Hash256 chain_hash(const Hash256& before, ByteSpan stored) {
  Blake2b hash;
  hash.update(as_bytes("hearth.chn"));
  hash.update(before.bytes);
  hash.update(stored);
  return hash.finish();
}

std::vector<TreeRange> open_node(const TreeRange& node) {
  std::vector<TreeRange> out;
  open(node, kOpenedLevels, out);
  return out;
}

Hash256 close_node(const TreeRange& node, std::span<const Hash256> opened) {
  INVARIANT(opened.size() == open_node(node).size(), "a hash for each opened node");
  return close(node, kOpenedLevels, opened);
}

std::vector<Hash256> open_leaves(const TreeRange& node, std::span<const Hash256> leaves) {
  std::vector<Hash256> out;
  for (const TreeRange& range : open_node(node)) {
    out.push_back(subtree_root(leaves.subspan(range.begin, range.size())));
  }
  return out;
}

std::vector<Hash256> path_of(std::uint64_t index, std::span<const Hash256> leaves) {
  std::vector<Hash256> out;
  while (leaves.size() > 1) {
    const std::uint64_t middle = larger_half(leaves.size());
    const bool lower = index < middle;
    out.push_back(subtree_root(lower ? leaves.subspan(middle) : leaves.first(middle)));
    leaves = lower ? leaves.first(middle) : leaves.subspan(middle);
    if (!lower) index -= middle;
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace hearth::ledger
