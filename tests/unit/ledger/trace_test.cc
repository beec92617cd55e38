#include "ledger/trace.h"

#include <gtest/gtest.h>

#include <string>

#include "ledger/merkle.h"

namespace hearth::ledger {
namespace {

TraceShape shape_of() {
  TraceShape shape;
  shape.layer_begin = 2;
  shape.layer_end = 4;
  shape.layers = 4;
  shape.hidden = 64;
  shape.feed_forward = 96;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 32;
  shape.vocabulary = 300;
  shape.prompt = 5;
  shape.residual_shift = 6;
  shape.epsilon = 1e-5F;
  shape.score_scale = 0.125F;
  shape.traits = TraceShape::kHalves | TraceShape::kTied;
  shape.frequencies.assign(16, 0.5);
  shape.local_frequencies.assign(16, 0.25);
  return shape;
}

TEST(Trace, AShapeIsReadAsItWasWritten) {
  const Bytes bytes = encode(shape_of());
  EXPECT_LE(bytes.size(), kTraceShapeBytes);
  const auto parsed = parse_trace_shape(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, shape_of());
  EXPECT_FALSE(parse_trace_shape(ByteSpan(bytes).first(bytes.size() - 1)).ok());
  EXPECT_FALSE(parse_trace_shape({}).ok());
}

TEST(Trace, AShapeBeyondTheLimitsIsRefused) {
  const auto refused = [](auto change) {
    TraceShape shape = shape_of();
    change(shape);
    return !parse_trace_shape(encode(shape)).ok();
  };
  EXPECT_TRUE(refused([](TraceShape& s) { s.hidden = 0; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.hidden = 65; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.hidden = 0xFFFFFFE0; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.heads = 0x10000000; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.kv_heads = 3; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.kv_heads = 0; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.layer_end = 5; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.layer_end = s.layer_begin; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.head_dim = 64; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.sliding_window = 4; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.residual_shift = 1'000; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.epsilon = 0.0F / 0.0F; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.score_scale = 1e30F; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.frequencies[3] = 2.0; }));
  EXPECT_TRUE(refused([](TraceShape& s) { s.vocabulary = 0; }));
}

TEST(Trace, EverySlotHasOneName) {
  const TraceShape shape = shape_of();
  EXPECT_EQ(shape.slots(3), 2 + 2 * kLayerOps + 1) << "inside the prompt nothing is sampled";
  EXPECT_EQ(shape.slots(4), 2 + 2 * kLayerOps + 4);
  for (const std::uint32_t position : {3U, 4U}) {
    for (std::uint32_t i = 0; i < shape.slots(position); ++i) {
      EXPECT_EQ(shape.index_of(position, shape.at(position, i)), i);
    }
  }
  EXPECT_EQ(shape.at(3, 2), (TraceSlot{TraceOp::kAttentionNorm, 2}));
  EXPECT_EQ(shape.at(3, 2 + kLayerOps), (TraceSlot{TraceOp::kAttentionNorm, 3}));
  EXPECT_EQ(shape.at(4, shape.slots(4) - 2).op, TraceOp::kToken);
}

TEST(Trace, OpenedNodesCloseToTheTreesOwn) {
  for (const std::size_t size : {1U, 2U, 3U, 37U, 128U, 129U, 1'000U}) {
    std::vector<Hash256> leaves;
    for (std::size_t i = 0; i < size; ++i) leaves.push_back(leaf_hash(as_bytes(std::to_string(i))));
    const Hash256 root = subtree_root(leaves);
    TreeRange node{0, size};
    std::vector<Hash256> opened = open_leaves(node, leaves);
    EXPECT_LE(opened.size(), 128U);
    EXPECT_EQ(close_node(node, opened), root);
    while (node.size() > 1) {  // to the last leaf
      const Hash256 below = opened.back();
      node = open_node(node).back();
      opened = open_leaves(node, leaves);
      EXPECT_EQ(close_node(node, opened), below);
    }
    EXPECT_EQ(opened.front(), leaves.back());
    for (const std::size_t index : {std::size_t{0}, size / 2, size - 1}) {
      EXPECT_TRUE(check_inclusion(leaves[index], index, size, path_of(index, leaves), root).ok());
    }
  }
}

TEST(Trace, AValueIsBoundToSaltPositionAndSlot) {
  const TraceShape shape = shape_of();
  const Bytes value(shape.value_bytes(TraceOp::kGate), std::byte{9});
  const auto chunks = trace_chunks(shape, TraceOp::kGate, value);
  EXPECT_EQ(chunks.size(), shape.chunks(TraceOp::kGate));
  const Hash256 salt = blake2b(as_bytes("salt"));
  const Hash256 leaf = trace_leaf(salt, 3, 8, chunks);
  EXPECT_NE(leaf, trace_leaf(salt, 4, 8, chunks));
  EXPECT_NE(leaf, trace_leaf(salt, 3, 9, chunks));
  EXPECT_NE(leaf, trace_leaf({}, 3, 8, chunks));
  const Bytes stored(shape.value_bytes(TraceOp::kStored));
  EXPECT_EQ(trace_chunks(shape, TraceOp::kStored, stored).size(), 2U) << "one a kv head";
}

}  // namespace
}  // namespace hearth::ledger
