// The layers of a step, as kernels on the compute stream; the order is that of Forward.
#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/step.h"
#include "node/engine/card/card_forward.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

namespace {

Result<TokenId> token_of(cuda::SampleOutcome outcome, std::uint32_t token) {
  switch (outcome) {
    case cuda::SampleOutcome::kToken: return static_cast<TokenId>(token);
    case cuda::SampleOutcome::kNotFinite:
      return Error{ErrorCode::kNumeric, "a logit is not finite"};
    case cuda::SampleOutcome::kAllExcluded: break;
  }
  return Error{ErrorCode::kNumeric, "the logit bias excludes every token of the vocabulary"};
}

}  // namespace

kernels::QuantizedRows CardForward::quant(std::uint32_t rows, std::uint32_t cols) const {
  kernels::QuantizedRows out = buffers_.quant;
  out.rows = rows;
  out.cols = cols;
  return out;
}

Status CardForward::all_layers(const Reach& reach) {
  TRY_VOID(cuda::fill_zero(card().failed, rows() * sizeof(std::uint32_t), compute()));
  TRY_VOID(enter());
  TRY_VOID(norm(buffers_.x, weights_.layers[0].attention_norm, rows(), card().failed));
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
    return cuda::residual_expand(card().bits, buffers_.x, rows(), hidden, shift, compute());
  }
  TRY_VOID(cuda::dequantize_rows(weights_.embedding, words.tokens, rows(), buffers_.x, compute()));
  if (spec_.family->scale_embeddings) {
    TRY_VOID(cuda::scale_rows(buffers_.x, spec_.embedding_scale(), rows(), hidden, compute()));
  }
  return cuda::residual_round(buffers_.x, card().bits, rows(), hidden, shift, card().failed,
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
  TRY_VOID(close_half(weights.post_attention_norm, nullptr, &weights.feed_forward_norm));
  TRY_VOID(feed_forward(index));
  const bool last = index + 1 == setup_.layers.size();
  return close_half(weights.post_feed_forward_norm, card().bits,
                    last ? nullptr : &weights_.layers[index + 1].attention_norm);
}

// Adds the delta, normed where the family has a norm for it, to the residual; rounds that to `bits`
// and quantises its norm for the next product, where there are such.
Status CardForward::close_half(const CardVector& post_norm, std::uint16_t* bits,
                               const CardVector* norm) {
  cuda::ResidualStep step;
  step.x = buffers_.x;
  step.y = buffers_.delta;
  step.post_norm = post_norm.data;
  step.bits = bits;
  step.shift = spec_.family->residual_shift;
  step.norm = norm == nullptr ? nullptr : norm->data;
  step.epsilon = spec_.rms_epsilon;
  return cuda::residual_step(step, quant(rows(), spec_.hidden), card().failed, compute());
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
                            card().failed, compute()));
    TRY_VOID(cuda::rms_norm(buffers_.key, weights.key_norm.data, spec_.rms_epsilon,
                            rows() * spec_.kv_heads, spec_.head_dim, spec_.kv_heads, buffers_.key,
                            card().failed, compute()));
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
  args.cos_sin = local ? card().local_angles : card().angles;
  args.pages = buffers_.token_pages + std::size_t{index} * setup_.batch_rows;
  args.slots = card_words().slots;
  return cuda::rope_and_store(args, card().failed, compute());
}

Status CardForward::attend(std::uint32_t index, const Reach& reach) {
  const bool local = spec_.is_local(setup_.layers.begin + index);
  const StepWords words = card_words();
  cuda::AttentionRows args;
  args.heads = spec_.heads;
  args.layout = spec_.kv_layout();
  args.pages_most = local ? reach.local : reach.all;
  args.score_scale = spec_.score_scale();
  args.query = buffers_.query;
  args.out = buffers_.mixed;
  args.pages = buffers_.token_tables + std::size_t{index} * setup_.batch_rows;
  args.begins = local ? words.local_begins : words.begins;
  args.ends = words.ends;
  for (const AttentionSegment& segment : segments_) TRY_VOID(attend_rows(args, segment));
  return ok_status();
}

// `args`: of row 0. As many rows at a time as the scores have room for; a prompt needs none.
Status CardForward::attend_rows(cuda::AttentionRows args, const AttentionSegment& segment) {
  const std::size_t of_row = cuda::attention_scores(1, spec_.heads, args.pages_most);
  const std::size_t most = segment.prompt ? segment.rows : buffers_.score_floats / of_row;
  const auto skip = [&](std::uint32_t rows) {
    args.query += std::size_t{rows} * shape_.wide();
    args.out += std::size_t{rows} * shape_.wide();
    args.pages += rows;
    args.begins += rows;
    args.ends += rows;
  };
  skip(segment.begin);
  const std::uint32_t end = segment.begin + segment.rows;
  for (std::uint32_t row = segment.begin; row < end; row += args.tokens) {
    args.tokens = static_cast<std::uint32_t>(std::min<std::size_t>(most, end - row));
    std::uint32_t* const failed = card().failed + row;
    TRY_VOID(segment.prompt ? cuda::attention_prompt(args, failed, compute())
                            : cuda::attention(args, buffers_.attention, failed, compute()));
    skip(args.tokens);
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
  TRY_VOID(cuda::quantize(buffers_.mixed, quant(rows(), shape_.wide()), card().failed, compute()));
  return multiply(weights.attention_output, rows(), buffers_.delta);
}

Status CardForward::feed_forward(std::uint32_t index) {
  const auto& weights = weights_.layers[index];
  TRY_VOID(multiply(weights.gate, rows(), buffers_.gate));
  TRY_VOID(multiply(weights.up, rows(), buffers_.up));
  const auto activate = spec_.family->activation == model::Activation::kSilu
                            ? &cuda::swiglu_quantize
                            : &cuda::geglu_quantize;
  TRY_VOID(activate(buffers_.gate, buffers_.up, quant(rows(), spec_.feed_forward), card().failed,
                    compute()));
  return multiply(weights.down, rows(), buffers_.delta);
}

// The sampled rows, some at a time.
template <typename Call>
Status CardForward::for_tiles(const Call& call) {
  const auto count = static_cast<std::uint32_t>(step().sampled.size());
  if (count == 0) return ok_status();
  TRY_VOID(cuda::fill_zero(card().head_failed, count * sizeof(std::uint32_t), compute()));
  const std::uint32_t most = shape_.head_rows();
  for (HeadTile tile; tile.begin < count; tile.begin += most, tile.half ^= 1) {
    tile.rows = std::min(most, count - tile.begin);
    TRY_VOID(call(tile));
  }
  return ok_status();
}

// Of a step whose tokens the card draws all.
Status CardForward::draw_tokens() {
  return for_tiles([&](const HeadTile& tile) { return compute_logits(tile); });
}

// What the host wants of the logits it gets while the next ones are computed. Each half of the
// buffers waits for what still reads it.
Status CardForward::read_logits() {
  HeadTile previous;
  TRY_VOID(for_tiles([&](const HeadTile& tile) -> Status {
    TRY_VOID(cuda::wait(compute(), held_->logits_sent[tile.half].get()));
    TRY_VOID(compute_logits(tile));
    TRY_VOID(send_logits(tile));
    if (previous.rows > 0) TRY_VOID(hand_on(previous));
    previous = tile;
    return ok_status();
  }));
  return hand_on(previous);
}

Status CardForward::compute_logits(const HeadTile& tile) {
  const std::uint32_t* sampled = card_words().sampled + tile.begin;
  TRY_VOID(
      cuda::gather_rows(buffers_.x, sampled, tile.rows, spec_.hidden, buffers_.delta, compute()));
  TRY_VOID(norm(buffers_.delta, weights_.output_norm, tile.rows, card().head_failed + tile.begin));
  TRY_VOID(multiply(weights_.output(), tile.rows, buffers_.logits[tile.half]));
  const std::uint32_t drawn = before(tile, step().draws.count());
  return drawn > 0 ? draw(tile, drawn) : ok_status();
}

// With the tokens of the tile that the card draws.
Status CardForward::send_logits(const HeadTile& tile) {
  const cuda::Stream download = held_->download.get();
  TRY_VOID(cuda::record(held_->logits_made[tile.half].get(), compute()));
  TRY_VOID(cuda::wait(download, held_->logits_made[tile.half].get()));
  const DrawArrays& from = card().draws;
  const DrawArrays& to = host().draws;
  const std::uint32_t drawn = before(tile, step().draws.count());
  if (drawn > 0) {
    TRY_VOID(cuda::copy_to_host(to.tokens + tile.begin, from.tokens + tile.begin,
                                drawn * sizeof(*to.tokens), download));
    TRY_VOID(cuda::copy_to_host(to.outcomes + tile.begin, from.outcomes + tile.begin,
                                drawn * sizeof(*to.outcomes), download));
  }
  const std::uint32_t first = before(tile, step().logits_from);
  if (first < tile.rows) {
    const std::size_t at = std::size_t{first} * spec_.vocabulary;
    TRY_VOID(cuda::copy_to_host(held_->host.logits[tile.half] + at, buffers_.logits[tile.half] + at,
                                (std::size_t{tile.rows} * spec_.vocabulary - at) * sizeof(float),
                                download));
  }
  return cuda::record(held_->logits_sent[tile.half].get(), download);
}

// Tokens of the tile's first rows.
Status CardForward::draw(const HeadTile& tile, std::uint32_t rows) {
  const DrawArrays& arrays = card().draws;
  cuda::SampleBatch batch;
  batch.rows = rows;
  batch.vocabulary = spec_.vocabulary;
  batch.logits = buffers_.logits[tile.half];
  batch.params = arrays.rows + tile.begin;
  batch.bias = arrays.bias;
  batch.excluded = arrays.excluded;
  batch.seen = arrays.seen;
  batch.scratch = buffers_.draw_scratch;
  batch.tokens = arrays.tokens + tile.begin;
  batch.outcomes = arrays.outcomes + tile.begin;
  return cuda::sample(batch, compute());
}

void CardForward::hand_on_tokens(std::uint32_t begin, std::uint32_t end) {
  const DrawArrays& draws = host().draws;
  for (std::uint32_t s = begin; s < end; ++s) {
    step().outputs->on_token(step().sampled[s], token_of(draws.outcomes[s], draws.tokens[s]));
  }
}

Status CardForward::hand_on(const HeadTile& tile) {
  TRY_VOID(cuda::synchronize(held_->logits_sent[tile.half].get()));
  const Step& of = step();
  hand_on_tokens(tile.begin, tile.begin + before(tile, of.draws.count()));
  const std::uint32_t first = before(tile, of.logits_from);
  const auto part = [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t s = first + begin; s < first + end; ++s) {
      const float* logits = held_->host.logits[tile.half] + std::size_t{s} * spec_.vocabulary;
      of.outputs->on_logits(of.sampled[tile.begin + s], thread, {logits, spec_.vocabulary});
    }
  };
  if (first < tile.rows) setup_.pool->parallel_for(tile.rows - first, 1, part);
  return ok_status();
}

}  // namespace hearth::node
