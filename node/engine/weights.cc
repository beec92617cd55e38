#include "node/engine/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/gguf/file_pages.h"

namespace hearth::node {
namespace {

using kernels::PackedMatrix;

// A vector, or one for each of several experts.
Result<const model::TensorInfo*> vector_of(const model::GgufFile& file, const std::string& name,
                                           std::uint32_t size, std::uint32_t experts) {
  std::vector<std::uint64_t> dims{size};
  if (experts > 1) dims.push_back(experts);
  TRY(const model::TensorInfo* tensor, model::require_tensor(file, name, std::move(dims)));
  REQUIRE(tensor->type == model::TensorType::kF32, "tensor ", name, " is not F32");
  return tensor;
}

Result<const model::TensorInfo*> table_of(const model::GgufFile& file, const std::string& name,
                                          std::uint32_t rows, std::uint32_t cols) {
  TRY(const model::TensorInfo* tensor, model::require_tensor(file, name, {cols, rows}));
  REQUIRE(tensor->type == model::TensorType::kF32, "tensor ", name, " is not F32");
  return tensor;
}

// A matrix, or one for each of several experts.
Result<const model::TensorInfo*> matrices_of(const model::GgufFile& file, const std::string& name,
                                             std::uint32_t rows, std::uint32_t cols,
                                             std::uint32_t experts) {
  std::vector<std::uint64_t> dims{cols, rows};
  if (experts > 1) dims.push_back(experts);
  return model::require_tensor(file, name, std::move(dims));
}

// A matrix for each head, whatever their number.
Result<const model::TensorInfo*> heads_of(const model::GgufFile& file, const std::string& name,
                                          std::uint32_t rows, std::uint32_t cols,
                                          std::uint32_t count) {
  return model::require_tensor(file, name, {cols, rows, count});
}

// Sums what the tensors will take, of each expert or of `used` ones, and reads none.
class Counter {
 public:
  struct Nothing {};

  Counter(const model::GgufFile& file, std::uint64_t& bytes,
          std::uint32_t used = limits::kModelExperts)
      : file_(file), bytes_(bytes), used_(used) {}

  Status matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols, Nothing&,
                std::uint32_t experts = 1) const {
    TRY(const model::TensorInfo* tensor, matrices_of(file_, name, rows, cols, experts));
    return add(*tensor, rows, cols, std::min(experts, experts > 1 ? used_ : 1));
  }
  Status heads(const std::string& name, std::uint32_t rows, std::uint32_t cols, std::uint32_t count,
               Nothing&) const {
    TRY(const model::TensorInfo* tensor, heads_of(file_, name, rows, cols, count));
    return add(*tensor, rows, cols, count);
  }
  Status part(const std::string& name, std::uint32_t all, std::uint32_t, std::uint32_t rows,
              std::uint32_t cols, Nothing&, std::uint32_t experts = 1) const {
    TRY(const model::TensorInfo* tensor, matrices_of(file_, name, all, cols, experts));
    return add(*tensor, rows, cols, std::min(experts, experts > 1 ? used_ : 1));
  }
  Status vector(const std::string& name, std::uint32_t size, Nothing&,
                std::uint32_t experts = 1) const {
    TRY_VOID(vector_of(file_, name, size, experts));
    bytes_ += std::uint64_t{size} * std::min(experts, experts > 1 ? used_ : 1) * sizeof(float);
    return ok_status();
  }
  Status table(const std::string& name, std::uint32_t rows, std::uint32_t cols, Nothing&) const {
    TRY_VOID(table_of(file_, name, rows, cols));
    bytes_ += std::uint64_t{rows} * cols * sizeof(float);
    return ok_status();
  }

 private:
  Status add(const model::TensorInfo& tensor, std::uint32_t rows, std::uint32_t cols,
             std::uint64_t count) const {
    TRY(const kernels::WeightType type, model::weight_type(tensor.type, tensor.name));
    bytes_ += count * (PackedMatrix::bytes_of(type, rows, cols) + rows * sizeof(std::int32_t));
    return ok_status();
  }

  const model::GgufFile& file_;
  std::uint64_t& bytes_;
  const std::uint32_t used_;
};

class Reader {
 public:
  Reader(const model::GgufFile& file, kernels::ThreadPool* pool,
         const std::function<bool()>& cancelled)
      : file_(file), pool_(pool), pages_(file), cancelled_(cancelled) {}

  Status matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols, PackedMatrix& out,
                std::uint32_t experts = 1) const {
    TRY(const model::TensorInfo* tensor, matrices_of(file_, name, rows, cols, experts));
    INVARIANT(experts == 1 || rows % kernels::kRowGroup == 0, "an expert has whole row groups");
    return read(*tensor, rows * experts, cols, file_.tensor_bytes(*tensor), out);
  }

  Status heads(const std::string& name, std::uint32_t rows, std::uint32_t cols, std::uint32_t count,
               PackedMatrix& out) const {
    TRY(const model::TensorInfo* tensor, heads_of(file_, name, rows, cols, count));
    INVARIANT(rows % kernels::kRowGroup == 0, "a head has whole row groups");
    return read(*tensor, rows * count, cols, file_.tensor_bytes(*tensor), out);
  }

  Status part(const std::string& name, std::uint32_t all, std::uint32_t first, std::uint32_t rows,
              std::uint32_t cols, PackedMatrix& out, std::uint32_t experts = 1) const {
    INVARIANT(first <= all && rows <= all - first, "some rows of a matrix are among them");
    TRY(const model::TensorInfo* tensor, matrices_of(file_, name, all, cols, experts));
    const ByteSpan bytes = file_.tensor_bytes(*tensor);
    const std::size_t row_bytes = bytes.size() / (std::size_t{all} * experts);
    const auto rows_of = [&](std::size_t expert) {
      return bytes.subspan((expert * all + first) * row_bytes, rows * row_bytes);
    };
    if (experts == 1) return read(*tensor, rows, cols, rows_of(0), out);
    // The rows of each expert, one after the other, as matrix() finds them in the file.
    INVARIANT(rows % kernels::kRowGroup == 0, "an expert has whole row groups");
    Bytes copied;
    copied.reserve(rows * row_bytes * experts);
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const ByteSpan own = rows_of(expert);
      TRY_VOID(pages_.bring(own));
      copied.insert(copied.end(), own.begin(), own.end());
      pages_.drop(own);
    }
    return read(*tensor, rows * experts, cols, copied, out);
  }

  Status vector(const std::string& name, std::uint32_t size, std::vector<float>& out,
                std::uint32_t experts = 1) const {
    TRY(const model::TensorInfo* tensor, vector_of(file_, name, size, experts));
    return copy(*tensor, std::size_t{size} * experts, out);
  }

  Status table(const std::string& name, std::uint32_t rows, std::uint32_t cols,
               std::vector<float>& out) const {
    TRY(const model::TensorInfo* tensor, table_of(file_, name, rows, cols));
    return copy(*tensor, std::size_t{rows} * cols, out);
  }

 private:
  Status copy(const model::TensorInfo& tensor, std::size_t size, std::vector<float>& out) const {
    TRY_VOID(pages_.bring(file_.tensor_bytes(tensor)));
    out.resize(size);
    std::memcpy(out.data(), file_.tensor_bytes(tensor).data(), out.size() * sizeof(float));
    for (std::size_t i = 0; i < out.size(); ++i) {
      REQUIRE(std::isfinite(out[i]), "tensor ", tensor.name, ": value ", i, " is not finite");
    }
    return ok_status();
  }

  Status read(const model::TensorInfo& tensor, std::uint32_t rows, std::uint32_t cols,
              ByteSpan blocks, PackedMatrix& out) const {
    TRY(const kernels::WeightType type, model::weight_type(tensor.type, tensor.name));
    if (cancelled_ && cancelled_()) return Error{ErrorCode::kCancelled, "loading was cancelled"};
    const Status packed = pack(type, rows, cols, blocks, out);
    if (packed.ok()) return packed;
    return Error{packed.error().code, "tensor " + tensor.name + ": " + packed.error().message};
  }

  Status pack(kernels::WeightType type, std::uint32_t rows, std::uint32_t cols, ByteSpan blocks,
              PackedMatrix& out) const {
    TRY(out, PackedMatrix::allocate(type, rows, cols));
    const std::size_t group_bytes = out.file_row_bytes() * kernels::kRowGroup;
    const auto grain = static_cast<std::uint32_t>(std::max<std::size_t>(1, kClaim / group_bytes));
    std::mutex mutex;
    std::optional<Error> failure;  // of the lowest groups, so that threads change no message
    std::uint32_t failed_at = out.groups();
    const auto claim = [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      const std::size_t from = begin * group_bytes;
      const std::size_t to = std::min(blocks.size(), end * group_bytes);
      const ByteSpan range = blocks.subspan(std::min(from, to), to - std::min(from, to));
      Status done = pages_.bring(range);
      if (done.ok()) done = out.pack_groups(begin, end, blocks);
      pages_.drop(range);
      const std::lock_guard lock(mutex);
      if (done.ok() || begin >= failed_at) return;
      failure = done.error();
      failed_at = begin;
    };
    if (pool_ != nullptr) {
      pool_->parallel_for(out.groups(), grain, claim);
    } else {
      claim(0, out.groups(), 0);
    }
    pages_.drop(blocks, true);
    if (failure) return std::move(*failure);
    return ok_status();
  }

  static constexpr std::size_t kClaim = 1 << 20;  // bytes of a file that a thread packs at a time

  const model::GgufFile& file_;
  kernels::ThreadPool* const pool_;
  const model::FilePages pages_;
  const std::function<bool()>& cancelled_;
};

// Every step of it can be undone, so that one changed word always changes the sum of its group.
std::uint64_t mixed(std::uint64_t state, const std::byte* data, std::size_t size) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  while (size > 0) {
    std::uint64_t word = 0;
    const std::size_t part = std::min(size, sizeof(word));
    std::memcpy(&word, data, part);
    state = (state ^ word) * kOdd;
    state ^= state >> 29U;
    data += part;
    size -= part;
  }
  return state;
}

class Digest {
 public:
  explicit Digest(kernels::ThreadPool& pool) : pool_(pool) {}
  void add(const PackedMatrix& matrix) {
    ++tensors_;
    const std::uint32_t groups = matrix.groups();
    if (groups == 0) return;
    std::vector<std::uint64_t> sums(groups);
    pool_.parallel_for(groups, 16, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      for (std::uint32_t i = begin; i < end; ++i) {
        sums[i] = mixed(i + 1, matrix.group(i), matrix.group_bytes());
      }
    });
    const auto exponents = std::size_t{groups} * kernels::kRowGroup * sizeof(std::int32_t);
    add(sums.data(), sums.size() * sizeof(std::uint64_t));
    add(matrix.row_exponents(), exponents);
  }
  void add(const std::vector<float>& vector) {
    ++tensors_;
    add(vector.data(), vector.size() * sizeof(float));
  }
  std::uint64_t value() const { return value_; }

 private:
  void add(const void* data, std::size_t size) {
    value_ = mixed(value_ + tensors_, static_cast<const std::byte*>(data), size);
  }
  kernels::ThreadPool& pool_;
  std::uint64_t tensors_ = 0;
  std::uint64_t value_ = 1;
};

// visit(tensor) for each of a layer: the matrices, then the vectors.
template <typename Visit>
void each_tensor(const LayerWeights& layer, const Visit& visit) {
  for (const PackedMatrix* matrix : {&layer.query,         &layer.key,
                                     &layer.value,         &layer.attention_output,
                                     &layer.gate,          &layer.up,
                                     &layer.down,          &layer.router,
                                     &layer.query_down,    &layer.latent,
                                     &layer.latent_keys,   &layer.latent_values,
                                     &layer.shared_router, &layer.shared_gate,
                                     &layer.shared_up,     &layer.shared_down,
                                     &layer.delta_input,   &layer.delta_gate,
                                     &layer.delta_beta,    &layer.delta_alpha,
                                     &layer.input_gate,    &layer.input_projection}) {
    visit(*matrix);
  }
  for (const std::vector<float>* vector : {&layer.attention_norm,
                                           &layer.query_bias,
                                           &layer.key_bias,
                                           &layer.value_bias,
                                           &layer.query_norm,
                                           &layer.key_norm,
                                           &layer.post_attention_norm,
                                           &layer.feed_forward_norm,
                                           &layer.post_feed_forward_norm,
                                           &layer.attention_output_bias,
                                           &layer.sinks,
                                           &layer.router_bias,
                                           &layer.selection_bias,
                                           &layer.query_down_norm,
                                           &layer.latent_norm,
                                           &layer.gate_bias,
                                           &layer.up_bias,
                                           &layer.down_bias,
                                           &layer.delta_taps,
                                           &layer.delta_bias,
                                           &layer.delta_decay,
                                           &layer.delta_norm,
                                           &layer.router_scale,
                                           &layer.expert_scales,
                                           &layer.experts_norm,
                                           &layer.post_shared_norm,
                                           &layer.post_experts_norm,
                                           &layer.output_scale,
                                           &layer.post_input_norm}) {
    visit(*vector);
  }
}

std::size_t bytes_of(const PackedMatrix& matrix) { return matrix.bytes(); }
std::size_t bytes_of(const std::vector<float>& vector) { return vector.size() * sizeof(float); }

}  // namespace

std::size_t StageWeights::bytes() const {
  std::size_t sum = embedding.bytes() + head.bytes() + node::bytes_of(output_norm) +
                    input_table.bytes() + input_projection.bytes() + node::bytes_of(input_norm);
  for (const LayerWeights& layer : layers) {
    each_tensor(layer, [&](const auto& tensor) { sum += node::bytes_of(tensor); });
  }
  return sum;
}

std::vector<std::uint64_t> StageWeights::digests(kernels::ThreadPool& pool) const {
  std::vector<std::uint64_t> all;
  for (const LayerWeights& layer : layers) {
    Digest digest(pool);
    each_tensor(layer, [&](const auto& tensor) { digest.add(tensor); });
    all.push_back(digest.value());
  }
  Digest rest(pool);
  rest.add(embedding);
  rest.add(head);
  rest.add(output_norm);
  rest.add(input_table);
  rest.add(input_projection);
  rest.add(input_norm);
  all.push_back(rest.value());
  return all;
}

Result<StageWeights> StageWeights::load(const model::GgufFile& file, const model::ModelSpec& spec,
                                        LayerRange layers, kernels::ThreadPool* pool,
                                        const std::function<bool()>& cancelled,
                                        const Share* share) {
  StageWeights weights;
  TRY_VOID(read_stage(Reader(file, pool, cancelled), spec, layers, share, weights));
  model::FilePages(file).drop_all();  // what the kernel mapped around the small tensors
  return weights;
}

Result<std::uint64_t> StageWeights::bytes_of(const model::GgufFile& file,
                                             const model::ModelSpec& spec, LayerRange layers,
                                             const Share* share) {
  StageTensors<Counter::Nothing, Counter::Nothing> nothing;
  std::uint64_t bytes = 0;
  TRY_VOID(read_stage(Counter(file, bytes), spec, layers, share, nothing));
  return bytes;
}

Result<std::uint64_t> StageWeights::layer_bytes_of(const model::GgufFile& file,
                                                   const model::ModelSpec& spec,
                                                   std::uint32_t layer) {
  LayerTensors<Counter::Nothing, Counter::Nothing> nothing;
  std::uint64_t bytes = 0;
  TRY_VOID(read_layer(Counter(file, bytes), spec, layer, nullptr, nothing));
  return bytes;
}

Result<std::uint64_t> StageWeights::layer_read_bytes_of(const model::GgufFile& file,
                                                        const model::ModelSpec& spec,
                                                        std::uint32_t layer) {
  LayerTensors<Counter::Nothing, Counter::Nothing> nothing;
  std::uint64_t bytes = 0;
  const Counter counter(file, bytes, std::max(1U, spec.experts_used));
  TRY_VOID(read_layer(counter, spec, layer, nullptr, nothing));
  return bytes;
}

}  // namespace hearth::node
