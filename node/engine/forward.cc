#include "node/engine/forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kHeadRows = 32;  // sampled rows whose logits are held at once

// The share of `count` things that falls to `member`.
std::pair<std::uint32_t, std::uint32_t> share(std::uint32_t count, std::uint32_t member,
                                              std::uint32_t members) {
  const auto bound = [&](std::uint64_t i) {
    return static_cast<std::uint32_t>(std::uint64_t{count} * i / members);
  };
  return {bound(member), bound(member + 1)};
}

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
  private_.resize(setup.team->size());
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  for (Private& own : private_) {
    own.x = AlignedBuffer<float>(spec_.hidden);
    own.bits = AlignedBuffer<std::uint16_t>(spec_.hidden);
    own.cos_sin = AlignedBuffer<float>(spec_.head_dim);
    own.quant = QuantBuffer(1, widest);
    own.attention = AlignedBuffer<float>(kernels::attention_scratch(group, spec_.context));
    own.pages.resize(spec_.context / kernels::kPageTokens + 1);
  }
}

void Forward::run(std::span<const ForwardRow> rows, std::uint16_t* bits, const Sampler& sampler) {
  INVARIANT(!rows.empty() && rows.size() <= setup_.batch_rows, "a step has its bounds");
  rows_ = rows;
  bits_ = bits;
  sampler_ = &sampler;
  sampled_.clear();
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    failed_[i].store(false, std::memory_order_relaxed);
    if (rows[i].sample) sampled_.push_back(i);
  }
  setup_.team->run([this](std::uint32_t member) { work(member); });
}

Forward::Lane Forward::lane_of(std::uint32_t member) {
  const auto count = static_cast<std::uint32_t>(rows_.size());
  const std::uint32_t members = setup_.team->size();
  Lane lane;
  lane.member = member;
  lane.replicated = count == 1 && members > 1;
  if (lane.replicated) {
    Private& own = private_[member];
    lane.end = 1;
    lane.x = own.x.data();
    lane.bits = own.bits.data();
    lane.cos_sin = own.cos_sin.data();
    lane.quant = &own.quant;
  } else {
    std::tie(lane.begin, lane.end) = share(count, member, members);
    lane.x = x_.data();
    lane.bits = bits_;
    lane.cos_sin = cos_sin_.data();
    lane.quant = &quant_;
  }
  return lane;
}

void Forward::meet(const Lane& lane) {
  if (!lane.replicated) setup_.team->barrier();
}

void Forward::work(std::uint32_t member) {
  const Lane lane = lane_of(member);
  enter(lane);
  for (std::uint32_t i = 0; i < setup_.layers.size(); ++i) layer(lane, i);
  if (lane.replicated && member == 0) {
    std::memcpy(bits_, lane.bits, spec_.hidden * sizeof(std::uint16_t));
  }
  if (setup_.layers.end == spec_.layers && !sampled_.empty()) head(lane);
}

// The residual of the rows, from the embedding or from the previous stage.
void Forward::enter(const Lane& lane) {
  const std::uint32_t hidden = spec_.hidden;
  const int shift = spec_.family->residual_shift;
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    float* x = lane.x + std::size_t{t} * hidden;
    std::uint16_t* bits = lane.bits + std::size_t{t} * hidden;
    if (setup_.layers.begin == 0) {
      const auto token = static_cast<std::uint32_t>(rows_[t].token);
      kernels_.dequantize_row(setup_.weights->embedding, token, x);
      if (spec_.family->scale_embeddings) {
        for (std::uint32_t i = 0; i < hidden; ++i) x[i] *= embedding_scale_;
      }
      if (!kernels_.residual_round(x, bits, hidden, shift)) fail(t);
    } else {
      kernels_.residual_expand(bits_ + std::size_t{t} * hidden, x, hidden, shift);
    }
    kernels::rope_table_row(rows_[t].position, frequencies_,
                            lane.cos_sin + std::size_t{t} * spec_.head_dim);
  }
}

void Forward::multiply(const Lane& lane, const kernels::QuantizedRows& x,
                       std::initializer_list<Product> products) {
  std::uint32_t groups = 0;
  for (const Product& product : products) groups += product.matrix->groups();
  auto [begin, end] = share(groups, lane.member, setup_.team->size());
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
  setup_.team->barrier();
}

void Forward::layer(const Lane& lane, std::uint32_t index) {
  const LayerWeights& weights = setup_.weights->layers[index];
  const std::uint32_t hidden = spec_.hidden;
  attention(lane, weights, index);
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    const std::size_t at = std::size_t{t} * hidden;
    kernels_.add(lane.x + at, delta_.data() + at, hidden);
  }
  feed_forward(lane, weights);
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    const std::size_t at = std::size_t{t} * hidden;
    kernels_.add(lane.x + at, delta_.data() + at, hidden);
    if (!kernels_.residual_round(lane.x + at, lane.bits + at, hidden,
                                 spec_.family->residual_shift)) {
      fail(t);
    }
  }
}

void Forward::attention(const Lane& lane, const LayerWeights& weights, std::uint32_t index) {
  const auto rows = static_cast<std::uint32_t>(rows_.size());
  const std::uint32_t members = setup_.team->size();
  const auto in = lane.quant->view(rows, spec_.hidden);
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    const float* x = lane.x + std::size_t{t} * spec_.hidden;
    if (!kernels_.rms_norm_quantize(x, weights.attention_norm.data(), spec_.rms_epsilon, in, t,
                                    nullptr)) {
      fail(t);
    }
  }
  meet(lane);
  multiply(lane, in,
           {{&weights.query, query_.data()},
            {&weights.key, key_.data()},
            {&weights.value, value_.data()}});

  // A thread that is given a (row, kv head) stores and reads it; only where others' rows are read
  // as well, those of one prompt, all must be stored first.
  const std::uint32_t items = rows * spec_.kv_heads;
  for (std::uint32_t i = lane.member; i < items; i += members) {
    rotate_and_store(lane, i / spec_.kv_heads, i % spec_.kv_heads, weights, index);
  }
  meet(lane);
  for (std::uint32_t i = lane.member; i < items; i += members) {
    attend(lane, i / spec_.kv_heads, i % spec_.kv_heads, index);
  }
  setup_.team->barrier();

  const auto out = lane.quant->view(rows, wide_);
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    if (!kernels_.quantize(mixed_.data() + std::size_t{t} * wide_, out, t)) fail(t);
  }
  meet(lane);
  multiply(lane, out, {{&weights.attention_output, delta_.data()}});
}

void Forward::rotate_and_store(const Lane& lane, std::uint32_t row, std::uint32_t kv_head,
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
  const float* cos_sin = lane.cos_sin + std::size_t{row} * head_dim;
  kernels_.rope(query, group, head_dim, spec_.family->rope, cos_sin);
  kernels_.rope(key, 1, head_dim, spec_.family->rope, cos_sin);

  // Heads lie one after the other in a page, so one of them is a page of one head.
  const kernels::KvLayout one{1, head_dim};
  const Position position = rows_[row].position;
  const std::uint32_t page_index = (*rows_[row].pages)[position / kernels::kPageTokens];
  std::byte* page = setup_.cache->page(page_index, index) + kv_head * one.page_bytes();
  if (!kernels_.kv_write(one, page, position % kernels::kPageTokens, key, value)) fail(row);
}

void Forward::attend(const Lane& lane, std::uint32_t row, std::uint32_t kv_head,
                     std::uint32_t index) {
  Private& own = private_[lane.member];
  const ForwardRow& r = rows_[row];
  const std::uint32_t pages = r.position / kernels::kPageTokens + 1;
  for (std::uint32_t i = 0; i < pages; ++i) {
    own.pages[i] = setup_.cache->page((*r.pages)[i], index);
  }
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  const std::size_t at = std::size_t{row} * wide_ + std::size_t{kv_head} * group * spec_.head_dim;
  kernels::AttentionArgs args;
  args.layout = spec_.kv_layout();
  args.kv_head = kv_head;
  args.group = group;
  args.query = query_.data() + at;
  args.pages = own.pages.data();
  args.begin = 0;
  args.end = r.position + 1;
  args.score_scale = score_scale_;
  args.scratch = own.attention.data();
  args.out = mixed_.data() + at;
  if (!kernels_.attention(args)) fail(row);
}

void Forward::feed_forward(const Lane& lane, const LayerWeights& weights) {
  const auto rows = static_cast<std::uint32_t>(rows_.size());
  const auto in = lane.quant->view(rows, spec_.hidden);
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    const float* x = lane.x + std::size_t{t} * spec_.hidden;
    if (!kernels_.rms_norm_quantize(x, weights.feed_forward_norm.data(), spec_.rms_epsilon, in, t,
                                    nullptr)) {
      fail(t);
    }
  }
  meet(lane);
  multiply(lane, in, {{&weights.gate, gate_.data()}, {&weights.up, up_.data()}});

  const auto middle = lane.quant->view(rows, spec_.feed_forward);
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    const std::size_t at = std::size_t{t} * spec_.feed_forward;
    if (!kernels_.swiglu_quantize(gate_.data() + at, up_.data() + at, middle, t)) fail(t);
  }
  meet(lane);
  multiply(lane, middle, {{&weights.down, delta_.data()}});
}

// Logits of the sampled rows, some at a time, and the sampler over each.
void Forward::head(const Lane& lane) {
  const auto count = static_cast<std::uint32_t>(sampled_.size());
  const std::uint32_t members = setup_.team->size();
  meet(lane);
  for (std::uint32_t tile = 0; tile < count; tile += kHeadRows) {
    const std::uint32_t size = std::min(kHeadRows, count - tile);
    const auto in = lane.quant->view(size, spec_.hidden);
    const auto [begin, end] =
        lane.replicated ? std::pair{0U, size} : share(size, lane.member, members);
    for (std::uint32_t s = begin; s < end; ++s) {
      const std::uint32_t row = sampled_[tile + s];
      const float* x = lane.x + std::size_t{row} * spec_.hidden;
      if (!kernels_.rms_norm_quantize(x, setup_.weights->output_norm.data(), spec_.rms_epsilon, in,
                                      s, nullptr)) {
        fail(row);
      }
    }
    meet(lane);
    multiply(lane, in, {{&setup_.weights->output(), logits_.data()}});
    for (std::uint32_t s = lane.member; s < size; s += members) {
      const float* logits = logits_.data() + std::size_t{s} * spec_.vocabulary;
      (*sampler_)(sampled_[tile + s], lane.member, {logits, spec_.vocabulary});
    }
    setup_.team->barrier();
  }
}

}  // namespace hearth::node
