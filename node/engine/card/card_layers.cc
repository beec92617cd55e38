#include "node/engine/card/card_layers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/step.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

namespace {

// Larger steps take so long that queueing their kernels one by one costs little.
constexpr std::uint32_t kGraphRows = 64;
// From so many rows on, reading keys and values once for all of them is taken to outweigh that the
// context is not split. Not measured on a card.
constexpr std::uint32_t kPromptRowsLeast = 32;

}  // namespace

void attention_segments(std::span<const ForwardRow> rows, std::uint32_t group,
                        std::vector<AttentionSegment>& segments) {
  segments.clear();
  std::uint32_t end = 0;
  for (std::uint32_t begin = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end].pages == rows[begin].pages; ++end) {
      INVARIANT(rows[end].position > rows[end - 1].position, "a sequence's rows are in order");
    }
    const bool prompt = end - begin >= kPromptRowsLeast &&
                        rows[end - 1].position < cuda::kPromptPositionsMost &&
                        group <= cuda::kPromptGroupMost;
    if (!prompt && !segments.empty() && !segments.back().prompt) {
      segments.back().rows += end - begin;
    } else {
      segments.push_back({begin, end - begin, prompt});
    }
  }
}

CardLayers::CardLayers(const CardStage& stage, std::function<void(const std::string&)> say)
    : stage_(stage), say_(std::move(say)) {
  segments_.reserve(stage.shape().rows);
}

// A prompt gets no graph: the shapes of prompts differ too much.
Status CardLayers::run(std::uint32_t set, std::span<const ForwardRow> rows,
                       const StepReach& reach) {
  INVARIANT(set < kStepsUnderWay, "each step under way has its own arrays");
  INVARIANT(!rows.empty() && rows.size() <= stage_.shape().rows, "the arrays hold the step");
  INVARIANT(reach.all >= reach.local && reach.local > 0, "attention reaches at least one page");
  set_ = set;
  rows_ = static_cast<std::uint32_t>(rows.size());
  reach_ = reach;
  if (cuda::has_prompt_attention()) {
    attention_segments(rows, spec().heads / spec().kv_heads, segments_);
  } else {
    segments_.assign(1, {0, rows_, false});
  }
  const bool decodes = segments_.size() == 1 && !segments_[0].prompt;
  if (rows_ > kGraphRows || !decodes) return all_layers();
  const std::uint64_t made = graphs_.count().made;
  TRY_VOID(graphs_.run({set_, rows_, reach_.all, reach_.local}, stage_.compute(),
                       [this] { return all_layers(); }));
  say_graphs(made);
  return ok_status();
}

// The driver takes the graphs' memory and does not say how much beforehand. One line reports it
// each time that the number of graphs made has doubled.
void CardLayers::say_graphs(std::uint64_t made) const {
  const CardGraphs::Count& count = graphs_.count();
  INVARIANT(count.made >= made, "the number of graphs made only rises");
  if (count.made == made || count.made < 8 || !std::has_single_bit(count.made)) return;
  if (!say_) return;
  say_(message_of(count.kept, " graphs of shapes of step, ", count.made, " made so far, hold ",
                  count.bytes >> 10, " KiB of the driver's memory"));
}

Status CardLayers::all_layers() const {
  TRY_VOID(cuda::fill_zero(card().failed, rows_ * sizeof(std::uint32_t), stage_.compute()));
  TRY_VOID(enter());
  TRY_VOID(
      stage_.norm(buffers().x, stage_.weights().layers[0].attention_norm, rows_, card().failed));
  for (std::uint32_t i = 0; i < stage_.shape().layers.size(); ++i) TRY_VOID(layer(i));
  return ok_status();
}

// Tables of the step's pages, and the residual from the embedding or from the previous stage.
Status CardLayers::enter() const {
  const StepWords words = stage_.card_words(set_);
  cuda::PageTables tables;
  tables.memory = stage_.kv();
  tables.layer_bytes = stage_.kv_layer_bytes();
  tables.layers = stage_.shape().layers.size();
  tables.entries_most = stage_.shape().kv_pages;
  tables.entries = words.entries;
  tables.pages = words.pages;
  tables.tokens = rows_;
  tables.tokens_most = stage_.shape().rows;
  tables.first = words.first;
  tables.own = words.own;
  tables.tables = buffers().tables;
  tables.token_tables = buffers().token_tables;
  tables.token_pages = buffers().token_pages;
  TRY_VOID(cuda::page_tables(tables, stage_.compute()));
  const std::uint32_t hidden = spec().hidden;
  const int shift = spec().family->residual_shift;
  if (!stage_.shape().is_first()) {
    return cuda::residual_expand(card().bits, buffers().x, rows_, hidden, shift, stage_.compute());
  }
  TRY_VOID(cuda::dequantize_rows(stage_.weights().embedding, words.tokens, rows_, buffers().x,
                                 stage_.compute()));
  if (spec().embedding_scale() != 1.0F) {
    TRY_VOID(
        cuda::scale_rows(buffers().x, spec().embedding_scale(), rows_, hidden, stage_.compute()));
  }
  return cuda::residual_round(buffers().x, card().bits, rows_, hidden, shift, card().failed,
                              stage_.compute());
}

// The normed and quantised residual is in the buffer, and the layer leaves there that of the next.
Status CardLayers::layer(std::uint32_t index) const {
  INVARIANT(index < stage_.weights().layers.size(), "the weights of every layer are loaded");
  const auto& weights = stage_.weights().layers[index];
  TRY_VOID(attention(index));
  TRY_VOID(close_half(weights.post_attention_norm, nullptr, &weights.feed_forward_norm));
  TRY_VOID(feed_forward(index));
  const bool last = index + 1 == stage_.shape().layers.size();
  return close_half(weights.post_feed_forward_norm, card().bits,
                    last ? nullptr : &stage_.weights().layers[index + 1].attention_norm);
}

// Adds the delta to the residual, after its norm if the family has one. Then rounds the residual to
// `bits` and quantises its norm for the next product; a null pointer leaves the one or the other
// out.
Status CardLayers::close_half(const CardVector& post_norm, std::uint16_t* bits,
                              const CardVector* norm) const {
  cuda::ResidualStep step;
  step.x = buffers().x;
  step.y = buffers().delta;
  step.post_norm = post_norm.data;
  step.bits = bits;
  step.shift = spec().family->residual_shift;
  step.norm = norm == nullptr ? nullptr : norm->data;
  step.epsilon = spec().rms_epsilon;
  return cuda::residual_step(step, stage_.quant(rows_, spec().hidden), card().failed,
                             stage_.compute());
}

// Biases, norms and angles of the heads, and keys and values into the cache.
Status CardLayers::store_heads(std::uint32_t index) const {
  const auto& weights = stage_.weights().layers[index];
  const std::uint32_t narrow = stage_.shape().narrow();
  if (!weights.query_bias.empty()) {
    TRY_VOID(cuda::add_bias(buffers().query, weights.query_bias.data, rows_, stage_.shape().wide(),
                            stage_.compute()));
    TRY_VOID(cuda::add_bias(buffers().key, weights.key_bias.data, rows_, narrow, stage_.compute()));
    TRY_VOID(
        cuda::add_bias(buffers().value, weights.value_bias.data, rows_, narrow, stage_.compute()));
  }
  if (!weights.query_norm.empty()) {
    TRY_VOID(cuda::rms_norm(buffers().query, weights.query_norm.data, spec().rms_epsilon,
                            rows_ * spec().heads, spec().head_dim, spec().heads, buffers().query,
                            card().failed, stage_.compute()));
    TRY_VOID(cuda::rms_norm(buffers().key, weights.key_norm.data, spec().rms_epsilon,
                            rows_ * spec().kv_heads, spec().head_dim, spec().kv_heads,
                            buffers().key, card().failed, stage_.compute()));
  }
  cuda::RopeAndStore args;
  args.tokens = rows_;
  args.heads = spec().heads;
  args.layout = spec().kv_layout(0);
  args.style = spec().family->rope;
  args.query = buffers().query;
  args.key = buffers().key;
  args.value = buffers().value;
  const bool local = spec().is_local(stage_.shape().layers.begin + index);
  args.cos_sin = local ? card().local_angles : card().angles;
  args.pages = buffers().token_pages + std::size_t{index} * stage_.shape().rows;
  args.slots = stage_.card_words(set_).slots;
  return cuda::rope_and_store(args, card().failed, stage_.compute());
}

Status CardLayers::attend(std::uint32_t index) const {
  const bool local = spec().is_local(stage_.shape().layers.begin + index);
  const StepWords words = stage_.card_words(set_);
  cuda::AttentionRows args;
  args.heads = spec().heads;
  args.layout = spec().kv_layout(0);
  args.pages_most = local ? reach_.local : reach_.all;
  args.score_scale = spec().score_scale(0);
  args.query = buffers().query;
  args.out = buffers().mixed;
  args.pages = buffers().token_tables + std::size_t{index} * stage_.shape().rows;
  args.begins = local ? words.local_begins : words.begins;
  args.ends = words.ends;
  for (const AttentionSegment& segment : segments_) TRY_VOID(attend_rows(args, segment));
  return ok_status();
}

// `args` is that of row 0. Each call takes as many rows as the scores have room for; a prompt needs
// no scores.
Status CardLayers::attend_rows(cuda::AttentionRows args, const AttentionSegment& segment) const {
  const std::size_t of_row = cuda::attention_scores(1, spec().heads, args.pages_most);
  const std::size_t most = segment.prompt ? segment.rows : buffers().score_floats / of_row;
  INVARIANT(most > 0, "the scores of one row fit");
  const auto skip = [&](std::uint32_t rows) {
    args.query += std::size_t{rows} * stage_.shape().wide();
    args.out += std::size_t{rows} * stage_.shape().wide();
    args.pages += rows;
    args.begins += rows;
    args.ends += rows;
  };
  skip(segment.begin);
  const std::uint32_t end = segment.begin + segment.rows;
  for (std::uint32_t row = segment.begin; row < end; row += args.tokens) {
    args.tokens = static_cast<std::uint32_t>(std::min<std::size_t>(most, end - row));
    std::uint32_t* const failed = card().failed + row;
    TRY_VOID(segment.prompt ? cuda::attention_prompt(args, failed, stage_.compute())
                            : cuda::attention(args, buffers().attention, failed, stage_.compute()));
    skip(args.tokens);
  }
  return ok_status();
}

Status CardLayers::attention(std::uint32_t index) const {
  const auto& weights = stage_.weights().layers[index];
  TRY_VOID(stage_.multiply({{weights.query, buffers().query},
                            {weights.key, buffers().key},
                            {weights.value, buffers().value}},
                           rows_));
  TRY_VOID(store_heads(index));
  TRY_VOID(attend(index));
  TRY_VOID(cuda::quantize(buffers().mixed, stage_.quant(rows_, stage_.shape().wide()),
                          card().failed, stage_.compute()));
  return stage_.multiply(weights.attention_output, rows_, buffers().delta);
}

Status CardLayers::feed_forward(std::uint32_t index) const {
  const auto& weights = stage_.weights().layers[index];
  TRY_VOID(stage_.multiply({{weights.gate, buffers().gate}, {weights.up, buffers().up}}, rows_));
  const auto activate = spec().family->activation == model::Activation::kSilu
                            ? &cuda::swiglu_quantize
                            : &cuda::geglu_quantize;
  TRY_VOID(activate(buffers().gate, buffers().up, stage_.quant(rows_, spec().feed_forward),
                    card().failed, stage_.compute()));
  return stage_.multiply(weights.down, rows_, buffers().delta);
}

}  // namespace hearth::node
