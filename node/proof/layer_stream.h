// Computes a sequence whose tokens are all known, layer by layer: the weights of one layer are read
// from the model file, every position goes through it, and they are dropped before the next layer
// is read. It needs the memory of one layer (with the embedding or the head at the two ends), the
// sequence's keys and values of that layer, and its activations. So a machine can judge a model
// that it could not serve. Each layer is its own Engine, and the bits equal those of any other
// layer split.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "proto/step.h"

namespace hearth::node {

struct FedSequence {
  std::vector<TokenId> tokens;  // by position, the prompt first
  std::uint32_t prompt = 0;     // of them; at least 1
  SamplingParams sampling;
};

struct StreamOptions {
  std::vector<LayerRange> split;  // the stages whose outputs are wanted; together all layers
  std::uint32_t threads = 1;
  std::uint32_t batch_rows = 256;
  std::function<bool()> stopped = {};                                       // empty: never
  std::function<void(std::uint32_t done, std::uint32_t of)> progress = {};  // in layers
};

struct FedRun {
  std::vector<std::vector<Hash256>> boundaries;  // outputs of all stages but the last, by position
  // The model's sample after the prompt and after each later token.
  std::vector<SampledToken> sampled;
};

// kInvalidInput when split or tokens do not fit the model; kNoCapacity when one layer does not fit
// the machine's memory; kCancelled once stopped.
Result<FedRun> stream_layers(const std::shared_ptr<const model::GgufFile>& file,
                             const model::ModelSpec& spec, const FedSequence& sequence,
                             const StreamOptions& options);

}  // namespace hearth::node
