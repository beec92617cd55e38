// StageWeights: the tensors of one stage, repacked for the kernels. Only its own layers are read;
// the first stage adds the embedding, the last one the final norm and the head.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"
#include "model/gguf.h"
#include "model/spec.h"

namespace hearth::node {

struct LayerWeights {
  std::vector<float> attention_norm;  // (hidden)
  kernels::PackedMatrix query;        // (heads * head_dim, hidden)
  kernels::PackedMatrix key;          // (kv_heads * head_dim, hidden)
  kernels::PackedMatrix value;        // (kv_heads * head_dim, hidden)
  std::vector<float> query_bias;      // empty where the family has none, as the next two
  std::vector<float> key_bias;
  std::vector<float> value_bias;
  std::vector<float> query_norm;              // (head_dim); empty where the family has none
  std::vector<float> key_norm;                // (head_dim); likewise
  kernels::PackedMatrix attention_output;     // (hidden, heads * head_dim)
  std::vector<float> post_attention_norm;     // (hidden); empty where the family has none
  std::vector<float> feed_forward_norm;       // (hidden)
  kernels::PackedMatrix gate;                 // (feed_forward, hidden)
  kernels::PackedMatrix up;                   // (feed_forward, hidden)
  kernels::PackedMatrix down;                 // (hidden, feed_forward)
  std::vector<float> post_feed_forward_norm;  // (hidden); empty where the family has none
};

struct StageWeights {
  std::vector<LayerWeights> layers;
  kernels::PackedMatrix embedding;  // (vocabulary, hidden); first stage
  std::vector<float> output_norm;   // (hidden); last stage
  kernels::PackedMatrix head;       // (vocabulary, hidden); last stage, unless the embedding is it
  bool head_is_embedding = false;

  const kernels::PackedMatrix& output() const { return head_is_embedding ? embedding : head; }
  std::size_t bytes() const;

  // Packs on all threads of `pool`, or on the caller's alone; pages of the file are given back as
  // soon as they are packed.
  static Result<StageWeights> load(const model::GgufFile& file, const model::ModelSpec& spec,
                                   LayerRange layers, kernels::ThreadPool* pool = nullptr);
  // What load() will take, from the file's table of tensors alone, which is thereby checked.
  static Result<std::uint64_t> bytes_of(const model::GgufFile& file, const model::ModelSpec& spec,
                                        LayerRange layers);
};

}  // namespace hearth::node
