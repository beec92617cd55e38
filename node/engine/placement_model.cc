#include "node/engine/placement_model.h"

#include <string>
#include <vector>

#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "node/engine/kv_cache.h"
#include "node/engine/weights.h"

namespace hearth::node {
namespace {

// Bytes of a row beside its activations: sequence, position, token, flags.
constexpr std::uint64_t kRowBytes = 24;

// Sums what the tensors of one layer take, reading none.
class Counter {
 public:
  Counter(const model::GgufFile& file, std::uint64_t& bytes) : file_(file), bytes_(bytes) {}

  template <typename Matrix>
  Status matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols, Matrix&) const {
    TRY(const model::TensorInfo* tensor, model::require_tensor(file_, name, {cols, rows}));
    TRY(const kernels::WeightType type, model::weight_type(tensor->type, name));
    bytes_ += kernels::PackedMatrix::bytes_of(type, rows, cols) + rows * sizeof(std::int32_t);
    return ok_status();
  }
  template <typename Vector>
  Status vector(const std::string& name, std::uint32_t size, Vector&) const {
    TRY_VOID(model::require_tensor(file_, name, {size}));
    bytes_ += size * sizeof(float);
    return ok_status();
  }

 private:
  const model::GgufFile& file_;
  std::uint64_t& bytes_;
};

struct Nothing {};

}  // namespace

Result<placement::Model> placement_model(const model::GgufFile& file,
                                         const model::ModelSpec& spec) {
  placement::Model model;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    std::uint64_t bytes = 0;
    LayerTensors<Nothing, Nothing> tensors;
    TRY_VOID(read_layer(Counter(file, bytes), spec, layer, tensors));
    model.layer_bytes.push_back(bytes);
  }
  // Of a model of one layer all that is outside it counts as the embedding, or it counted twice.
  TRY(const std::uint64_t first, StageWeights::bytes_of(file, spec, {0, 1}));
  model.embedding_bytes = first - model.layer_bytes.front();
  if (spec.layers > 1) {
    TRY(const std::uint64_t last,
        StageWeights::bytes_of(file, spec, {spec.layers - 1, spec.layers}));
    model.head_bytes = last - model.layer_bytes.back();
  }
  model.activation_bytes = std::uint64_t{spec.hidden} * 2 + kRowBytes;
  model.kv_bytes = KvCache::page_bytes(1, spec.kv_layout()) / kernels::kPageTokens;
  return model;
}

}  // namespace hearth::node
