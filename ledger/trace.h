// The trace of a stage: what every operation gave at every position, as hashes that two parties can
// compare until they stand at the first difference. Normative text: PROTOCOL.md, "Disputes".
//
//   value of an operation -> chunks -> leaf of its slot -> root of a position -> root of the trace
//
// TraceShape says which slots a position has and how large their values are. It has every number
// but the weights that the arithmetic needs, so that who has a slot's inputs and its weights can
// compute it again without a model. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::ledger {

// In the order of a position's slots; those from kAttentionNorm to kResidual are of each layer.
enum class TraceOp : std::uint8_t {
  kIncoming,         // hash of the row that came in, as receipts have it
  kEnter,            // fp16 residual (hidden) that the first layer reads
  kAttentionNorm,    // quantised row (hidden)
  kQuery,            // fp32 (heads * head_dim)
  kKey,              // fp32 (kv_heads * head_dim)
  kValue,            // fp32 (kv_heads * head_dim)
  kHeads,            // fp32: queries with bias, norm and angle
  kStored,           // keys and values as the cache has them
  kChain,            // 32 bytes a kv head: hash of all that is stored up to here
  kAttention,        // fp32 (heads * head_dim)
  kMixed,            // the same as a quantised row
  kAttentionOutput,  // fp32 (hidden)
  kJoined,           // fp32 (hidden): the residual with it
  kFeedForwardNorm,  // quantised row (hidden)
  kGate,             // fp32 (feed_forward)
  kUp,               // fp32 (feed_forward)
  kActivated,        // quantised row (feed_forward)
  kDown,             // fp32 (hidden)
  kResidual,         // fp16 residual (hidden) that leaves the layer
  kOutputNorm,       // quantised row (hidden); this and the next two where a token is sampled
  kLogits,           // fp32 (vocabulary)
  kToken,            // uint32
  kOutgoing,         // hash of the row that goes out, as receipts have it
};
inline constexpr std::uint32_t kTraceOps = 23;
inline constexpr std::uint32_t kLayerOps = 17;
std::string_view trace_op_name(TraceOp op);  // "query", "stored", ...

struct TraceSlot {
  TraceOp op = TraceOp::kIncoming;
  std::uint32_t layer = 0;  // of the model; of the stage's first where the slot is of none
  friend bool operator==(const TraceSlot&, const TraceSlot&) = default;
};

struct TraceShape {
  static constexpr std::uint8_t kBias = 1;         // q, k and v have biases
  static constexpr std::uint8_t kHeadNorm = 2;     // q and k are normed by head
  static constexpr std::uint8_t kPostNorm = 4;     // norms behind attention and feed-forward
  static constexpr std::uint8_t kScaledEntry = 8;  // embeddings are scaled
  static constexpr std::uint8_t kHalves = 16;      // RoPE turns halves, not neighbours
  static constexpr std::uint8_t kGelu = 32;        // in place of silu
  static constexpr std::uint8_t kTied = 64;        // the head is the embedding
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t layers = 0;  // of the model
  std::uint32_t hidden = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t prompt = 0;          // tokens: its last and what follows sample
  std::uint32_t sliding_window = 0;  // 0: no layer is local
  std::uint32_t global_every = 0;
  std::int32_t residual_shift = 0;
  float epsilon = 0.0F;
  float score_scale = 0.0F;
  float embedding_scale = 1.0F;
  std::uint8_t traits = 0;
  std::vector<double> frequencies;        // (head_dim / 2)
  std::vector<double> local_frequencies;  // (head_dim / 2), of local layers

  bool has(std::uint8_t trait) const { return (traits & trait) != 0; }
  bool samples(std::uint32_t position) const {
    return layer_end == layers && position + 1 >= prompt;
  }
  bool is_local(std::uint32_t layer) const {
    return sliding_window > 0 && (layer + 1) % global_every != 0;
  }
  std::uint32_t first_visible(std::uint32_t layer, std::uint32_t position) const {
    return is_local(layer) && position >= sliding_window ? position + 1 - sliding_window : 0;
  }
  std::uint32_t slots(std::uint32_t position) const;
  // slot < slots(position)
  TraceSlot at(std::uint32_t position, std::uint32_t slot) const;
  // An operation that the position has.
  std::uint32_t index_of(std::uint32_t position, const TraceSlot& slot) const;
  std::size_t quantised_bytes(std::uint32_t cols) const;
  std::size_t stored_bytes() const;  // of one kv head
  std::size_t value_bytes(TraceOp op) const;
  std::size_t chunk_bytes(TraceOp op) const;  // the last chunk may be shorter
  std::size_t chunks(TraceOp op) const;
  std::size_t element_bytes(TraceOp op) const;
  friend bool operator==(const TraceShape&, const TraceShape&) = default;
};

inline constexpr std::size_t kTraceChunk = 1'024;       // bytes; of kStored one kv head
inline constexpr std::size_t kTraceShapeBytes = 8'192;  // encoded, at most

Bytes encode(const TraceShape& shape);
// kInvalidInput names the field and its limit.
Result<TraceShape> parse_trace_shape(ByteSpan bytes);

std::vector<Hash256> trace_chunks(const TraceShape& shape, TraceOp op, ByteSpan value);
Hash256 trace_chunk(ByteSpan chunk);
// Keyed with the request's salt, so that a trace says nothing to who has not got it.
Hash256 trace_leaf(const Hash256& salt, std::uint32_t position, std::uint32_t slot,
                   std::span<const Hash256> chunks);
Hash256 position_leaf(const Hash256& position_root);
// kChain: what `stored` of a kv head makes of the hash before it (zeros at position 0).
Hash256 chain_hash(const Hash256& before, ByteSpan stored);

// Leaves [begin, end) of a tree of merkle.h: one of its nodes.
struct TreeRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  friend bool operator==(const TreeRange&, const TreeRange&) = default;
};
inline constexpr unsigned kOpenedLevels = 7;  // at most 128 nodes below one
// The nodes so many levels below `node`, or its leaves above that, in order.
std::vector<TreeRange> open_node(const TreeRange& node);
// Of the hashes of open_node(node), that of the node.
Hash256 close_node(const TreeRange& node, std::span<const Hash256> opened);
std::vector<Hash256> open_leaves(const TreeRange& node, std::span<const Hash256> leaves);
// Proof (merkle.h) that leaf `index` is one of these.
std::vector<Hash256> path_of(std::uint64_t index, std::span<const Hash256> leaves);

}  // namespace hearth::ledger
