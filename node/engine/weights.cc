#include "node/engine/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "node/engine/file_pages.h"

namespace hearth::node {
namespace {

using kernels::PackedMatrix;

class Reader {
 public:
  Reader(const model::GgufFile& file, kernels::ThreadPool* pool,
         const std::function<bool()>& cancelled)
      : file_(file), pool_(pool), pages_(file), cancelled_(cancelled) {}
  // Takes nothing and reads nothing: counts what the tensors will take.
  Reader(const model::GgufFile& file, std::uint64_t& bytes)
      : file_(file), pages_(file), counted_(&bytes) {}

  Status matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                PackedMatrix& out) const {
    TRY(const model::TensorInfo* tensor, model::require_tensor(file_, name, {cols, rows}));
    TRY(const kernels::WeightType type, model::weight_type(tensor->type, name));
    if (counted_ != nullptr) {
      *counted_ += PackedMatrix::bytes_of(type, rows, cols) + rows * sizeof(std::int32_t);
      return ok_status();
    }
    if (cancelled_ && cancelled_()) return Error{ErrorCode::kCancelled, "loading was cancelled"};
    const Status packed = pack(type, rows, cols, file_.tensor_bytes(*tensor), out);
    if (packed.ok()) return packed;
    return Error{packed.error().code, "tensor " + name + ": " + packed.error().message};
  }

  Status vector(const std::string& name, std::uint32_t size, std::vector<float>& out) const {
    TRY(const model::TensorInfo* tensor, model::require_tensor(file_, name, {size}));
    REQUIRE(tensor->type == model::TensorType::kF32, "tensor " + name + " is not F32");
    if (counted_ != nullptr) {
      *counted_ += size * sizeof(float);
      return ok_status();
    }
    TRY_VOID(pages_.bring(file_.tensor_bytes(*tensor)));
    out.resize(size);
    std::memcpy(out.data(), file_.tensor_bytes(*tensor).data(), size * sizeof(float));
    for (std::uint32_t i = 0; i < size; ++i) {
      REQUIRE(std::isfinite(out[i]),
              "tensor " + name + ": value " + std::to_string(i) + " is not finite");
    }
    return ok_status();
  }

 private:
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
  kernels::ThreadPool* const pool_ = nullptr;
  const FilePages pages_;
  std::uint64_t* const counted_ = nullptr;
  const std::function<bool()> cancelled_ = {};
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

std::size_t layer_bytes(const LayerWeights& layer) {
  std::size_t values = 0;
  for (const std::vector<float>* vector :
       {&layer.attention_norm, &layer.query_bias, &layer.key_bias, &layer.value_bias,
        &layer.query_norm, &layer.key_norm, &layer.post_attention_norm, &layer.feed_forward_norm,
        &layer.post_feed_forward_norm}) {
    values += vector->size();
  }
  return values * sizeof(float) + layer.query.bytes() + layer.key.bytes() + layer.value.bytes() +
         layer.attention_output.bytes() + layer.gate.bytes() + layer.up.bytes() +
         layer.down.bytes();
}

}  // namespace

std::size_t StageWeights::bytes() const {
  std::size_t sum = embedding.bytes() + head.bytes() + output_norm.size() * sizeof(float);
  for (const LayerWeights& layer : layers) sum += layer_bytes(layer);
  return sum;
}

std::vector<std::uint64_t> StageWeights::digests(kernels::ThreadPool& pool) const {
  std::vector<std::uint64_t> all;
  for (const LayerWeights& layer : layers) {
    Digest digest(pool);
    for (const PackedMatrix* matrix :
         {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate, &layer.up,
          &layer.down}) {
      digest.add(*matrix);
    }
    for (const std::vector<float>* vector :
         {&layer.attention_norm, &layer.query_bias, &layer.key_bias, &layer.value_bias,
          &layer.query_norm, &layer.key_norm, &layer.post_attention_norm, &layer.feed_forward_norm,
          &layer.post_feed_forward_norm}) {
      digest.add(*vector);
    }
    all.push_back(digest.value());
  }
  Digest rest(pool);
  rest.add(embedding);
  rest.add(head);
  rest.add(output_norm);
  all.push_back(rest.value());
  return all;
}

Result<StageWeights> StageWeights::load(const model::GgufFile& file, const model::ModelSpec& spec,
                                        LayerRange layers, kernels::ThreadPool* pool,
                                        const std::function<bool()>& cancelled) {
  StageWeights weights;
  TRY_VOID(read_stage(Reader(file, pool, cancelled), spec, layers, weights));
  FilePages(file).drop(file.bytes(), true);  // what the kernel mapped around the small tensors
  return weights;
}

Result<std::uint64_t> StageWeights::bytes_of(const model::GgufFile& file,
                                             const model::ModelSpec& spec, LayerRange layers) {
  StageWeights nothing;
  std::uint64_t bytes = 0;
  TRY_VOID(read_stage(Reader(file, bytes), spec, layers, nothing));
  return bytes;
}

}  // namespace hearth::node
