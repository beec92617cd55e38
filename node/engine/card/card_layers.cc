// The layers of a step, as kernels on the compute stream; the order is that of Forward.
#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/step.h"
#include "node/engine/card/card_forward.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

kernels::QuantizedRows CardForward::quant(std::uint32_t rows, std::uint32_t cols) const {
  kernels::QuantizedRows out = buffers_.quant;
  out.rows = rows;
  out.cols = cols;
  return out;
}

Status CardForward::all_layers(const Reach& reach) {
  TRY_VOID(cuda::fill_zero(buffers_.failed, rows() * sizeof(std::uint32_t), compute()));
  TRY_VOID(enter());
  TRY_VOID(norm(buffers_.x, weights_.layers[0].attention_norm, rows(), buffers_.failed));
  for (std::uint32_t i = 0; i < setup_.layers.size(); ++i) TRY_VOID(layer(i, reach));
  return ok_status();
}

// Tables of the step's pages, and the residual from the embedding or from the previous stage.
Status CardForward::enter() {
  const StepWords words = card_words();
  cuda::PageTables tables;
  tables.memory = kv_;
  tables.layer_bytes = kv_layer_bytes_;
  tables.layers = setup_.layers.size();
  tables.entries_most = setup_.kv_pages;
  tables.entries = words.entries;
  tables.pages = words.pages;
  tables.tokens = rows();
  tables.tokens_most = setup_.batch_rows;
  tables.first = words.first;
  tables.own = words.own;
  tables.tables = buffers_.tables;
  tables.token_tables = buffers_.token_tables;
  tables.token_pages = buffers_.token_pages;
  TRY_VOID(cuda::page_tables(tables, compute()));
  const std::uint32_t hidden = spec_.hidden;
  const int shift = spec_.family->residual_shift;
  if (!shape_.is_first()) {
    return cuda::residual_expand(buffers_.bits, buffers_.x, rows(), hidden, shift, compute());
  }
  TRY_VOID(cuda::dequantize_rows(weights_.embedding, words.tokens, rows(), buffers_.x, compute()));
  if (spec_.family->scale_embeddings) {
    TRY_VOID(cuda::scale_rows(buffers_.x, spec_.embedding_scale(), rows(), hidden, compute()));
  }
  return cuda::residual_round(buffers_.x, buffers_.bits, rows(), hidden, shift, buffers_.failed,
                              compute());
}

Status CardForward::norm(const float* x, const CardVector& weight, std::uint32_t rows,
                         std::uint32_t* failed) {
  return cuda::rms_norm_quantize(x, weight.data, spec_.rms_epsilon, quant(rows, spec_.hidden),
                                 nullptr, failed, compute());
}

Status CardForward::multiply(const cuda::CardMatrix& w, std::uint32_t rows, float* out) {
  return cuda::product(w, quant(rows, w.cols), out, w.rows, buffers_.product, compute());
}

// Begins with the normed and quantised residual, and leaves it there for the next layer.
Status CardForward::layer(std::uint32_t index, const Reach& reach) {
  const auto& weights = weights_.layers[index];
  TRY_VOID(attention(index, reach));
  TRY_VOID(add_delta(weights.post_attention_norm));
  TRY_VOID(norm(buffers_.x, weights.feed_forward_norm, rows(), buffers_.failed));
  TRY_VOID(feed_forward(index));
  TRY_VOID(add_delta(weights.post_feed_forward_norm));
  TRY_VOID(cuda::residual_round(buffers_.x, buffers_.bits, rows(), spec_.hidden,
                                spec_.family->residual_shift, buffers_.failed, compute()));
  if (index + 1 == setup_.layers.size()) return ok_status();
  return norm(buffers_.x, weights_.layers[index + 1].attention_norm, rows(), buffers_.failed);
}

// Biases, norms and angles of the heads, and keys and values into the cache.
Status CardForward::store_heads(std::uint32_t index) {
  const auto& weights = weights_.layers[index];
  const std::uint32_t narrow = shape_.narrow();
  if (!weights.query_bias.empty()) {
    TRY_VOID(
        cuda::add_bias(buffers_.query, weights.query_bias.data, rows(), shape_.wide(), compute()));
    TRY_VOID(cuda::add_bias(buffers_.key, weights.key_bias.data, rows(), narrow, compute()));
    TRY_VOID(cuda::add_bias(buffers_.value, weights.value_bias.data, rows(), narrow, compute()));
  }
  if (!weights.query_norm.empty()) {
    TRY_VOID(cuda::rms_norm(buffers_.query, weights.query_norm.data, spec_.rms_epsilon,
                            rows() * spec_.heads, spec_.head_dim, spec_.heads, buffers_.query,
                            buffers_.failed, compute()));
    TRY_VOID(cuda::rms_norm(buffers_.key, weights.key_norm.data, spec_.rms_epsilon,
                            rows() * spec_.kv_heads, spec_.head_dim, spec_.kv_heads, buffers_.key,
                            buffers_.failed, compute()));
  }
  cuda::RopeAndStore args;
  args.tokens = rows();
  args.heads = spec_.heads;
  args.layout = spec_.kv_layout();
  args.style = spec_.family->rope;
  args.query = buffers_.query;
  args.key = buffers_.key;
  args.value = buffers_.value;
  const bool local = spec_.is_local(setup_.layers.begin + index);
  args.cos_sin = local ? buffers_.local_angles : buffers_.angles;
  args.pages = buffers_.token_pages + std::size_t{index} * setup_.batch_rows;
  args.slots = card_words().slots;
  return cuda::rope_and_store(args, buffers_.failed, compute());
}

// As many rows at a time as the scores have room for.
Status CardForward::attend(std::uint32_t index, const Reach& reach) {
  const bool local = spec_.is_local(setup_.layers.begin + index);
  const StepWords words = card_words();
  cuda::AttentionRows args;
  args.heads = spec_.heads;
  args.layout = spec_.kv_layout();
  args.pages_most = local ? reach.local : reach.all;
  args.score_scale = spec_.score_scale();
  const std::size_t of_row = cuda::attention_scores(1, spec_.heads, args.pages_most);
  const auto most =
      static_cast<std::uint32_t>(std::min<std::size_t>(rows(), buffers_.score_floats / of_row));
  for (std::uint32_t t = 0; t < rows(); t += most) {
    const std::size_t at = std::size_t{t} * shape_.wide();
    args.tokens = std::min(most, rows() - t);
    args.query = buffers_.query + at;
    args.out = buffers_.mixed + at;
    args.pages = buffers_.token_tables + std::size_t{index} * setup_.batch_rows + t;
    args.begins = (local ? words.local_begins : words.begins) + t;
    args.ends = words.ends + t;
    TRY_VOID(cuda::attention(args, buffers_.attention, buffers_.failed + t, compute()));
  }
  return ok_status();
}

Status CardForward::attention(std::uint32_t index, const Reach& reach) {
  const auto& weights = weights_.layers[index];
  TRY_VOID(multiply(weights.query, rows(), buffers_.query));
  TRY_VOID(multiply(weights.key, rows(), buffers_.key));
  TRY_VOID(multiply(weights.value, rows(), buffers_.value));
  TRY_VOID(store_heads(index));
  TRY_VOID(attend(index, reach));
  TRY_VOID(
      cuda::quantize(buffers_.mixed, quant(rows(), shape_.wide()), buffers_.failed, compute()));
  return multiply(weights.attention_output, rows(), buffers_.delta);
}

Status CardForward::feed_forward(std::uint32_t index) {
  const auto& weights = weights_.layers[index];
  TRY_VOID(multiply(weights.gate, rows(), buffers_.gate));
  TRY_VOID(multiply(weights.up, rows(), buffers_.up));
  const auto activate = spec_.family->activation == model::Activation::kSilu
                            ? &cuda::swiglu_quantize
                            : &cuda::geglu_quantize;
  TRY_VOID(activate(buffers_.gate, buffers_.up, quant(rows(), spec_.feed_forward), buffers_.failed,
                    compute()));
  return multiply(weights.down, rows(), buffers_.delta);
}

// Adds the delta, normed where the family has a norm for it, to the residual.
Status CardForward::add_delta(const CardVector& post_norm) {
  if (!post_norm.empty()) {
    TRY_VOID(cuda::rms_norm(buffers_.delta, post_norm.data, spec_.rms_epsilon, rows(), spec_.hidden,
                            1, buffers_.delta, buffers_.failed, compute()));
  }
  return cuda::add(buffers_.x, buffers_.delta, rows(), spec_.hidden, compute());
}

// Logits of the sampled rows, some at a time, to the host, which samples. While it does, the next
// ones are computed; each half of the buffers waits for what still reads it.
Status CardForward::head(const OnLogits& on_logits) {
  const auto count = static_cast<std::uint32_t>(sampled_.size());
  const std::uint32_t most = shape_.head_rows();
  TRY_VOID(cuda::fill_zero(buffers_.head_failed, count * sizeof(std::uint32_t), compute()));
  std::uint32_t n = 0;
  for (std::uint32_t tile = 0; tile < count; tile += most, ++n) {
    TRY_VOID(compute_logits(tile, std::min(most, count - tile), n % 2));
    if (n > 0) TRY_VOID(hand_on(tile - most, most, (n - 1) % 2, on_logits));
  }
  const std::uint32_t last = (count - 1) / most * most;
  return hand_on(last, count - last, (n - 1) % 2, on_logits);
}

// A sampler on the card belongs here: it would take the logits where they are, and only the tokens
// drawn would be copied.
Status CardForward::compute_logits(std::uint32_t tile, std::uint32_t size, unsigned half) {
  const std::uint32_t* sampled = card_words().sampled + tile;
  float* const logits = buffers_.logits[half];
  const cuda::Stream download = held_->download.get();
  TRY_VOID(cuda::gather_rows(buffers_.x, sampled, size, spec_.hidden, buffers_.delta, compute()));
  TRY_VOID(norm(buffers_.delta, weights_.output_norm, size, buffers_.head_failed + tile));
  TRY_VOID(cuda::wait(compute(), held_->logits_sent[half].get()));
  TRY_VOID(multiply(weights_.output(), size, logits));
  TRY_VOID(cuda::record(held_->logits_made[half].get(), compute()));
  TRY_VOID(cuda::wait(download, held_->logits_made[half].get()));
  TRY_VOID(cuda::copy_to_host(held_->host.logits[half], logits,
                              std::size_t{size} * spec_.vocabulary * sizeof(float), download));
  return cuda::record(held_->logits_sent[half].get(), download);
}

Status CardForward::hand_on(std::uint32_t tile, std::uint32_t size, unsigned half,
                            const OnLogits& on_logits) {
  TRY_VOID(cuda::synchronize(held_->logits_sent[half].get()));
  const auto part = [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t s = begin; s < end; ++s) {
      const float* logits = held_->host.logits[half] + std::size_t{s} * spec_.vocabulary;
      on_logits(sampled_[tile + s], thread, {logits, spec_.vocabulary});
    }
  };
  setup_.pool->parallel_for(size, 1, part);
  return ok_status();
}

}  // namespace hearth::node
