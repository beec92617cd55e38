#include "node/engine/card/card_stage.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.h"
#include "node/engine/kv_cache.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

Result<CardStage::Bytes> CardStage::bytes_of(const model::GgufFile& file, const CardShape& shape) {
  Bytes bytes;
  Placement placement;
  TRY(const CardWeights weights, CardWeights::place(file, *shape.spec, shape.layers, placement));
  placement.take<std::uint64_t>(weights.tensors().size());
  bytes.weights = placement.bytes();
  CardBuffers::place(shape, placement);
  bytes.buffers = placement.bytes() - bytes.weights;
  bytes.kv_page = KvCache::page_bytes(shape.spec->kv_layouts(shape.layers));
  return bytes;
}

Status CardStage::take_memory(const model::GgufFile& file) {
  INVARIANT(kv_ == nullptr, "a stage takes its memory once");
  TRY(const Bytes bytes, bytes_of(file, shape_));
  TRY(memory_, cuda::DeviceMemory::allocate(bytes.all(shape_.kv_pages)));
  Placement placement(memory_);
  TRY(weights_, CardWeights::place(file, spec(), shape_.layers, placement));
  digests_ = placement.take<std::uint64_t>(weights_.tensors().size());
  buffers_ = CardBuffers::place(shape_, placement);
  INVARIANT(placement.bytes() == bytes.weights + bytes.buffers,
            "the placement in memory is the one that was counted");
  kv_layer_bytes_ = KvCache::page_bytes({spec().kv_layout(0)});
  kv_ = placement.take<std::byte>(bytes.kv_page * shape_.kv_pages);
  TRY(host_, HostBuffers::allocate(shape_));
  TRY(found_digests_,
      cuda::PinnedMemory::allocate(weights_.tensors().size() * sizeof(std::uint64_t)));
  for (cuda::OwnedStream* stream : {&upload_, &compute_, &download_}) {
    TRY(*stream, cuda::make_stream());
  }
  return ok_status();
}

Status CardStage::clear_memory() {
  TRY_VOID(cuda::fill_zero(buffers_.product.sums, buffers_.product_sums * sizeof(std::int32_t),
                           compute()));
  TRY_VOID(cuda::fill_zero(buffers_.product.tickets,
                           buffers_.product_tickets * sizeof(std::uint32_t), compute()));
  TRY_VOID(cuda::fill_zero(buffers_.attention.state, buffers_.attention_state, compute()));
  TRY_VOID(
      cuda::fill_zero(kv_, kv_layer_bytes_ * shape_.layers.size() * shape_.kv_pages, compute()));
  return cuda::synchronize(compute());
}

Status CardStage::load_weights(const model::GgufFile& file, kernels::ThreadPool& pool,
                               const CardWeights::Progress& progress,
                               const std::function<bool()>& cancelled) {
  return weights_.load(file, pool, upload(), progress, cancelled);
}

Status CardStage::verify_weights() const {
  return weights_.verify(digests_, found_digests_.data(), compute());
}

Status CardStage::drain() const {
  TRY_VOID(cuda::synchronize(compute()));
  return cuda::synchronize(download());
}

Result<const std::byte*> CardStage::read_page(std::uint32_t index, std::uint32_t layer) const {
  INVARIANT(index < shape_.kv_pages && layer < shape_.layers.size(), "a page of this stage");
  const std::byte* from =
      kv_ + (std::size_t{index} * shape_.layers.size() + layer) * kv_layer_bytes_;
  TRY_VOID(cuda::copy_to_host(host_.page, from, spec().kv_layout(0).page_bytes(), download()));
  TRY_VOID(cuda::synchronize(download()));
  return Result<const std::byte*>(host_.page);
}

kernels::QuantizedRows CardStage::quant(std::uint32_t rows, std::uint32_t cols) const {
  INVARIANT(rows <= shape_.rows, "the buffer of quantised rows holds a step");
  kernels::QuantizedRows out = buffers_.quant;
  out.rows = rows;
  out.cols = cols;
  return out;
}

Status CardStage::norm(const float* x, const CardVector& weight, std::uint32_t rows,
                       std::uint32_t* failed) const {
  return cuda::rms_norm_quantize(x, weight.data, spec().rms_epsilon, quant(rows, spec().hidden),
                                 nullptr, failed, compute());
}

Status CardStage::multiply(const cuda::CardMatrix& w, std::uint32_t rows, float* out) const {
  return cuda::product(w, quant(rows, w.cols), out, w.rows, buffers_.product, compute());
}

Status CardStage::multiply(std::initializer_list<Product> list, std::uint32_t rows) const {
  std::array<cuda::ProductOutput, 3> together;
  INVARIANT(list.size() > 0 && list.size() <= together.size(), "a list has one to three matrices");
  const kernels::QuantizedRows x = quant(rows, list.begin()->w.cols);
  const std::uint32_t most =
      cuda::product_list_rows(std::max({spec().hidden, shape_.wide(), spec().feed_forward}));
  std::size_t count = 0;
  std::uint32_t rows_together = 0;
  const auto run = [&] {
    const std::size_t taken = std::exchange(count, 0);
    rows_together = 0;
    return cuda::products({together.data(), taken}, x, buffers_.product, compute());
  };
  for (const Product& each : list) {
    const std::uint32_t tiles = (each.w.rows + cuda::kTileRows - 1) / cuda::kTileRows;
    if (count > 0 && rows_together + tiles * cuda::kTileRows > most) TRY_VOID(run());
    together[count++] = {each.w, each.out, each.w.rows};
    rows_together += tiles * cuda::kTileRows;
  }
  return run();
}

}  // namespace hearth::node
