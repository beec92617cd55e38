// Tracer: one stage of one sequence, computed position by position with every operation's value
// hashed into a trace (ledger/trace.h). It is a second way through the model beside the engine, and
// gives the same rows. A position's values are not kept: they are computed again when asked for,
// over the keys and values that are. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "ledger/dispute.h"
#include "ledger/trace.h"
#include "model/gguf/gguf.h"
#include "node/engine/aligned_buffer.h"
#include "node/engine/sampler.h"
#include "node/engine/weights.h"
#include "node/proof/trace_math.h"
#include "proto/step.h"

namespace hearth::node {

// What came into the stage.
struct TraceInput {
  std::vector<TokenId> tokens;  // fed, by position
  std::uint32_t prompt = 0;     // of them
  SamplingParams sampling;      // of the last stage
  std::vector<Bytes> rows;      // residuals by position; not of the first stage
  Hash256 salt;                 // of the request
};

class Tracer {
 public:
  struct Parts {
    std::shared_ptr<const model::GgufFile> file;
    model::ModelSpec spec;
    StageWeights weights;
    LayerRange layers;
    TraceInput input;
    const kernels::Kernels* table = nullptr;
  };
  // Loads the weights of the layers. kInvalidInput when the input does not fit the model.
  static Result<Parts> prepare(std::shared_ptr<const model::GgufFile> file, LayerRange layers,
                               TraceInput input, const kernels::Kernels& table);
  explicit Tracer(Parts parts);
  virtual ~Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // All positions of the input, once. kCancelled when `stopped`, asked before each, says so.
  Status run(const std::function<bool()>& stopped = {});

  const ledger::TraceShape& shape() const { return shape_; }
  const TraceInput& input() const { return input_; }
  const std::vector<Hash256>& position_roots() const { return roots_; }
  const std::vector<Hash256>& rows_out() const { return rows_out_; }  // hashes, as receipts'
  const std::vector<Hash256>& rows_in() const { return rows_in_; }    // likewise
  const std::vector<Bytes>& residuals() const { return residuals_; }  // for the next stage
  // Every slot's value at a position that was run.
  Result<std::vector<Bytes>> values(std::uint32_t position);
  std::vector<Hash256> leaves(std::uint32_t position, const std::vector<Bytes>& values) const;
  // What one element of a value is computed with, from the model's file.
  Result<std::vector<ledger::DisputeWeights>> weights(std::uint32_t position,
                                                      const ledger::TraceSlot& slot,
                                                      std::uint32_t element) const;
  // What a kv head has stored at positions [begin, end) of a layer.
  Bytes stored(std::uint32_t layer, std::uint32_t kv_head, std::uint32_t begin,
               std::uint32_t end) const;
  Bytes chain(std::uint32_t layer, std::uint32_t position) const;

 protected:
  // A value as it was computed. What this leaves in it is what goes on.
  virtual void produced(std::uint32_t, const ledger::TraceSlot&, Bytes&) {}

 private:
  struct Layer {
    std::vector<AlignedBuffer<std::byte>> pages;
    std::vector<Bytes> chains;  // by position
  };
  const Bytes& put(ledger::TraceOp op, std::uint32_t layer, Bytes value);
  Status compute(std::uint32_t position);
  Result<Bytes> entry(std::uint32_t position) const;
  Result<Bytes> layer(std::uint32_t index, const Bytes& residual);
  Result<Bytes> attend(std::uint32_t index, const Bytes& norm);
  Status head(const Bytes& residual);

  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
  StageWeights weights_;
  TraceInput input_;
  ledger::TraceShape shape_;
  TraceMath math_;
  std::vector<Layer> layers_;
  std::vector<Hash256> roots_;
  std::vector<Hash256> rows_in_;
  std::vector<Hash256> rows_out_;
  std::vector<Bytes> residuals_;

  // Of the position under way.
  std::uint32_t position_ = 0;
  std::vector<Bytes> values_;
};

// The tensors that an operation reads, in the order of their use: one row of a matrix, or whole
// vectors.
struct TraceTensor {
  std::string name;
  bool is_matrix = false;
  std::uint32_t cols = 0;
};
std::vector<TraceTensor> trace_tensors(const ledger::TraceShape& shape,
                                       const ledger::TraceSlot& slot);
// The token that is sampled behind `position` of these.
Result<std::uint32_t> trace_token(const ledger::TraceShape& shape, std::span<const float> logits,
                                  const SamplingParams& sampling, std::span<const TokenId> tokens,
                                  std::uint32_t position);
// `row`: of a matrix; vectors are taken whole.
Result<ledger::DisputeWeights> weights_in(const model::GgufFile& file, const TraceTensor& tensor,
                                          std::uint32_t row);

}  // namespace hearth::node
