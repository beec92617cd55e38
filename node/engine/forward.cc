#include "node/engine/forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kHeadRows = 32;  // sampled rows whose logits are held at once

// Of a loop over rows, the values, and of one over attention heads, the products that are worth a
// claim: some microseconds.
constexpr std::uint32_t kRowValues = 4'096;
constexpr std::uint64_t kAttentionProducts = 65'536;
constexpr std::uint32_t kClaims = 8;       // of a loop, on each thread
constexpr std::uint32_t kLeastGroups = 4;  // of a product of one row, in a claim

}  // namespace

QuantBuffer::QuantBuffer(std::uint32_t rows, std::uint32_t most_cols)
    : values_(std::size_t{rows} * most_cols),
      scales_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      sums_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      block_sums_(std::size_t{rows} * (most_cols / kernels::kBlock)),
      exponents_(rows) {}

kernels::QuantizedRows QuantBuffer::view(std::uint32_t rows, std::uint32_t cols) const {
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

Forward::Forward(const Setup& setup)
    : setup_(setup),
      spec_(*setup.spec),
      kernels_(*setup.kernels),
      pool_(*setup.pool),
      wide_(spec_.heads * spec_.head_dim),
      narrow_(spec_.kv_heads * spec_.head_dim),
      frequencies_(spec_.rope_frequencies()) {
  const std::size_t rows = setup.batch_rows;
  const std::uint32_t widest = std::max({spec_.hidden, wide_, spec_.feed_forward});
  score_scale_ = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim));
  if (spec_.family->scale_embeddings)
    embedding_scale_ = std::sqrt(static_cast<float>(spec_.hidden));
  x_ = AlignedBuffer<float>(rows * spec_.hidden);
  cos_sin_ = AlignedBuffer<float>(rows * spec_.head_dim);
  query_ = AlignedBuffer<float>(rows * wide_);
  key_ = AlignedBuffer<float>(rows * narrow_);
  value_ = AlignedBuffer<float>(rows * narrow_);
  mixed_ = AlignedBuffer<float>(rows * wide_);
  gate_ = AlignedBuffer<float>(rows * spec_.feed_forward);
  up_ = AlignedBuffer<float>(rows * spec_.feed_forward);
  delta_ = AlignedBuffer<float>(rows * spec_.hidden);
  quant_ = QuantBuffer(setup.batch_rows, widest);
  failed_ = std::make_unique<std::atomic<bool>[]>(rows);
  sampled_.reserve(rows);
  if (setup.layers.end == spec_.layers) {
    const std::size_t held = std::min<std::size_t>(kHeadRows, rows);
    logits_ = AlignedBuffer<float>(held * spec_.vocabulary);
  }
  scratch_.resize(pool_.threads());
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  for (Scratch& scratch : scratch_) {
    scratch.attention = AlignedBuffer<float>(kernels::attention_scratch(group, spec_.context));
    scratch.pages.resize(spec_.context / kernels::kPageTokens + 1);
  }
}

void Forward::run(std::span<const ForwardRow> given, std::uint16_t* bits, const Sampler& sampler) {
  INVARIANT(!given.empty() && given.size() <= setup_.batch_rows, "a step has its bounds");
  rows_ = given;
  bits_ = bits;
  sampled_.clear();
  for (std::uint32_t i = 0; i < rows(); ++i) {
    failed_[i].store(false, std::memory_order_relaxed);
    if (rows_[i].sample) sampled_.push_back(i);
  }
  const auto in = quant_.view(rows(), spec_.hidden);
  for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    enter(row);
    norm(row, setup_.weights->layers[0].attention_norm, in, row);
  });
  for (std::uint32_t i = 0; i < setup_.layers.size(); ++i) layer(i);
  if (setup_.layers.end == spec_.layers && !sampled_.empty()) head(sampler);
}

std::uint32_t Forward::grain_of(std::uint32_t units, std::uint32_t least) const {
  return std::max(least, units / (kClaims * pool_.threads()));
}

template <typename Task>
void Forward::for_rows(std::uint32_t count, std::uint32_t width, const Task& task) {
  const std::uint32_t least = std::max(1U, kRowValues / width);
  pool_.parallel_for(count, grain_of(count, least),
                     [&](std::uint32_t begin, std::uint32_t end, unsigned) {
                       for (std::uint32_t row = begin; row < end; ++row) task(row);
                     });
}

// The residual of a row, from the embedding or from the previous stage.
void Forward::enter(std::uint32_t row) {
  const std::uint32_t hidden = spec_.hidden;
  const int shift = spec_.family->residual_shift;
  float* x = x_.data() + std::size_t{row} * hidden;
  std::uint16_t* bits = bits_ + std::size_t{row} * hidden;
  if (setup_.layers.begin == 0) {
    const auto token = static_cast<std::uint32_t>(rows_[row].token);
    kernels_.dequantize_row(setup_.weights->embedding, token, x);
    if (spec_.family->scale_embeddings) {
      for (std::uint32_t i = 0; i < hidden; ++i) x[i] *= embedding_scale_;
    }
    if (!kernels_.residual_round(x, bits, hidden, shift)) fail(row);
  } else {
    kernels_.residual_expand(bits, x, hidden, shift);
  }
  kernels::rope_table_row(rows_[row].position, frequencies_,
                          cos_sin_.data() + std::size_t{row} * spec_.head_dim);
}

void Forward::norm(std::uint32_t row, const std::vector<float>& weight,
                   const kernels::QuantizedRows& out, std::uint32_t t) {
  const float* x = x_.data() + std::size_t{row} * spec_.hidden;
  if (!kernels_.rms_norm_quantize(x, weight.data(), spec_.rms_epsilon, out, t, nullptr)) fail(row);
}

void Forward::add_delta(std::uint32_t row) {
  const std::size_t at = std::size_t{row} * spec_.hidden;
  kernels_.add(x_.data() + at, delta_.data() + at, spec_.hidden);
}

void Forward::close_layer(std::uint32_t row) {
  add_delta(row);
  const std::size_t at = std::size_t{row} * spec_.hidden;
  const int shift = spec_.family->residual_shift;
  if (!kernels_.residual_round(x_.data() + at, bits_ + at, spec_.hidden, shift)) fail(row);
}

void Forward::multiply(const kernels::QuantizedRows& x, std::initializer_list<Product> products) {
  std::uint32_t groups = 0;
  for (const Product& product : products) groups += product.matrix->groups();
  const std::uint32_t least = std::max(1U, kLeastGroups / x.rows);
  const auto part = [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    std::uint32_t first = 0;  // group of the whole at which this product begins
    for (const Product& product : products) {
      const std::uint32_t last = first + product.matrix->groups();
      const std::uint32_t from = std::max(begin, first);
      const std::uint32_t to = std::min(end, last);
      if (from < to) {
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
  const LayerWeights& weights = setup_.weights->layers[index];
  const auto in = quant_.view(rows(), spec_.hidden);
  attention(weights, index);
  for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    add_delta(row);
    norm(row, weights.feed_forward_norm, in, row);
  });
  feed_forward(weights);
  const bool last = index + 1 == setup_.layers.size();
  for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    close_layer(row);
    if (!last) norm(row, setup_.weights->layers[index + 1].attention_norm, in, row);
  });
}

void Forward::attention(const LayerWeights& weights, std::uint32_t index) {
  multiply(quant_.view(rows(), spec_.hidden), {{&weights.query, query_.data()},
                                               {&weights.key, key_.data()},
                                               {&weights.value, value_.data()}});
  // A row of a prompt reads what those before it store, so all store first.
  for_rows(rows(), wide_ + 2 * narrow_, [&](std::uint32_t row) {
    for (std::uint32_t h = 0; h < spec_.kv_heads; ++h) rotate_and_store(row, h, weights, index);
  });
  std::uint64_t products = 0;
  for (const ForwardRow& row : rows_) products += (std::uint64_t{row.position} + 1) * wide_;
  const std::uint32_t items = rows() * spec_.kv_heads;
  const std::uint64_t least = kAttentionProducts * items / products + 1;
  const auto grain =
      grain_of(items, static_cast<std::uint32_t>(std::min<std::uint64_t>(items, least)));
  pool_.parallel_for(items, grain, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t i = begin; i < end; ++i) {
      attend(i / spec_.kv_heads, i % spec_.kv_heads, index, scratch_[thread]);
    }
  });
  const auto out = quant_.view(rows(), wide_);
  for_rows(rows(), wide_, [&](std::uint32_t row) {
    if (!kernels_.quantize(mixed_.data() + std::size_t{row} * wide_, out, row)) fail(row);
  });
  multiply(out, {{&weights.attention_output, delta_.data()}});
}

void Forward::rotate_and_store(std::uint32_t row, std::uint32_t kv_head,
                               const LayerWeights& weights, std::uint32_t index) {
  const std::uint32_t head_dim = spec_.head_dim;
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  const std::size_t query_at = std::size_t{kv_head} * group * head_dim;
  const std::size_t key_at = std::size_t{kv_head} * head_dim;
  float* query = query_.data() + std::size_t{row} * wide_ + query_at;
  float* key = key_.data() + std::size_t{row} * narrow_ + key_at;
  float* value = value_.data() + std::size_t{row} * narrow_ + key_at;
  if (!weights.query_bias.empty()) {
    kernels_.add(query, weights.query_bias.data() + query_at, group * head_dim);
    kernels_.add(key, weights.key_bias.data() + key_at, head_dim);
    kernels_.add(value, weights.value_bias.data() + key_at, head_dim);
  }
  const float* cos_sin = cos_sin_.data() + std::size_t{row} * head_dim;
  kernels_.rope(query, group, head_dim, spec_.family->rope, cos_sin);
  kernels_.rope(key, 1, head_dim, spec_.family->rope, cos_sin);

  // Heads lie one after the other in a page, so one of them is a page of one head.
  const kernels::KvLayout one{1, head_dim};
  const Position position = rows_[row].position;
  const std::uint32_t page_index = (*rows_[row].pages)[position / kernels::kPageTokens];
  std::byte* page = setup_.cache->page(page_index, index) + kv_head * one.page_bytes();
  if (!kernels_.kv_write(one, page, position % kernels::kPageTokens, key, value)) fail(row);
}

void Forward::attend(std::uint32_t row, std::uint32_t kv_head, std::uint32_t index,
                     Scratch& scratch) {
  const ForwardRow& r = rows_[row];
  const std::uint32_t pages = r.position / kernels::kPageTokens + 1;
  for (std::uint32_t i = 0; i < pages; ++i) {
    scratch.pages[i] = setup_.cache->page((*r.pages)[i], index);
  }
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  const std::size_t at = std::size_t{row} * wide_ + std::size_t{kv_head} * group * spec_.head_dim;
  kernels::AttentionArgs args;
  args.layout = spec_.kv_layout();
  args.kv_head = kv_head;
  args.group = group;
  args.query = query_.data() + at;
  args.pages = scratch.pages.data();
  args.begin = 0;
  args.end = r.position + 1;
  args.score_scale = score_scale_;
  args.scratch = scratch.attention.data();
  args.out = mixed_.data() + at;
  if (!kernels_.attention(args)) fail(row);
}

void Forward::feed_forward(const LayerWeights& weights) {
  multiply(quant_.view(rows(), spec_.hidden),
           {{&weights.gate, gate_.data()}, {&weights.up, up_.data()}});
  const auto middle = quant_.view(rows(), spec_.feed_forward);
  for_rows(rows(), spec_.feed_forward, [&](std::uint32_t row) {
    const std::size_t at = std::size_t{row} * spec_.feed_forward;
    if (!kernels_.swiglu_quantize(gate_.data() + at, up_.data() + at, middle, row)) fail(row);
  });
  multiply(middle, {{&weights.down, delta_.data()}});
}

// Logits of the sampled rows, some at a time, and the sampler over each.
void Forward::head(const Sampler& sampler) {
  const auto count = static_cast<std::uint32_t>(sampled_.size());
  for (std::uint32_t tile = 0; tile < count; tile += kHeadRows) {
    const std::uint32_t size = std::min(kHeadRows, count - tile);
    const auto in = quant_.view(size, spec_.hidden);
    for_rows(size, spec_.hidden, [&](std::uint32_t s) {
      norm(sampled_[tile + s], setup_.weights->output_norm, in, s);
    });
    multiply(in, {{&setup_.weights->output(), logits_.data()}});
    pool_.parallel_for(size, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
      for (std::uint32_t s = begin; s < end; ++s) {
        const float* logits = logits_.data() + std::size_t{s} * spec_.vocabulary;
        sampler(sampled_[tile + s], thread, {logits, spec_.vocabulary});
      }
    });
  }
}

}  // namespace hearth::node
