#include "node/engine/forward.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/defect.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kClaims = 8;       // of a loop, on each thread
constexpr std::uint32_t kLeastGroups = 4;  // of a product of one row, in a claim

using kernels::Defect;
using kernels::kDefect;

// For an injected defect: the row's two halves as two outputs, added.
void multiply_in_halves(const kernels::Kernels& table, const kernels::PackedMatrix& w,
                        const kernels::QuantizedRows& x, std::uint32_t begin, std::uint32_t end,
                        float* out) {
  const std::uint32_t blocks = w.cols() / kernels::kBlock;
  std::vector<std::int32_t> sums(std::size_t{x.rows} * w.rows());
  std::vector<float> half(sums.size());
  table.matmul_partial(w, x, begin, end, 0, blocks / 2, sums.data(), w.rows());
  kernels::grid_outputs(w, x, begin, end, sums.data(), half.data(), w.rows());
  table.matmul_partial(w, x, begin, end, blocks / 2, blocks, sums.data(), w.rows());
  kernels::grid_outputs(w, x, begin, end, sums.data(), out, w.rows());
  const std::uint32_t first = begin * kernels::kRowGroup;
  const std::uint32_t last = std::min(w.rows(), end * kernels::kRowGroup);
  for (std::size_t t = 0; t < x.rows; ++t) {
    table.add(out + t * w.rows() + first, half.data() + t * w.rows() + first, last - first);
  }
}

}  // namespace

QuantBuffer::QuantBuffer(std::uint32_t rows, std::uint32_t most_cols)
    : values_(std::size_t{rows} * most_cols),
      scales_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      sums_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      block_sums_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      exponents_(rows) {}

kernels::QuantizedRows QuantBuffer::view(std::uint32_t rows, std::uint32_t cols) const {
  INVARIANT(rows <= exponents_.size() && std::size_t{rows} * cols <= values_.size(),
            "the buffer holds the quantised rows");
  kernels::QuantizedRows out;
  out.rows = rows;
  out.cols = cols;
  out.values = values_.data();
  out.scales = scales_.data();
  out.sums = sums_.data();
  out.block_sums = block_sums_.data();
  out.exponents = exponents_.data();
  return out;
}

Forward::Forward(Setup setup)
    : setup_(std::move(setup)),
      spec_(setup_.spec),
      kernels_(*setup_.kernels),
      pool_(*setup_.pool),
      wide_(spec_.heads * spec_.head_dim),
      narrow_(spec_.kv_heads * spec_.head_dim),
      score_scale_(spec_.score_scale()),
      embedding_scale_(spec_.embedding_scale()),
      activate_(spec_.family->activation == model::Activation::kSilu
                    ? &kernels::Kernels::swiglu_quantize
                    : &kernels::Kernels::geglu_quantize) {
  INVARIANT(setup_.batch_rows != 0 && setup_.layers.size() == setup_.weights.layers.size(),
            "a stage has the weights of its layers");
  INVARIANT(setup_.layers.size() != 0 && setup_.layers.end <= spec_.layers,
            "a stage's layers are the model's");
  INVARIANT(spec_.kv_heads != 0 && spec_.heads % spec_.kv_heads == 0,
            "as many query heads share each KV head");
  const std::size_t rows = setup_.batch_rows;
  const std::uint32_t widest = std::max({spec_.hidden, wide_, spec_.feed_forward});
  bits_ = AlignedBuffer<std::uint16_t>(rows * spec_.hidden);
  x_ = AlignedBuffer<float>(rows * spec_.hidden);
  angles_ = {spec_.rope_frequencies(), AlignedBuffer<float>(rows * spec_.head_dim)};
  bool local = false;
  for (std::uint32_t i = setup_.layers.begin; i < setup_.layers.end; ++i)
    local |= spec_.is_local(i);
  if (local) {
    local_angles_ = {spec_.local_rope_frequencies(), AlignedBuffer<float>(rows * spec_.head_dim)};
  }
  query_ = AlignedBuffer<float>(rows * wide_);
  key_ = AlignedBuffer<float>(rows * narrow_);
  value_ = AlignedBuffer<float>(rows * narrow_);
  mixed_ = AlignedBuffer<float>(rows * wide_);
  gate_ = AlignedBuffer<float>(rows * spec_.feed_forward);
  up_ = AlignedBuffer<float>(rows * spec_.feed_forward);
  delta_ = AlignedBuffer<float>(rows * spec_.hidden);
  quant_ = QuantBuffer(setup_.batch_rows, widest);
  failed_ = std::make_unique<std::atomic<bool>[]>(rows);
  sampled_.reserve(rows);
  if (setup_.layers.end == spec_.layers) {
    const std::size_t held = std::min<std::size_t>(kHeadRows, rows);
    logits_ = AlignedBuffer<float>(held * spec_.vocabulary);
  }
  digests_ = setup_.weights.digests(pool_);
  scratch_.resize(pool_.threads());
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  for (Scratch& scratch : scratch_) {
    scratch.attention = AlignedBuffer<float>(kernels::attention_scratch(group, spec_.context));
    scratch.pages.resize(spec_.context / kernels::kPageTokens + 1);
  }
}

Status Forward::verify_weights() {
  const std::vector<std::uint64_t> now = setup_.weights.digests(pool_);
  INVARIANT(now.size() == digests_.size(), "the stage's tensors are those that were loaded");
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == digests_[i]) continue;
    const bool is_layer = i < setup_.layers.size();
    return Error::of(ErrorCode::kNumeric,
                     (is_layer ? "the weights of layer " + std::to_string(setup_.layers.begin + i)
                               : std::string("the embedding, the head or the final norm")),
                     " have changed in memory since loading: test this machine's memory");
  }
  return ok_status();
}

// Hands on logits alone: the engine's samplers draw.
Status Forward::begin(std::span<const ForwardRow> given, const Outputs& outputs) {
  INVARIANT(!given.empty() && given.size() <= setup_.batch_rows, "a step has its bounds");
  rows_ = given;
  sampled_.clear();
  for (std::uint32_t i = 0; i < rows(); ++i) {
    failed_[i].store(false, std::memory_order_relaxed);
    if (rows_[i].sample) sampled_.push_back(i);
  }
  const auto in = quant_.view(rows(), spec_.hidden);
  for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    enter(row);
    norm(row, setup_.weights.layers[0].attention_norm, in, row);
  });
  for (std::uint32_t i = 0; i < setup_.layers.size(); ++i) layer(i);
  if (setup_.layers.end == spec_.layers && !sampled_.empty()) head(outputs.on_logits);
  return ok_status();
}

std::uint32_t Forward::grain_of(std::uint32_t units, std::uint32_t least) const {
  return std::max(least, units / (kClaims * pool_.threads()));
}

// The residual of a row, from the embedding or from the previous stage.
void Forward::enter(std::uint32_t row) {
  const std::uint32_t hidden = spec_.hidden;
  const int shift = spec_.family->residual_shift;
  float* x = x_.data() + std::size_t{row} * hidden;
  std::uint16_t* bits = bits_.data() + std::size_t{row} * hidden;
  if (setup_.layers.begin == 0) {
    const auto token = static_cast<std::uint32_t>(rows_[row].token);
    kernels_.dequantize_row(setup_.weights.embedding, token, x);
    if (spec_.family->scale_embeddings) {
      for (std::uint32_t i = 0; i < hidden; ++i) x[i] *= embedding_scale_;
    }
    if (!kernels_.residual_round(x, bits, hidden, shift)) fail(row);
  } else {
    kernels_.residual_expand(bits, x, hidden, shift);
  }
  for (Angles* angles : {&angles_, &local_angles_}) {
    if (angles->frequencies.empty()) continue;
    kernels::rope_table_row(rows_[row].position, angles->frequencies,
                            angles->cos_sin.data() + std::size_t{row} * spec_.head_dim);
  }
}

void Forward::norm(std::uint32_t row, const std::vector<float>& weight,
                   const kernels::QuantizedRows& out, std::uint32_t t) {
  const float* x = x_.data() + std::size_t{row} * spec_.hidden;
  if (!kernels_.rms_norm_quantize(x, weight.data(), spec_.rms_epsilon, out, t, nullptr)) fail(row);
}

void Forward::add_delta(std::uint32_t row, const std::vector<float>& post_norm) {
  const std::uint32_t n = spec_.hidden;
  const std::size_t at = std::size_t{row} * n;
  float* delta = delta_.data() + at;
  if (!post_norm.empty() &&
      !kernels_.rms_norm(delta, post_norm.data(), spec_.rms_epsilon, n, delta)) {
    fail(row);
  }
  kernels_.add(x_.data() + at, delta, n);
}

void Forward::close_layer(std::uint32_t row) {
  const std::size_t at = std::size_t{row} * spec_.hidden;
  const int shift = spec_.family->residual_shift;
  if (!kernels_.residual_round(x_.data() + at, bits_.data() + at, spec_.hidden, shift)) fail(row);
}

void Forward::multiply(const kernels::QuantizedRows& x, std::initializer_list<Product> products) {
  INVARIANT(x.rows != 0, "a product has rows");
  std::uint32_t groups = 0;
  for (const Product& product : products) groups += product.matrix->groups();
  const std::uint32_t least = std::max(1U, kLeastGroups / x.rows);
  const auto part = [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    std::uint32_t first = 0;  // group of the whole at which this product begins
    for (const Product& product : products) {
      const std::uint32_t last = first + product.matrix->groups();
      const std::uint32_t from = std::max(begin, first);
      const std::uint32_t to = std::min(end, last);
      if (kDefect == Defect::kThreadSplit && from < to && pool_.threads() > 1) {
        multiply_in_halves(kernels_, *product.matrix, x, from - first, to - first, product.out);
      } else if (from < to) {
        kernels_.matmul(*product.matrix, x, from - first, to - first, product.out,
                        product.matrix->rows());
      }
      first = last;
    }
  };
  pool_.parallel_for(groups, grain_of(groups, least), part);
}

// Begins with the normed and quantised residual in quant_, and leaves it there for the next layer.
void Forward::layer(std::uint32_t index) {
  const LayerWeights& weights = setup_.weights.layers[index];
  const auto in = quant_.view(rows(), spec_.hidden);
  attention(weights, index);
  for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    add_delta(row, weights.post_attention_norm);
    norm(row, weights.feed_forward_norm, in, row);
  });
  feed_forward(weights);
  const bool last = index + 1 == setup_.layers.size();
  for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    add_delta(row, weights.post_feed_forward_norm);
    close_layer(row);
    if (!last) norm(row, setup_.weights.layers[index + 1].attention_norm, in, row);
  });
}

void Forward::feed_forward(const LayerWeights& weights) {
  multiply(quant_.view(rows(), spec_.hidden),
           {{&weights.gate, gate_.data()}, {&weights.up, up_.data()}});
  const auto middle = quant_.view(rows(), spec_.feed_forward);
  for_rows(rows(), spec_.feed_forward, [&](std::uint32_t row) {
    const std::size_t at = std::size_t{row} * spec_.feed_forward;
    if (!(kernels_.*activate_)(gate_.data() + at, up_.data() + at, middle, row)) fail(row);
  });
  multiply(middle, {{&weights.down, delta_.data()}});
}

// Logits of the sampled rows, some at a time, and the sampler over each.
void Forward::head(const OnLogits& on_logits) {
  const auto count = static_cast<std::uint32_t>(sampled_.size());
  for (std::uint32_t tile = 0; tile < count; tile += kHeadRows) {
    const std::uint32_t size = std::min(kHeadRows, count - tile);
    const auto in = quant_.view(size, spec_.hidden);
    for_rows(size, spec_.hidden,
             [&](std::uint32_t s) { norm(sampled_[tile + s], setup_.weights.output_norm, in, s); });
    multiply(in, {{&setup_.weights.output(), logits_.data()}});
    pool_.parallel_for(size, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
      for (std::uint32_t s = begin; s < end; ++s) {
        const float* logits = logits_.data() + std::size_t{s} * spec_.vocabulary;
        on_logits(sampled_[tile + s], thread, {logits, spec_.vocabulary});
      }
    });
  }
}

}  // namespace hearth::node
