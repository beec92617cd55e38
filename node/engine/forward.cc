#include "node/engine/forward.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "node/engine/device.h"
#include "node/engine/engine.h"
#include "node/engine/stage_memory.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kExponential = 8;  // what choosing costs an expert, in values of a row
constexpr std::uint32_t kSumColumns = 512;

void scale(float* x, std::uint32_t n, float factor) {
  for (std::uint32_t i = 0; i < n; ++i) x[i] *= factor;
}

// The residual of a row from its rounded form; both (rows, hidden).
void expand(const kernels::Kernels& kernels, const model::ModelSpec& spec, std::uint32_t row,
            const AlignedBuffer<std::uint16_t>& bits, const AlignedBuffer<float>& x) {
  const std::size_t at = std::size_t{row} * spec.hidden;
  kernels.residual_expand(bits.data() + at, x.data() + at, spec.hidden,
                          spec.family->residual_shift);
}

// The feed-forward's activation.
auto activation_of(const model::ModelSpec& spec) {
  switch (spec.family->activation) {
    case model::Activation::kGeluTanh: return &kernels::Kernels::geglu_quantize;
    case model::Activation::kClampedSilu: return &kernels::Kernels::clamped_swiglu_quantize;
    case model::Activation::kSilu: break;
  }
  return &kernels::Kernels::swiglu_quantize;
}

// Whether the shared expert has a weight of its own in each row.
bool is_gated(const model::ModelSpec& spec) {
  return spec.family->shared_expert == model::SharedExpert::kGated;
}

// Whether it is a feed-forward beside the experts, and no part of their sum.
bool is_beside(const model::ModelSpec& spec) {
  return spec.family->shared_expert == model::SharedExpert::kBeside;
}

}  // namespace

LayerInputs::LayerInputs(const model::ModelSpec& spec, const StageWeights& weights,
                         const kernels::Kernels& kernels, const Loops& loops, std::uint32_t rows,
                         Fail fail)
    : spec_(spec),
      weights_(weights),
      kernels_(kernels),
      loops_(loops),
      all_(std::size_t{spec.layers} * spec.layer_input),
      values_(rows * all_),
      table_(rows * all_),
      gate_(std::size_t{rows} * spec.layer_input),
      middle_(rows, spec.layer_input),
      fail_(std::move(fail)) {
  INVARIANT(weights.input_projection.rows() == all_ && weights.input_table.cols() == all_,
            "the stage begins with the embedding and has every layer");
}

std::uint64_t LayerInputs::row_bytes(const model::ModelSpec& spec) {
  const std::uint64_t width = spec.layer_input;
  return 4 * (2 * spec.layers * width + width) + width + 3 * 4 * width / kernels::kBlock;
}

void LayerInputs::make(std::span<const ForwardRow> rows, const float* x,
                       const kernels::QuantizedRows& scratch) {
  const auto count = static_cast<std::uint32_t>(rows.size());
  const auto all = static_cast<std::uint32_t>(all_);
  const std::uint32_t width = spec_.layer_input;
  const float of_projection = 1.0F / std::sqrt(static_cast<float>(spec_.hidden));
  const float of_table = std::sqrt(static_cast<float>(width));
  const float of_both = 1.0F / std::sqrt(2.0F);
  loops_.for_rows(count, spec_.hidden, [&](std::uint32_t row) {
    if (!kernels_.quantize(x + std::size_t{row} * spec_.hidden, scratch, row)) fail_(row);
  });
  loops_.multiply(scratch, {{&weights_.input_projection, values_.data()}});
  loops_.for_rows(count, all, [&](std::uint32_t row) {
    float* values = values_.data() + row * all_;
    float* table = table_.data() + row * all_;
    kernels_.dequantize_row(weights_.input_table, static_cast<std::uint32_t>(rows[row].token),
                            table);
    scale(table, all, of_table);
    scale(values, all, of_projection);
    for (std::size_t at = 0; at < all_; at += width) {
      float* own = values + at;
      if (!kernels_.rms_norm(own, weights_.input_norm.data(), spec_.rms_epsilon, width, own)) {
        fail_(row);
      }
    }
    kernels_.add(values, table, all);
    scale(values, all, of_both);
  });
}

void LayerInputs::compute(const LayerWeights& weights, std::uint32_t layer,
                          const kernels::QuantizedRows& residual, std::uint32_t rows,
                          float* delta) {
  const std::uint32_t width = spec_.layer_input;
  loops_.multiply(residual, {{&weights.input_gate, gate_.data()}});
  const auto middle = middle_.view(rows, width);
  loops_.for_rows(rows, width, [&](std::uint32_t row) {
    const float* gate = gate_.data() + std::size_t{row} * width;
    const float* input = values_.data() + row * all_ + std::size_t{layer} * width;
    if (!kernels_.geglu_quantize(gate, input, middle, row)) fail_(row);
  });
  loops_.multiply(middle, {{&weights.input_projection, delta}});
}

Forward::Mixture::Mixture(const model::ModelSpec& spec, const StageWeights& weights,
                          std::uint32_t rows)
    : groups(spec.experts, spec.experts_used, rows),
      logits(std::size_t{rows} * spec.experts),
      gathered(rows * spec.experts_used, spec.hidden),
      middle(rows * spec.experts_used, spec.feed_forward),
      out(std::size_t{rows} * spec.experts_used * spec.hidden) {
  experts.reserve(weights.layers.size());
  const float root = 1.0F / std::sqrt(static_cast<float>(spec.hidden));
  for (const LayerWeights& layer : weights.layers) {
    norms.push_back(layer.router_scale);
    scale(norms.back().data(), static_cast<std::uint32_t>(norms.back().size()), root);
    std::vector<Expert>& own = experts.emplace_back();
    if (layer.router.rows() == 0) continue;
    own.reserve(spec.experts);
    for (std::uint32_t i = 0; i < spec.experts; ++i) {
      const auto part = [](const kernels::PackedMatrix& whole, std::uint32_t at,
                           std::uint32_t each) {
        return each == 0 ? kernels::PackedMatrix() : whole.part(at * each, (at + 1) * each);
      };
      const std::uint32_t width = spec.feed_forward;
      const bool fused = spec.fused_experts;
      own.push_back({part(layer.gate, fused ? 2 * i : i, width),
                     fused ? part(layer.gate, 2 * i + 1, width) : part(layer.up, i, width),
                     part(layer.down, i, layer.down.rows() / spec.experts)});
    }
  }
  products.reserve(2 * std::size_t{spec.experts} + 1);
  const std::uint32_t shared = spec.shared_feed_forward;
  if (shared == 0) return;
  shared_logits = AlignedBuffer<float>(rows);
  shared_gate = AlignedBuffer<float>(std::size_t{rows} * shared);
  shared_up = AlignedBuffer<float>(std::size_t{rows} * shared);
  shared_middle = QuantBuffer(rows, shared);
  shared_out = AlignedBuffer<float>(std::size_t{rows} * spec.hidden);
}

RankParts::RankParts(const model::ModelSpec& whole, const model::ModelSpec& own,
                     const RankGroup* group, std::uint32_t rows, bool has_head,
                     const QuantBuffer& inputs, const AlignedBuffer<float>& delta,
                     RankRows::Failures failures)
    : own_(own), inputs_(inputs), delta_(delta), failures_(std::move(failures)) {
  if (group == nullptr) return;
  const std::uint32_t head_rows = has_head ? std::min(kHeadRows, rows) : 0;
  rows_ = std::make_unique<RankRows>(whole, *group, rows, head_rows);
  part_ = QuantBuffer(rows, std::max(own.widest_queries(), own.feed_forward));
  if (whole.experts > 0) pairs_ = QuantBuffer(rows * whole.experts_used, whole.feed_forward);
  own_delta_ = AlignedBuffer<float>(std::size_t{rows} * values().size());
  logits_ = AlignedBuffer<float>(std::size_t{head_rows} * tokens().size());
  tokens_.reserve(rows);
}

IndexRange RankParts::tokens() const {
  return grouped() ? rows_->own().vocabulary : IndexRange{0, own_.vocabulary};
}

IndexRange RankParts::values() const {
  return grouped() ? rows_->own().hidden : IndexRange{0, own_.hidden};
}

kernels::QuantizedRows RankParts::part(std::uint32_t rows, std::uint32_t width) const {
  return (grouped() ? part_ : inputs_).view(rows, width);
}

Result<kernels::QuantizedRows> RankParts::join(const kernels::QuantizedRows& part, Ranges ranges) {
  if (!grouped()) return part;
  const RankRows::Ranges& all = (*rows_.*ranges)();
  const auto whole = inputs_.view(part.rows, RankRows::width_of(all));
  TRY_VOID(rows_->join(all, part, whole, failures_));
  return whole;
}

Result<kernels::QuantizedRows> RankParts::join_pairs(const kernels::QuantizedRows& part,
                                                     const RankRows::Failures& failures) {
  if (!grouped()) return part;
  const auto whole = pairs_.view(part.rows, RankRows::width_of(rows_->columns()));
  TRY_VOID(rows_->join(rows_->columns(), part, whole, failures));
  return whole;
}

bool RankParts::divides_attention_output() const {
  return grouped() && !rows_->own().whole_attention_output;
}

Status RankParts::join_delta(std::uint32_t rows) {
  if (!grouped()) return ok_status();
  return rows_->join_values(rows, own_delta_.data(), delta_.data(), failures_);
}

Status RankParts::join_embeddings(std::span<const ForwardRow> rows, std::uint16_t* bits) {
  INVARIANT(grouped(), "a stage without a group has every token");
  tokens_.clear();
  for (const ForwardRow& row : rows) tokens_.push_back(static_cast<std::uint32_t>(row.token));
  return rows_->join_embeddings(tokens_, bits, failures_);
}

Status RankParts::join_residuals(std::uint32_t rows, std::uint16_t* bits) {
  INVARIANT(grouped(), "a stage without a group has every value");
  return rows_->join_residuals(rows, bits, failures_);
}

Status RankParts::gather_logits(std::uint32_t rows, float* all) {
  return grouped() ? rows_->gather_logits(rows, logits_.data(), all) : ok_status();
}

Forward::Forward(Setup setup)
    : setup_(std::move(setup)),
      spec_(setup_.spec),
      kernels_(*setup_.kernels),
      pool_(*setup_.pool),
      loops_(kernels_, pool_),
      embedding_scale_(spec_.embedding_scale()),
      score_scale_(spec_.plain_score_scale()),
      activate_(activation_of(spec_)) {
  INVARIANT(setup_.batch_rows != 0 && setup_.layers.size() == setup_.weights.layers.size(),
            "a stage has the weights of its layers");
  INVARIANT(setup_.layers.size() != 0 && setup_.layers.end <= spec_.layers,
            "a stage's layers are the model's");
  INVARIANT(spec_.kv_heads == 0 ? setup_.group != nullptr && spec_.heads == 0
                                : spec_.heads % spec_.kv_heads == 0,
            "as many query heads share each KV head");
  const std::size_t rows = setup_.batch_rows;
  const model::ModelSpec& whole = setup_.whole != nullptr ? *setup_.whole : spec_;
  const std::uint32_t widest =
      std::max({whole.hidden, whole.widest_queries(), whole.widest_feed_forward()});
  bits_ = AlignedBuffer<std::uint16_t>(rows * spec_.hidden);
  x_ = AlignedBuffer<float>(rows * spec_.hidden);
  score_scales_ = AlignedBuffer<float>(rows);
  angles_ = {spec_.rope_frequencies(), spec_.rope_magnitude, spec_.head_dim,
             AlignedBuffer<float>(rows * spec_.head_dim)};
  bool local = false;
  for (std::uint32_t i = setup_.layers.begin; i < setup_.layers.end; ++i) {
    local |= spec_.is_local(i);
  }
  if (local) {
    const std::uint32_t width = spec_.local_head_dim > 0 ? spec_.local_head_dim : spec_.head_dim;
    local_angles_ = {spec_.local_rope_frequencies(), spec_.local_rope_magnitude(), width,
                     AlignedBuffer<float>(rows * width)};
  }
  if (spec_.latent) {
    latent_ =
        std::make_unique<LatentAttention>(spec_, setup_.weights.layers, kernels_, setup_.cache,
                                          loops_, setup_.batch_rows, pool_.threads());
  } else {
    take_attention();
  }
  if (spec_.layer_input != 0) {
    inputs_ =
        std::make_unique<LayerInputs>(spec_, setup_.weights, kernels_, loops_, setup_.batch_rows,
                                      [this](std::uint32_t row) { fail(row); });
  }
  if (DeltaNet::state_bytes(spec_, setup_.layers) != 0) {
    delta_net_ = std::make_unique<DeltaNet>(spec_, setup_.layers, setup_.weights.layers, kernels_,
                                            loops_, setup_.batch_rows, setup_.states);
  }
  take_feed_forward();
  delta_ = AlignedBuffer<float>(rows * spec_.hidden);
  quant_ = QuantBuffer(setup_.batch_rows, widest);
  const bool has_head = setup_.layers.end == spec_.layers;
  parts_ = std::make_unique<RankParts>(
      whole, spec_, setup_.group, setup_.batch_rows, has_head, quant_, delta_,
      RankRows::Failures{[this](std::uint32_t row) { return failed(row); },
                         [this](std::uint32_t row) { fail(row); }});
  failed_ = std::make_unique<std::atomic<bool>[]>(rows);
  sampled_.reserve(rows);
  if (has_head && parts_->leads()) {
    const std::size_t held = std::min<std::size_t>(kHeadRows, rows);
    logits_ = AlignedBuffer<float>(held * spec_.vocabulary);
  }
  digests_ = setup_.weights.digests(pool_);
}

void Forward::take_feed_forward() {
  const std::size_t computed = std::size_t{setup_.batch_rows} * spec_.feed_forward_values();
  gate_ = AlignedBuffer<float>(computed);
  up_ = AlignedBuffer<float>(computed);
  if (spec_.experts != 0) {
    mixture_ = std::make_unique<Mixture>(spec_, setup_.weights, setup_.batch_rows);
  }
}

void Forward::take_attention() {
  const std::size_t rows = setup_.batch_rows;
  const std::size_t wide = rows * spec_.widest_queries();
  const std::size_t narrow = rows * spec_.widest_keys();
  if (spec_.family->attention_gate) {
    gated_ = AlignedBuffer<float>(2 * wide);
    attention_gate_ = AlignedBuffer<float>(wide);
  }
  if (spec_.heads == 0) return;
  query_ = AlignedBuffer<float>(wide);
  key_ = AlignedBuffer<float>(narrow);
  value_ = AlignedBuffer<float>(narrow);
  mixed_ = AlignedBuffer<float>(wide);
  if (spec_.family->value_norms || spec_.head_norms == model::HeadNorms::kPlain) {
    ones_.assign(std::max(spec_.head_dim, spec_.local_head_dim), 1.0F);
  }
  scratch_.resize(pool_.threads());
  const std::uint32_t group = spec_.largest_group();
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
  const std::vector<float>& first_norm = setup_.weights.layers[0].attention_norm;
  const bool apart = inputs_ != nullptr || parts_->grouped();
  loops_.for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    enter(row);
    if (!apart) norm(row, first_norm, in, row);
  });
  if (inputs_ != nullptr) inputs_->make(rows_, x_.data(), in);
  if (parts_->grouped() && setup_.layers.begin == 0) {
    TRY_VOID(parts_->join_embeddings(rows_, bits_.data()));
    loops_.for_rows(rows(), spec_.hidden,
                    [&](std::uint32_t row) { expand(kernels_, spec_, row, bits_, x_); });
  }
  if (apart) {
    loops_.for_rows(rows(), spec_.hidden,
                    [&](std::uint32_t row) { norm(row, first_norm, in, row); });
  }
  for (std::uint32_t i = 0; i < setup_.layers.size(); ++i) TRY_VOID(layer(i));
  if (setup_.layers.end < spec_.layers || sampled_.empty()) return ok_status();
  return head(outputs.on_logits);
}

// The residual of a row, from the embedding or from the previous stage.
void Forward::enter(std::uint32_t row) {
  const std::uint32_t hidden = spec_.hidden;
  const int shift = spec_.family->residual_shift;
  float* x = x_.data() + std::size_t{row} * hidden;
  std::uint16_t* bits = bits_.data() + std::size_t{row} * hidden;
  if (setup_.layers.begin == 0) {
    const auto token = static_cast<std::uint32_t>(rows_[row].token);
    const IndexRange held = parts_->tokens();
    if (held.holds(token)) {
      kernels_.dequantize_row(setup_.weights.embedding, token - held.begin, x);
      if (embedding_scale_ != 1.0F) scale(x, hidden, embedding_scale_);
      if (!kernels_.residual_round(x, bits, hidden, shift)) fail(row);
    }
  } else {
    expand(kernels_, spec_, row, bits_, x_);
  }
  score_scales_.data()[row] = spec_.score_scale(rows_[row].position);
  for (Angles* angles : {&angles_, &local_angles_}) {
    if (angles->frequencies.empty()) continue;
    kernels::rope_table_row(rows_[row].position, angles->frequencies, angles->magnitude,
                            angles->cos_sin.data() + std::size_t{row} * angles->width);
  }
}

void Forward::norm(std::uint32_t row, const std::vector<float>& weight,
                   const kernels::QuantizedRows& out, std::uint32_t t) {
  const float* x = x_.data() + std::size_t{row} * spec_.hidden;
  if (weight.empty()) {
    if (!kernels_.quantize(x, out, t)) fail(row);
    return;
  }
  if (!kernels_.rms_norm_quantize(x, weight.data(), spec_.rms_epsilon, out, t, nullptr)) fail(row);
}

void Forward::add_delta(std::uint32_t row, float* deltas, const IndexRange& values,
                        const std::vector<float>& post_norm) {
  const std::uint32_t n = values.size();
  float* delta = deltas + std::size_t{row} * n;
  if (!post_norm.empty() &&
      !kernels_.rms_norm(delta, post_norm.data(), spec_.rms_epsilon, n, delta)) {
    fail(row);
  }
  if (spec_.branch_factor != 1.0F) scale(delta, n, spec_.branch_factor);
  kernels_.add(x_.data() + std::size_t{row} * spec_.hidden + values.begin, delta, n);
}

void Forward::close_layer(std::uint32_t row, const IndexRange& values) {
  const std::size_t at = std::size_t{row} * spec_.hidden + values.begin;
  const int shift = spec_.family->residual_shift;
  if (!kernels_.residual_round(x_.data() + at, bits_.data() + at, values.size(), shift)) fail(row);
}

// Begins with the normed and quantised residual in quant_, and leaves it there for the next layer.
Status Forward::layer(std::uint32_t index) {
  const LayerWeights& weights = setup_.weights.layers[index];
  const auto in = quant_.view(rows(), spec_.hidden);
  const IndexRange whole{0, spec_.hidden};
  TRY_VOID(mix_positions(weights, index));
  if (parts_->divides_attention_output()) TRY_VOID(parts_->join_delta(rows()));
  loops_.for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    float* delta = delta_.data() + std::size_t{row} * spec_.hidden;
    add_bias(delta, weights.attention_output_bias, 0, spec_.hidden);
    add_delta(row, delta_.data(), whole, weights.post_attention_norm);
    norm(row, weights.feed_forward_norm, in, row);
  });
  const std::vector<float>& output_scale = weights.output_scale;
  if (spec_.has_experts(setup_.layers.begin + index)) {
    TRY_VOID(is_beside(spec_) ? mix_beside(weights, index) : mix_experts(weights, index));
  } else {
    TRY_VOID(feed_forward(weights, spec_.feed_forward_of(setup_.layers.begin + index)));
  }
  // A norm needs the whole addition. Without a norm ranks send rounded residuals: half of the
  // bytes.
  const bool shared = parts_->grouped() && weights.post_feed_forward_norm.empty();
  if (!shared) TRY_VOID(parts_->join_delta(rows()));
  if (inputs_ != nullptr) {
    loops_.for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
      add_delta(row, delta_.data(), whole, weights.post_feed_forward_norm);
      norm(row, {}, in, row);
    });
    inputs_->compute(weights, index, in, rows(), delta_.data());
  }
  const bool last = index + 1 == setup_.layers.size();
  const auto leave = [&](std::uint32_t row) {
    if (!last) norm(row, setup_.weights.layers[index + 1].attention_norm, in, row);
  };
  loops_.for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    const IndexRange values = shared ? parts_->values() : whole;
    add_delta(row, shared ? parts_->delta() : delta_.data(), values,
              inputs_ != nullptr ? weights.post_input_norm : weights.post_feed_forward_norm);
    if (!output_scale.empty()) {
      scale(x_.data() + std::size_t{row} * spec_.hidden, spec_.hidden, output_scale.front());
    }
    close_layer(row, values);
    if (!shared) leave(row);
  });
  if (!shared) return ok_status();
  TRY_VOID(parts_->join_residuals(rows(), bits_.data()));
  loops_.for_rows(rows(), spec_.hidden, [&](std::uint32_t row) {
    expand(kernels_, spec_, row, bits_, x_);
    leave(row);
  });
  return ok_status();
}

Status Forward::feed_forward(const LayerWeights& weights, std::uint32_t width) {
  const auto part = parts_->part(rows(), width);
  if (width != 0) {
    loops_.multiply(quant_.view(rows(), spec_.hidden),
                    {{&weights.gate, gate_.data()}, {&weights.up, up_.data()}});
    loops_.for_rows(rows(), width, [&](std::uint32_t row) {
      const std::size_t at = std::size_t{row} * width;
      if (!(kernels_.*activate_)(gate_.data() + at, up_.data() + at, part, row)) fail(row);
    });
  }
  TRY(const auto middle, parts_->join(part, &RankRows::columns));
  loops_.multiply(middle, {{&weights.down, parts_->delta()}});
  return ok_status();
}

Status Forward::mix_experts(const LayerWeights& weights, std::uint32_t index) {
  Mixture& mix = *mixture_;
  const auto in = quant_.view(rows(), spec_.hidden);
  if (spec_.shared_feed_forward == 0) {
    loops_.multiply(in, {{&weights.router, mix.logits.data()}});
  } else if (!is_gated(spec_)) {
    loops_.multiply(in, {{&weights.router, mix.logits.data()},
                         {&weights.shared_gate, mix.shared_gate.data()},
                         {&weights.shared_up, mix.shared_up.data()}});
  } else {
    loops_.multiply(in, {{&weights.router, mix.logits.data()},
                         {&weights.shared_router, mix.shared_logits.data()},
                         {&weights.shared_gate, mix.shared_gate.data()},
                         {&weights.shared_up, mix.shared_up.data()}});
  }
  loops_.for_rows(rows(), spec_.experts * kExponential,
                  [&](std::uint32_t row) { choose_experts(weights, row); });
  mix.groups.group(rows());
  TRY_VOID(compute_experts(weights, index));
  if (spec_.shared_feed_forward != 0) compute_shared_expert(weights);
  add_all_experts(weights);
  return ok_status();
}

Status Forward::mix_beside(const LayerWeights& weights, std::uint32_t index) {
  Mixture& mix = *mixture_;
  const std::uint32_t hidden = spec_.hidden;
  const auto in = quant_.view(rows(), hidden);
  loops_.multiply(in, {{&weights.shared_gate, mix.shared_gate.data()},
                       {&weights.shared_up, mix.shared_up.data()}});
  compute_shared_expert(weights);
  loops_.for_rows(rows(), hidden, [&](std::uint32_t row) { norm(row, mix.norms[index], in, row); });
  loops_.multiply(in, {{&weights.router, mix.logits.data()}});
  loops_.for_rows(rows(), spec_.experts * kExponential,
                  [&](std::uint32_t row) { choose_experts(weights, row); });
  mix.groups.group(rows());
  loops_.for_rows(rows(), hidden,
                  [&](std::uint32_t row) { norm(row, weights.experts_norm, in, row); });
  TRY_VOID(compute_experts(weights, index));
  add_all_experts(weights);
  loops_.for_rows(rows(), hidden, [&](std::uint32_t row) {
    float* delta = delta_.data() + std::size_t{row} * hidden;
    float* beside = mix.shared_out.data() + std::size_t{row} * hidden;
    const auto norm_plain = [&](float* x, const std::vector<float>& weight) {
      if (!kernels_.rms_norm(x, weight.data(), spec_.rms_epsilon, hidden, x)) fail(row);
    };
    norm_plain(delta, weights.post_experts_norm);
    norm_plain(beside, weights.post_shared_norm);
    kernels_.add(delta, beside, hidden);
  });
  return ok_status();
}

void Forward::add_all_experts(const LayerWeights& weights) {
  const std::uint32_t values = parts_->values().size();
  const std::uint32_t tiles = (values + kSumColumns - 1) / kSumColumns;
  const std::uint32_t least = std::max(1U, Loops::kRowValues / (kSumColumns * spec_.experts_used));
  const auto add = [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t from = i % tiles * kSumColumns;
      add_experts(weights, i / tiles, from, std::min(values, from + kSumColumns));
    }
  };
  loops_.for_units(rows() * tiles, least, add);
}

void Forward::choose_experts(const LayerWeights& weights, std::uint32_t row) {
  Mixture& mix = *mixture_;
  float* logits = mix.logits.data() + std::size_t{row} * spec_.experts;
  add_bias(logits, weights.router_bias, 0, spec_.experts);
  if (!kernels::choose_experts({logits, spec_.experts}, weights.selection_bias, spec_.routing,
                               mix.groups.used(row), mix.groups.weights(row))) {
    fail(row);
  }
  if (weights.expert_scales.empty()) return;
  for (std::size_t i = 0; i < spec_.experts_used; ++i) {
    mix.groups.weights(row)[i] *= weights.expert_scales[mix.groups.used(row)[i]];
  }
}

// A single row is the same for all of its experts; several are gathered, those of an expert one
// after the other.
Status Forward::compute_experts(const LayerWeights& weights, std::uint32_t index) {
  Mixture& mix = *mixture_;
  const std::vector<Expert>& experts = mix.experts[index];
  const std::uint32_t pairs = rows() * spec_.experts_used;
  const std::uint32_t width = spec_.feed_forward;
  const auto in = quant_.view(rows(), spec_.hidden);
  const auto gathered = mix.gathered.view(pairs, spec_.hidden);
  const bool one = rows() == 1;
  if (!one) {
    loops_.for_rows(pairs, spec_.hidden, [&](std::uint32_t pair) {
      copy_row(in, mix.groups.row_of(pair), gathered, pair);
    });
  }
  const auto used = static_cast<std::uint32_t>(mix.groups.groups().size());
  const std::uint32_t least = std::max(1U, Loops::kLeastGroups * used / pairs);
  mix.products.clear();
  for (const auto& [expert, first, count] : mix.groups.groups()) {
    const auto x = one ? in : rows_from(gathered, first, count);
    const std::size_t at = std::size_t{first} * width;
    mix.products.push_back({&experts[expert].gate, x, gate_.data() + at});
    mix.products.push_back({&experts[expert].up, x, up_.data() + at});
  }
  loops_.multiply(mix.products, least);
  const auto part = mix.middle.view(pairs, width);
  const auto activate = [&](std::uint32_t pair) {
    float* gate = gate_.data() + std::size_t{pair} * width;
    float* up = up_.data() + std::size_t{pair} * width;
    const std::uint32_t expert = mix.groups.expert_of(pair);
    if (spec_.family->scaled_inputs) {
      // The products of an input that is scaled are those of the input, scaled.
      scale(gate, width, mix.groups.weight_of(pair));
      scale(up, width, mix.groups.weight_of(pair));
    }
    add_bias(gate, weights.gate_bias, expert, width);
    add_bias(up, weights.up_bias, expert, width);
    if (!(kernels_.*activate_)(gate, up, part, pair)) fail(mix.groups.row_of(pair));
  };
  if (width != 0) loops_.for_rows(pairs, width, activate);
  TRY(const auto middle,
      parts_->join_pairs(part, {[&](std::uint32_t pair) { return failed(mix.groups.row_of(pair)); },
                                [&](std::uint32_t pair) { fail(mix.groups.row_of(pair)); }}));
  mix.products.clear();
  for (const auto& [expert, first, count] : mix.groups.groups()) {
    mix.products.push_back({&experts[expert].down, rows_from(middle, first, count),
                            mix.out.data() + std::size_t{first} * parts_->values().size()});
  }
  loops_.multiply(mix.products, least);
  return ok_status();
}

void Forward::compute_shared_expert(const LayerWeights& weights) {
  Mixture& mix = *mixture_;
  const std::uint32_t width = spec_.shared_feed_forward;
  const auto middle = mix.shared_middle.view(rows(), width);
  loops_.for_rows(rows(), width, [&](std::uint32_t row) {
    const std::size_t at = std::size_t{row} * width;
    const float* gate = mix.shared_gate.data() + at;
    if (!(kernels_.*activate_)(gate, mix.shared_up.data() + at, middle, row)) fail(row);
    if (is_gated(spec_) && !std::isfinite(mix.shared_logits.data()[row])) fail(row);
  });
  loops_.multiply(middle, {{&weights.shared_down, mix.shared_out.data()}});
}

void Forward::add_experts(const LayerWeights& weights, std::uint32_t row, std::uint32_t begin,
                          std::uint32_t end) {
  Mixture& mix = *mixture_;
  std::array<kernels::ExpertOutput, kernels::kExpertsUsedMax + 1> outputs;
  std::size_t count = 0;
  for (const float weight : mix.groups.weights(row)) {
    const std::size_t pair = mix.groups.pair_of(row, static_cast<std::uint32_t>(count));
    float* values = mix.out.data() + pair * parts_->values().size() + begin;
    if (!weights.down_bias.empty()) {
      const std::size_t expert = mix.groups.expert_of(static_cast<std::uint32_t>(pair));
      const float* bias = weights.down_bias.data() + expert * spec_.hidden + begin;
      kernels_.add(values, bias, end - begin);
    }
    outputs[count++] = {values, spec_.family->scaled_inputs ? 1.0F : weight};
  }
  const std::size_t at = std::size_t{row} * parts_->values().size() + begin;
  if (spec_.shared_feed_forward != 0 && !is_beside(spec_)) {
    const float weight =
        is_gated(spec_) ? kernels::shared_expert_weight(mix.shared_logits.data()[row]) : 1.0F;
    outputs[count++] = {mix.shared_out.data() + at, weight};
  }
  std::array<double, kSumColumns> sums{};
  if (!kernels::add_experts({outputs.data(), count}, end - begin, sums.data())) fail(row);
  kernels::expert_outputs(sums.data(), end - begin, parts_->delta() + at);
}

// Logits of the sampled rows, some at a time, and the sampler over each.
Status Forward::head(const OnLogits& on_logits) {
  const auto count = static_cast<std::uint32_t>(sampled_.size());
  for (std::uint32_t tile = 0; tile < count; tile += kHeadRows) {
    const std::uint32_t size = std::min(kHeadRows, count - tile);
    const auto in = quant_.view(size, spec_.hidden);
    loops_.for_rows(size, spec_.hidden, [&](std::uint32_t s) {
      norm(sampled_[tile + s], setup_.weights.output_norm, in, s);
    });
    loops_.multiply(in, {{&setup_.weights.output(), parts_->logits(logits_)}});
    TRY_VOID(parts_->gather_logits(size, logits_.data()));
    if (!parts_->leads()) continue;
    pool_.parallel_for(size, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
      for (std::uint32_t s = begin; s < end; ++s) {
        float* logits = logits_.data() + std::size_t{s} * spec_.vocabulary;
        if (spec_.logit_factor != 1.0F) scale(logits, spec_.vocabulary, spec_.logit_factor);
        if (spec_.logit_cap > 0.0F) kernels_.softcap(logits, spec_.vocabulary, spec_.logit_cap);
        on_logits(sampled_[tile + s], thread, {logits, spec_.vocabulary});
      }
    });
  }
  return ok_status();
}

Result<std::unique_ptr<StageForward>> load_forward(const model::GgufFile& file,
                                                   const model::ModelSpec& spec,
                                                   const model::ModelSpec& own,
                                                   const EngineOptions& options) {
  if (options.device != nullptr) return options.device->load(file, spec, options);
  TRY(const StageMemory memory, stage_memory(file, spec, options));
  const std::uint64_t budget = memory_budget(options.memory_bytes);
  TRY_VOID(check_memory({memory}, budget));
  const KvShare share = kv_within(memory, budget - kProcessBytes);
  INVARIANT(options.group == nullptr || share.pages == memory.pages,
            "the least of a rank is all pages of its group");
  TRY(KvCache cache,
      KvCache::create(own.kv_layouts(options.layers), share.page_bytes(memory), memory.pages));
  TRY(auto pool, kernels::ThreadPool::create(options.threads, options.pin));
  TRY(StageWeights weights,
      StageWeights::load(file, spec, options.layers, pool.get(), options.cancelled,
                         options.group != nullptr ? &options.group->own() : nullptr));
  return std::unique_ptr<StageForward>(std::make_unique<Forward>(
      Forward::Setup{own, std::move(weights), options.kernels, std::move(cache), std::move(pool),
                     options.layers, options.batch_rows, share.states, options.group, &spec}));
}

}  // namespace hearth::node
