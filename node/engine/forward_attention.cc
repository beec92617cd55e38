// The attention half of a layer.
#include <algorithm>

#include "base/check.h"
#include "node/engine/forward.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kAttentionProducts = 65'536;  // worth a claim: some microseconds

}  // namespace

void Forward::mix_positions(const LayerWeights& weights, std::uint32_t index) {
  const auto in = quant_.view(rows(), spec_.hidden);
  if (latent_ != nullptr) {
    const auto head_dim = spec_.head_dim;
    latent_->compute(
        {rows_, angles_.cos_sin.data(), head_dim, score_scales_.data(), failed_.get(), in}, index,
        delta_.data());
  } else if (spec_.is_delta(setup_.layers.begin + index)) {
    delta_net_->compute({rows_, failed_.get(), in}, index, delta_.data());
  } else {
    attention(weights, index);
  }
}

void Forward::attention(const LayerWeights& weights, std::uint32_t index) {
  float* queries = spec_.family->attention_gate ? gated_.data() : query_.data();
  loops_.multiply(
      quant_.view(rows(), spec_.hidden),
      {{&weights.query, queries}, {&weights.key, key_.data()}, {&weights.value, value_.data()}});
  // A row of a prompt reads what those before it store, so all store first.
  loops_.for_rows(rows(), wide_ + 2 * narrow_,
                  [&](std::uint32_t row) { store_heads(row, weights, index); });
  const std::uint32_t layer = setup_.layers.begin + index;
  std::uint64_t products = 0;
  for (const ForwardRow& row : rows_) {
    const std::uint32_t first = spec_.first_visible(layer, row.position);
    products += (std::uint64_t{row.position} + 1 - first) * wide_;
  }
  const std::uint32_t items = rows() * spec_.kv_heads;
  const std::uint64_t least = kAttentionProducts * items / products + 1;
  const auto claim = static_cast<std::uint32_t>(std::min<std::uint64_t>(items, least));
  loops_.for_units(items, claim, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t i = begin; i < end; ++i) {
      attend(i / spec_.kv_heads, i % spec_.kv_heads, index, scratch_[thread]);
    }
  });
  const auto out = quant_.view(rows(), wide_);
  loops_.for_rows(rows(), wide_, [&](std::uint32_t row) {
    const std::size_t at = std::size_t{row} * wide_;
    float* mixed = mixed_.data() + at;
    const float* gate = attention_gate_.data() + at;
    const bool gated = spec_.family->attention_gate;
    if (gated && !kernels_.multiply_sigmoid(mixed, gate, wide_)) fail(row);
    if (!kernels_.quantize(mixed, out, row)) fail(row);
  });
  loops_.multiply(out, {{&weights.attention_output, delta_.data()}});
}

void Forward::norm_heads(std::uint32_t row, float* x, std::uint32_t heads,
                         const std::vector<float>& weight) {
  const bool each = spec_.head_norms == model::HeadNorms::kEach;
  const std::uint32_t n = each ? spec_.head_dim : heads * spec_.head_dim;
  for (std::uint32_t h = 0; h < (each ? heads : 1); ++h, x += n) {
    if (!kernels_.rms_norm(x, weight.data(), spec_.rms_epsilon, n, x)) fail(row);
  }
}

void Forward::turn_heads(float* x, std::uint32_t heads, const float* cos_sin) {
  const model::FamilyTraits& family = *spec_.family;
  if (spec_.rotary_dim == spec_.head_dim) {
    kernels_.rope(x, heads, spec_.head_dim, family.rope, cos_sin);
    return;
  }
  for (std::uint32_t h = 0; h < heads; ++h, x += spec_.head_dim) {
    kernels_.rope(x, 1, spec_.rotary_dim, family.rope, cos_sin);
  }
}

void Forward::store_heads(std::uint32_t row, const LayerWeights& weights, std::uint32_t index) {
  float* query = query_.data() + std::size_t{row} * wide_;
  float* key = key_.data() + std::size_t{row} * narrow_;
  float* value = value_.data() + std::size_t{row} * narrow_;
  if (spec_.family->attention_gate) {
    const std::uint32_t n = spec_.head_dim;
    const float* from = gated_.data() + std::size_t{row} * 2 * wide_;
    float* gate = attention_gate_.data() + std::size_t{row} * wide_;
    for (std::uint32_t h = 0; h < spec_.heads; ++h, from += std::size_t{2} * n) {
      std::copy_n(from, n, query + std::size_t{h} * n);
      std::copy_n(from + n, n, gate + std::size_t{h} * n);
    }
  }
  if (!weights.query_bias.empty()) {
    kernels_.add(query, weights.query_bias.data(), wide_);
    kernels_.add(key, weights.key_bias.data(), narrow_);
    kernels_.add(value, weights.value_bias.data(), narrow_);
  }
  if (!weights.query_norm.empty()) {
    norm_heads(row, query, spec_.heads, weights.query_norm);
    norm_heads(row, key, spec_.kv_heads, weights.key_norm);
  }
  const std::uint32_t layer = setup_.layers.begin + index;
  if (spec_.is_turned(layer)) {
    const Angles& angles = spec_.is_local(layer) ? local_angles_ : angles_;
    const float* cos_sin = angles.cos_sin.data() + std::size_t{row} * spec_.head_dim;
    turn_heads(query, spec_.heads, cos_sin);
    turn_heads(key, spec_.kv_heads, cos_sin);
  }

  const Position position = rows_[row].position;
  INVARIANT(rows_[row].pages->size() > position / kernels::kPageTokens,
            "a row's sequence has the page of its position");
  const std::uint32_t page_index = (*rows_[row].pages)[position / kernels::kPageTokens];
  std::byte* page = setup_.cache.page(page_index, paged_[index]);
  const std::uint32_t slot = position % kernels::kPageTokens;
  if (!kernels_.kv_write(spec_.kv_layout(), page, slot, key, value)) fail(row);
}

void Forward::attend(std::uint32_t row, std::uint32_t kv_head, std::uint32_t index,
                     Scratch& scratch) {
  const ForwardRow& r = rows_[row];
  const std::uint32_t begin = spec_.first_visible(setup_.layers.begin + index, r.position);
  INVARIANT(begin <= r.position && r.position / kernels::kPageTokens < scratch.pages.size(),
            "a row sees its own position and lies in the context");
  for (std::uint32_t i = begin / kernels::kPageTokens; i <= r.position / kernels::kPageTokens;
       ++i) {
    scratch.pages[i] = setup_.cache.page((*r.pages)[i], paged_[index]);
  }
  const std::uint32_t group = spec_.heads / spec_.kv_heads;
  const std::size_t at = std::size_t{row} * wide_ + std::size_t{kv_head} * group * spec_.head_dim;
  kernels::AttentionArgs args;
  args.layout = spec_.kv_layout();
  args.kv_head = kv_head;
  args.group = group;
  args.query = query_.data() + at;
  args.pages = scratch.pages.data();
  args.begin = begin;
  args.end = r.position + 1;
  if (const auto& sinks = setup_.weights.layers[index].sinks; !sinks.empty()) {
    args.sinks = sinks.data() + std::size_t{kv_head} * group;
  }
  args.score_scale = score_scales_.data()[row];
  args.score_cap = spec_.score_cap;
  args.scratch = scratch.attention.data();
  args.out = mixed_.data() + at;
  if (!kernels_.attention(args)) fail(row);
}

}  // namespace hearth::node
