#include "node/engine/latent_attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/latent.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kLatentProducts = 65'536;  // worth a claim: some microseconds

std::uint32_t row_width(const model::Latent& latent) { return latent.width + latent.turned; }
std::uint32_t widest_of_rows(const model::ModelSpec& spec) {
  return std::max(spec.latent->query_rank, spec.heads * spec.latent->value);
}
std::uint32_t widest_of_heads(const model::Latent& latent) {
  return std::max(latent.plain, latent.width);
}

std::uint64_t quant_bytes(std::uint64_t width) { return width + 3 * 4 * width / kernels::kBlock; }

void set_failed(std::atomic<bool>* failed, std::uint32_t row) {
  failed[row].store(true, std::memory_order_relaxed);
}

}  // namespace

LatentAttention::LatentAttention(const model::ModelSpec& spec,
                                 const std::vector<LayerWeights>& layers,
                                 const kernels::Kernels& kernels, const KvCache& cache,
                                 const Loops& loops, std::uint32_t batch_rows, unsigned threads)
    : spec_(spec),
      latent_(*spec.latent),
      layers_(layers),
      kernels_(kernels),
      cache_(cache),
      loops_(loops) {
  const std::size_t rows = batch_rows;
  const std::uint32_t heads = spec.heads;
  for (const LayerWeights& layer : layers) {
    Heads& own = heads_.emplace_back();
    for (std::uint32_t h = 0; h < heads; ++h) {
      own.keys.push_back(layer.latent_keys.part(h * latent_.width, (h + 1) * latent_.width));
      own.values.push_back(layer.latent_values.part(h * latent_.value, (h + 1) * latent_.value));
    }
  }
  query_down_ = AlignedBuffer<float>(rows * latent_.query_rank);
  query_ = AlignedBuffer<float>(rows * heads * spec.head_dim);
  rows_ = AlignedBuffer<float>(rows * row_width(latent_));
  inner_ = AlignedBuffer<float>(rows * heads * latent_.width);
  value_ = AlignedBuffer<float>(rows * heads * latent_.value);
  mixed_ = AlignedBuffer<float>(rows * heads * latent_.value);
  quant_ = QuantBuffer(batch_rows, widest_of_rows(spec));
  head_quant_ = QuantBuffer(batch_rows * heads, widest_of_heads(latent_));
  products_.reserve(heads);
  scratch_.resize(threads);
  for (Scratch& scratch : scratch_) {
    scratch.query = AlignedBuffer<float>(row_width(latent_));
    scratch.weights = AlignedBuffer<float>(spec.context);
    scratch.pages.resize(spec.context / kernels::kPageTokens + 1);
  }
}

std::uint64_t LatentAttention::row_bytes(const model::ModelSpec& spec) {
  const model::Latent& latent = *spec.latent;
  const std::uint64_t heads = spec.heads;
  const std::uint64_t values = latent.query_rank + row_width(latent) +
                               heads * (spec.head_dim + latent.width + 2 * latent.value);
  return 4 * values + quant_bytes(widest_of_rows(spec)) +
         heads * (4 + quant_bytes(widest_of_heads(latent)));
}

std::uint64_t LatentAttention::thread_bytes(const model::ModelSpec& spec) {
  return 4 * (std::uint64_t{spec.context} + row_width(*spec.latent));
}

void LatentAttention::multiply_heads(const std::vector<kernels::PackedMatrix>& matrices,
                                     std::uint32_t rows, std::uint32_t in, std::uint32_t out_width,
                                     float* out) {
  const auto all = head_quant_.view(rows * spec_.heads, in);
  products_.clear();
  for (std::uint32_t h = 0; h < spec_.heads; ++h) {
    products_.push_back(
        {&matrices[h], rows_from(all, h * rows, rows), out + std::size_t{h} * rows * out_width});
  }
  loops_.multiply(products_, std::max(1U, Loops::kLeastGroups / rows));
}

void LatentAttention::store(const Step& step, std::uint32_t row, std::uint32_t index) {
  const LayerWeights& weights = layers_[index];
  const kernels::RopeStyle style = spec_.family->rope;
  const float* cos_sin = step.cos_sin + std::size_t{row} * step.cos_sin_stride;
  float* latent = rows_.data() + std::size_t{row} * row_width(latent_);
  if (!kernels_.rms_norm(latent, weights.latent_norm.data(), spec_.rms_epsilon, latent_.width,
                         latent)) {
    set_failed(step.failed, row);
  }
  kernels_.rope(latent + latent_.width, 1, latent_.turned, style, cos_sin);
  const Position position = step.rows[row].position;
  const BlockTable& pages = *step.rows[row].pages;
  INVARIANT(pages.size() > position / kernels::kPageTokens,
            "a row's sequence has the page of its position");
  std::byte* page = cache_.page(pages[position / kernels::kPageTokens], index);
  if (!kernels::latent_write(spec_.kv_layout(0), page, position % kernels::kPageTokens, latent)) {
    set_failed(step.failed, row);
  }
  const auto rows = static_cast<std::uint32_t>(step.rows.size());
  const auto quant = head_quant_.view(rows * spec_.heads, latent_.plain);
  for (std::uint32_t h = 0; h < spec_.heads; ++h) {
    float* query = query_.data() + (std::size_t{row} * spec_.heads + h) * spec_.head_dim;
    kernels_.rope(query + latent_.plain, 1, latent_.turned, style, cos_sin);
    if (!kernels_.quantize(query, quant, h * rows + row)) set_failed(step.failed, row);
  }
}

void LatentAttention::project(const Step& step, std::uint32_t index) {
  const LayerWeights& weights = layers_[index];
  const auto rows = static_cast<std::uint32_t>(step.rows.size());
  const std::uint32_t rank = latent_.query_rank;
  if (rank == 0) {
    loops_.multiply(step.residual,
                    {{&weights.query, query_.data()}, {&weights.latent, rows_.data()}});
  } else {
    loops_.multiply(step.residual,
                    {{&weights.query_down, query_down_.data()}, {&weights.latent, rows_.data()}});
    const auto quant = quant_.view(rows, rank);
    loops_.for_rows(rows, rank, [&](std::uint32_t row) {
      const float* down = query_down_.data() + std::size_t{row} * rank;
      if (!kernels_.rms_norm_quantize(down, weights.query_down_norm.data(), spec_.rms_epsilon,
                                      quant, row, nullptr)) {
        set_failed(step.failed, row);
      }
    });
    loops_.multiply(quant, {{&weights.query, query_.data()}});
  }
  // A row of a prompt reads what those before it store, so all store first.
  loops_.for_rows(rows, spec_.heads * spec_.head_dim,
                  [&](std::uint32_t row) { store(step, row, index); });
}

void LatentAttention::attend(const Step& step, std::uint32_t row, std::uint32_t head,
                             std::uint32_t index, Scratch& scratch) {
  const ForwardRow& r = step.rows[row];
  INVARIANT(r.position / kernels::kPageTokens < scratch.pages.size(), "a row lies in the context");
  for (std::uint32_t i = 0; i <= r.position / kernels::kPageTokens; ++i) {
    scratch.pages[i] = cache_.page((*r.pages)[i], index);
  }
  const std::size_t at = std::size_t{head} * step.rows.size() + row;
  float* inner = inner_.data() + at * latent_.width;
  const float* query = query_.data() + (std::size_t{row} * spec_.heads + head) * spec_.head_dim;
  std::copy_n(inner, latent_.width, scratch.query.data());
  std::copy_n(query + latent_.plain, latent_.turned, scratch.query.data() + latent_.width);
  kernels::LatentArgs args;
  args.layout = spec_.kv_layout(0);
  args.query = scratch.query.data();
  args.pages = scratch.pages.data();
  args.end = r.position + 1;
  args.score_scale = step.score_scales[row];
  args.scratch = scratch.weights.data();
  args.out = inner;
  if (!kernels::latent_attention(args)) set_failed(step.failed, row);
}

void LatentAttention::compute(const Step& step, std::uint32_t index, float* delta) {
  const auto rows = static_cast<std::uint32_t>(step.rows.size());
  const std::uint32_t heads = spec_.heads;
  project(step, index);
  multiply_heads(heads_[index].keys, rows, latent_.plain, latent_.width, inner_.data());
  std::uint64_t products = 0;
  for (const ForwardRow& row : step.rows) products += row.position + 1;
  products *= std::uint64_t{heads} * (row_width(latent_) + latent_.width);
  const std::uint32_t items = rows * heads;
  const std::uint64_t least = kLatentProducts * items / products + 1;
  loops_.for_units(items, static_cast<std::uint32_t>(std::min<std::uint64_t>(items, least)),
                   [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
                     for (std::uint32_t i = begin; i < end; ++i) {
                       attend(step, i / heads, i % heads, index, scratch_[thread]);
                     }
                   });
  const auto inner = head_quant_.view(items, latent_.width);
  loops_.for_rows(items, latent_.width, [&](std::uint32_t i) {
    const float* x = inner_.data() + std::size_t{i} * latent_.width;
    if (!kernels_.quantize(x, inner, i)) set_failed(step.failed, i % rows);
  });
  multiply_heads(heads_[index].values, rows, latent_.width, latent_.value, value_.data());
  const std::uint32_t wide = heads * latent_.value;
  const auto out = quant_.view(rows, wide);
  loops_.for_rows(rows, wide, [&](std::uint32_t row) {
    float* mixed = mixed_.data() + std::size_t{row} * wide;
    for (std::uint32_t h = 0; h < heads; ++h) {
      const std::size_t at = std::size_t{h} * rows + row;
      std::copy_n(value_.data() + at * latent_.value, latent_.value, mixed + h * latent_.value);
    }
    if (!kernels_.quantize(mixed, out, row)) set_failed(step.failed, row);
  });
  loops_.multiply(out, {{&layers_[index].attention_output, delta}});
}

}  // namespace hearth::node
