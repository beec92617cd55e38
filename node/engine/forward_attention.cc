// The attention half of a layer.
#include <algorithm>

#include "base/check.h"
#include "node/engine/forward.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kAttentionProducts = 65'536;  // worth a claim: some microseconds

// The heads of one layer.
struct Heads {
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t wide = 0;    // heads * head_dim
  std::uint32_t narrow = 0;  // kv_heads * head_dim
};

Heads heads_of(const model::ModelSpec& spec, std::uint32_t layer) {
  const std::uint32_t kv_heads = spec.kv_heads_of(layer);
  const std::uint32_t head_dim = spec.head_dim_of(layer);
  return {kv_heads, head_dim, spec.heads * head_dim, kv_heads * head_dim};
}

// Queries of a row and their gates, from the product that has both.
void split_gates(const float* from, std::uint32_t heads, std::uint32_t n, float* query,
                 float* gate) {
  for (std::uint32_t h = 0; h < heads; ++h, from += std::size_t{2} * n) {
    std::copy_n(from, n, query + std::size_t{h} * n);
    std::copy_n(from + n, n, gate + std::size_t{h} * n);
  }
}

}  // namespace

Status Forward::mix_positions(const LayerWeights& weights, std::uint32_t index) {
  const auto in = quant_.view(rows(), spec_.hidden);
  if (latent_ != nullptr) {
    const auto head_dim = spec_.head_dim;
    latent_->compute(
        {rows_, angles_.cos_sin.data(), head_dim, score_scales_.data(), failed_.get(), in}, index,
        delta_.data());
  } else if (spec_.is_delta(setup_.layers.begin + index)) {
    delta_net_->compute({rows_, failed_.get(), in}, index, delta_.data());
  } else {
    const std::uint32_t wide = heads_of(spec_, setup_.layers.begin + index).wide;
    const auto part = parts_->part(rows(), wide);
    if (wide != 0) {
      attention(weights, index);
      loops_.for_rows(rows(), wide, [&](std::uint32_t row) {
        const std::size_t at = std::size_t{row} * wide;
        float* mixed = mixed_.data() + at;
        const float* gate = attention_gate_.data() + at;
        const bool gated = spec_.family->attention_gate;
        if (gated && !kernels_.multiply_sigmoid(mixed, gate, wide)) fail(row);
        if (!kernels_.quantize(mixed, part, row)) fail(row);
      });
    }
    TRY(const auto out, parts_->join(part, &RankRows::queries));
    float* delta = parts_->divides_attention_output() ? parts_->delta() : delta_.data();
    loops_.multiply(out, {{&weights.attention_output, delta}});
  }
  return ok_status();
}

void Forward::attention(const LayerWeights& weights, std::uint32_t index) {
  const std::uint32_t layer = setup_.layers.begin + index;
  const Heads heads = heads_of(spec_, layer);
  const auto in = quant_.view(rows(), spec_.hidden);
  float* queries = spec_.family->attention_gate ? gated_.data() : query_.data();
  if (!spec_.keeps_kv(layer)) {
    loops_.multiply(in, {{&weights.query, queries}});
  } else if (spec_.shares_keys_in(layer)) {
    loops_.multiply(in, {{&weights.query, queries}, {&weights.key, key_.data()}});
    std::copy_n(key_.data(), std::size_t{rows()} * heads.narrow, value_.data());
  } else {
    loops_.multiply(
        in,
        {{&weights.query, queries}, {&weights.key, key_.data()}, {&weights.value, value_.data()}});
  }
  // A row of a prompt reads what those before it store, so all store first.
  loops_.for_rows(rows(), heads.wide + 2 * heads.narrow,
                  [&](std::uint32_t row) { store_heads(row, weights, index); });
  std::uint64_t products = 0;
  for (const ForwardRow& row : rows_) {
    const std::uint32_t first = spec_.first_visible(layer, row.position);
    products += (std::uint64_t{row.position} + 1 - first) * heads.wide;
  }
  const std::uint32_t items = rows() * heads.kv_heads;
  const std::uint64_t least = kAttentionProducts * items / products + 1;
  const auto claim = static_cast<std::uint32_t>(std::min<std::uint64_t>(items, least));
  loops_.for_units(items, claim, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t i = begin; i < end; ++i) {
      attend(i / heads.kv_heads, i % heads.kv_heads, index, scratch_[thread]);
    }
  });
}

void Forward::norm_heads(std::uint32_t row, float* x, std::uint32_t heads, std::uint32_t head_dim,
                         const std::vector<float>& weight) {
  const bool each = spec_.head_norms != model::HeadNorms::kTogether;
  const std::uint32_t n = each ? head_dim : heads * head_dim;
  for (std::uint32_t h = 0; h < (each ? heads : 1); ++h, x += n) {
    if (!kernels_.rms_norm(x, weight.data(), spec_.rms_epsilon, n, x)) fail(row);
  }
}

void Forward::turn_heads(float* x, std::uint32_t heads, std::uint32_t head_dim,
                         const float* cos_sin) {
  const model::FamilyTraits& family = *spec_.family;
  if (!family.part_rotary || spec_.rotary_dim == head_dim) {
    kernels_.rope(x, heads, head_dim, family.rope, cos_sin);
    return;
  }
  for (std::uint32_t h = 0; h < heads; ++h, x += head_dim) {
    kernels_.rope(x, 1, spec_.rotary_dim, family.rope, cos_sin);
  }
}

void Forward::store_heads(std::uint32_t row, const LayerWeights& weights, std::uint32_t index) {
  const std::uint32_t layer = setup_.layers.begin + index;
  const Heads heads = heads_of(spec_, layer);
  const std::uint32_t head_dim = heads.head_dim;
  float* query = query_.data() + std::size_t{row} * heads.wide;
  float* key = key_.data() + std::size_t{row} * heads.narrow;
  float* value = value_.data() + std::size_t{row} * heads.narrow;
  if (spec_.family->attention_gate) {
    split_gates(gated_.data() + std::size_t{row} * 2 * heads.wide, spec_.heads, head_dim, query,
                attention_gate_.data() + std::size_t{row} * heads.wide);
  }
  if (!weights.query_bias.empty()) {
    // A rank has the biases of all heads.
    const std::size_t first =
        setup_.group != nullptr ? setup_.group->own().kv_heads.begin * head_dim : 0;
    const std::size_t group = heads.wide / heads.narrow;
    kernels_.add(query, weights.query_bias.data() + first * group, heads.wide);
    kernels_.add(key, weights.key_bias.data() + first, heads.narrow);
    kernels_.add(value, weights.value_bias.data() + first, heads.narrow);
  }
  const bool keeps = spec_.keeps_kv(layer);
  const bool plain = spec_.head_norms == model::HeadNorms::kPlain && spec_.is_turned(layer);
  if (plain || !weights.query_norm.empty()) {
    norm_heads(row, query, spec_.heads, head_dim, plain ? ones_ : weights.query_norm);
    if (keeps) norm_heads(row, key, heads.kv_heads, head_dim, plain ? ones_ : weights.key_norm);
  }
  if (keeps && spec_.family->value_norms) {
    norm_heads(row, value, heads.kv_heads, head_dim, ones_);
  }
  if (spec_.is_turned(layer)) {
    const Angles& angles = spec_.is_local(layer) ? local_angles_ : angles_;
    turn_heads(query, spec_.heads, head_dim, angles.of(row));
    if (keeps) turn_heads(key, heads.kv_heads, head_dim, angles.of(row));
  }
  if (!keeps) return;

  const Position position = rows_[row].position;
  INVARIANT(rows_[row].pages->size() > position / kernels::kPageTokens,
            "a row's sequence has the page of its position");
  const std::uint32_t page_index = (*rows_[row].pages)[position / kernels::kPageTokens];
  std::byte* page = setup_.cache.page(page_index, index);
  const std::uint32_t slot = position % kernels::kPageTokens;
  if (!kernels_.kv_write(spec_.kv_layout(layer), page, slot, key, value)) fail(row);
}

void Forward::attend(std::uint32_t row, std::uint32_t kv_head, std::uint32_t index,
                     Scratch& scratch) {
  const ForwardRow& r = rows_[row];
  const std::uint32_t layer = setup_.layers.begin + index;
  const std::uint32_t begin = spec_.first_visible(layer, r.position);
  const std::uint32_t source = spec_.kv_source(layer);
  INVARIANT(source >= setup_.layers.begin, "a stage has the keys and values that it reads");
  INVARIANT(begin <= r.position && r.position / kernels::kPageTokens < scratch.pages.size(),
            "a row sees its own position and lies in the context");
  for (std::uint32_t i = begin / kernels::kPageTokens; i <= r.position / kernels::kPageTokens;
       ++i) {
    scratch.pages[i] = setup_.cache.page((*r.pages)[i], source - setup_.layers.begin);
  }
  const Heads heads = heads_of(spec_, layer);
  const std::uint32_t group = spec_.heads / heads.kv_heads;
  const std::size_t at =
      std::size_t{row} * heads.wide + std::size_t{kv_head} * group * heads.head_dim;
  kernels::AttentionArgs args;
  args.layout = spec_.kv_layout(source);
  args.kv_head = kv_head;
  args.group = group;
  args.query = query_.data() + at;
  args.pages = scratch.pages.data();
  args.begin = begin;
  args.end = r.position + 1;
  if (const auto& sinks = setup_.weights.layers[index].sinks; !sinks.empty()) {
    args.sinks = sinks.data() + std::size_t{kv_head} * group;
  }
  args.score_scale = spec_.scores_grow(layer) ? score_scales_.data()[row] : score_scale_;
  args.score_cap = spec_.score_cap;
  args.scratch = scratch.attention.data();
  args.out = mixed_.data() + at;
  if (!kernels_.attention(args)) fail(row);
}

}  // namespace hearth::node
