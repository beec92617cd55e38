// CardStage: what one stage keeps on a GPU from load on: the weights, the working buffers, the KV
// pages, pinned memory of the host, and three streams. CardInput, CardLayers and CardHead queue the
// work of a step on it; a CardStage holds no state of a step.
//
// take_memory() takes all memory of the GPU and of the host in one go. Every method that returns a
// Status reaches the GPU, so its caller is inside CardContext::ask(). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>

#include "base/result.h"
#include "kernels/cuda/runtime.h"
#include "kernels/thread_pool.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/card/card_buffers.h"
#include "node/engine/card/card_weights.h"

namespace hearth::node {

class CardStage {
 public:
  // Bytes of the one allocation on the GPU, by purpose.
  struct Bytes {
    std::uint64_t weights = 0;
    std::uint64_t buffers = 0;
    std::uint64_t kv_page = 0;
    std::uint64_t all(std::uint32_t pages) const { return weights + buffers + kv_page * pages; }
  };
  // The page tables in the buffers grow with shape.kv_pages. Reads the file's table only.
  static Result<Bytes> bytes_of(const model::GgufFile& file, const CardShape& shape);

  // `shape.spec` outlives the stage.
  explicit CardStage(const CardShape& shape) : shape_(shape) {}

  Status take_memory(const model::GgufFile& file);
  // Zeroes what kernels pass to each other. It zeroes the KV pages too, because a kernel may read a
  // value before it is written; it then multiplies that value by zero. Waits for the GPU.
  Status clear_memory();
  Status load_weights(const model::GgufFile& file, kernels::ThreadPool& pool,
                      const CardWeights::Progress& progress,
                      const std::function<bool()>& cancelled);
  // Waits for the GPU. kNumeric names the first tensor that differs from what was loaded.
  Status verify_weights() const;
  // Waits until the compute stream and the download stream are empty.
  Status drain() const;
  // One layer's share of a KV page, in pinned memory until the next call. Waits for the GPU.
  Result<const std::byte*> read_page(std::uint32_t index, std::uint32_t layer) const;

  const CardShape& shape() const { return shape_; }
  const model::ModelSpec& spec() const { return *shape_.spec; }
  const CardWeights& weights() const { return weights_; }
  const CardBuffers& buffers() const { return buffers_; }
  std::byte* kv() const { return kv_; }
  std::size_t kv_layer_bytes() const { return kv_layer_bytes_; }

  // Arrays of step `set`, in the GPU's memory and in pinned memory. `set` is below kStepsUnderWay.
  const StepArrays& card(std::uint32_t set) const { return buffers_.steps[set]; }
  const StepArrays& host(std::uint32_t set) const { return host_.steps[set]; }
  StepWords card_words(std::uint32_t set) const {
    return StepWords::at(card(set).words, shape_.rows);
  }
  StepWords host_words(std::uint32_t set) const {
    return StepWords::at(host(set).words, shape_.rows);
  }
  float* host_logits(unsigned half) const { return host_.logits[half]; }

  kernels::cuda::Stream upload() const { return upload_.get(); }
  kernels::cuda::Stream compute() const { return compute_.get(); }
  kernels::cuda::Stream download() const { return download_.get(); }

  // Kernels on the compute stream. The quantised rows are one buffer: the norm writes them and the
  // next product reads them.
  kernels::QuantizedRows quant(std::uint32_t rows, std::uint32_t cols) const;
  Status norm(const float* x, const CardVector& weight, std::uint32_t rows,
              std::uint32_t* failed) const;
  // The products of the quantised rows; `out` has a row of w.rows values for each.
  Status multiply(const kernels::cuda::CardMatrix& w, std::uint32_t rows, float* out) const;
  // With up to three matrices that are as wide as each other.
  struct Product {
    const kernels::cuda::CardMatrix& w;
    float* out;
  };
  Status multiply(std::initializer_list<Product> list, std::uint32_t rows) const;

 private:
  const CardShape shape_;
  // The memory comes first, so that it is freed after everything that works in it.
  kernels::cuda::DeviceMemory memory_;
  kernels::cuda::OwnedStream upload_;
  kernels::cuda::OwnedStream compute_;
  kernels::cuda::OwnedStream download_;
  HostBuffers host_;
  kernels::cuda::PinnedMemory found_digests_;  // what verify_weights() computes for each tensor
  CardWeights weights_;
  CardBuffers buffers_;
  std::uint64_t* digests_ = nullptr;
  std::byte* kv_ = nullptr;
  std::size_t kv_layer_bytes_ = 0;
};

}  // namespace hearth::node
