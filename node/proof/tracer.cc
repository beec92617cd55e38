#include "node/proof/tracer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/scalar.h"
#include "ledger/merkle.h"
#include "node/engine/step_hash.h"

namespace hearth::node {
namespace {

using ledger::TraceOp;
using ledger::TraceShape;
using ledger::TraceSlot;

Bytes hash_bytes(const Hash256& hash) { return {hash.bytes.begin(), hash.bytes.end()}; }

Hash256 hash_in(const Bytes& bytes) {
  Hash256 out;
  std::ranges::copy(bytes, out.bytes.begin());
  return out;
}

}  // namespace

std::vector<TraceTensor> trace_tensors(const TraceShape& shape, const TraceSlot& slot) {
  const std::uint32_t wide = shape.heads * shape.head_dim;
  const std::uint32_t narrow = shape.kv_heads * shape.head_dim;
  std::vector<TraceTensor> out;
  const auto own = [&](std::string_view part, bool is_matrix, std::uint32_t cols) {
    out.push_back({model::layer_tensor(slot.layer, part), is_matrix, cols});
  };
  const auto vector = [&](bool has, std::string_view part, std::uint32_t cols) {
    if (has) own(part, false, cols);
  };
  switch (slot.op) {
    case TraceOp::kEnter:
      if (shape.layer_begin == 0) out.push_back({"token_embd.weight", true, shape.hidden});
      break;
    case TraceOp::kAttentionNorm: own("attn_norm.weight", false, shape.hidden); break;
    case TraceOp::kQuery: own("attn_q.weight", true, shape.hidden); break;
    case TraceOp::kKey: own("attn_k.weight", true, shape.hidden); break;
    case TraceOp::kValue: own("attn_v.weight", true, shape.hidden); break;
    case TraceOp::kHeads:
      vector(shape.has(TraceShape::kBias), "attn_q.bias", wide);
      vector(shape.has(TraceShape::kHeadNorm), "attn_q_norm.weight", shape.head_dim);
      break;
    case TraceOp::kStored:
      vector(shape.has(TraceShape::kBias), "attn_k.bias", narrow);
      vector(shape.has(TraceShape::kBias), "attn_v.bias", narrow);
      vector(shape.has(TraceShape::kHeadNorm), "attn_k_norm.weight", shape.head_dim);
      break;
    case TraceOp::kAttentionOutput: own("attn_output.weight", true, wide); break;
    case TraceOp::kJoined:
      vector(shape.has(TraceShape::kPostNorm), "post_attention_norm.weight", shape.hidden);
      break;
    case TraceOp::kFeedForwardNorm: own("ffn_norm.weight", false, shape.hidden); break;
    case TraceOp::kGate: own("ffn_gate.weight", true, shape.hidden); break;
    case TraceOp::kUp: own("ffn_up.weight", true, shape.hidden); break;
    case TraceOp::kDown: own("ffn_down.weight", true, shape.feed_forward); break;
    case TraceOp::kResidual:
      vector(shape.has(TraceShape::kPostNorm), "post_ffw_norm.weight", shape.hidden);
      break;
    case TraceOp::kOutputNorm: out.push_back({"output_norm.weight", false, shape.hidden}); break;
    case TraceOp::kLogits:
      out.push_back({shape.has(TraceShape::kTied) ? "token_embd.weight" : "output.weight", true,
                     shape.hidden});
      break;
    default: break;
  }
  return out;
}

Result<ledger::DisputeWeights> weights_in(const model::GgufFile& file, const TraceTensor& tensor,
                                          std::uint32_t row) {
  const model::TensorInfo* info = file.find_tensor(tensor.name);
  REQUIRE(info != nullptr, "the model has no tensor " + tensor.name);
  ledger::DisputeWeights out{tensor.name,
                             ledger::DisputeWeights::kWhole,
                             tensor.cols,
                             static_cast<std::uint32_t>(info->type),
                             {}};
  ByteSpan bytes = file.tensor_bytes(*info);
  if (tensor.is_matrix) {
    const std::uint64_t rows = info->elements() / tensor.cols;
    REQUIRE(row < rows, "tensor " + tensor.name + " has no row " + std::to_string(row));
    out.row = row;
    bytes = bytes.subspan(row * (bytes.size() / rows), bytes.size() / rows);
  }
  out.bytes.assign(bytes.begin(), bytes.end());
  return out;
}

Result<Tracer::Parts> Tracer::prepare(std::shared_ptr<const model::GgufFile> file,
                                      LayerRange layers, TraceInput input,
                                      const kernels::Kernels& table) {
  TRY_VOID(kernels::check_float_environment());
  TRY(model::ModelSpec spec, model::ModelSpec::read(*file));
  REQUIRE(layers.begin < layers.end && layers.end <= spec.layers,
          "the trace's layers are none of the model's");
  REQUIRE(!input.tokens.empty() && input.tokens.size() <= spec.context && input.prompt > 0,
          "a trace has no positions, or more than the context");
  for (const TokenId token : input.tokens) {
    REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < spec.vocabulary,
            "token " + std::to_string(token) + " is not in the vocabulary");
  }
  REQUIRE(layers.begin == 0 || input.rows.size() == input.tokens.size(),
          "a trace behind another stage needs a row for each of its positions");
  for (const Bytes& row : input.rows) {
    REQUIRE(row.size() == spec.hidden * sizeof(std::uint16_t), "a row has another size");
  }
  TRY(StageWeights weights, StageWeights::load(*file, spec, layers));
  return Parts{std::move(file), std::move(spec),  std::move(weights),
               layers,          std::move(input), &table};
}

Tracer::Tracer(Parts parts)
    : file_(std::move(parts.file)),
      spec_(std::move(parts.spec)),
      weights_(std::move(parts.weights)),
      input_(std::move(parts.input)),
      shape_(trace_shape(spec_, parts.layers, input_.prompt)),
      math_(*parts.table, shape_),
      layers_(parts.layers.size()) {}

Status Tracer::run(const std::function<bool()>& stopped) {
  for (std::uint32_t i = 0; i < input_.tokens.size(); ++i) {
    if (stopped && stopped()) return Error{ErrorCode::kCancelled, "the trace was given up"};
    TRY_VOID(compute(i));
    roots_.push_back(ledger::subtree_root(leaves(i, values_)));
    rows_in_.push_back(hash_in(values_.front()));
    rows_out_.push_back(hash_in(values_.back()));
    const TraceSlot last{TraceOp::kResidual, shape_.layer_end - 1};
    residuals_.push_back(values_[shape_.index_of(i, last)]);
  }
  return ok_status();
}

Result<std::vector<Bytes>> Tracer::values(std::uint32_t position) {
  REQUIRE(position < roots_.size(), "position " + std::to_string(position) + " was not run");
  TRY_VOID(compute(position));
  return values_;
}

std::vector<Hash256> Tracer::leaves(std::uint32_t position,
                                    const std::vector<Bytes>& values) const {
  std::vector<Hash256> out;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const TraceOp op = shape_.at(position, i).op;
    out.push_back(
        ledger::trace_leaf(input_.salt, position, i, ledger::trace_chunks(shape_, op, values[i])));
  }
  return out;
}

const Bytes& Tracer::put(TraceOp op, std::uint32_t layer, Bytes value) {
  produced(position_, {op, layer}, value);
  return values_.emplace_back(std::move(value));
}

Status Tracer::compute(std::uint32_t position) {
  position_ = position;
  values_.clear();
  values_.reserve(shape_.slots(position));
  const std::uint32_t first = shape_.layer_begin;
  const Hash256 came = first == 0 ? hash_token(position, input_.tokens[position])
                                  : hash_activation(first, position, input_.rows[position]);
  put(TraceOp::kIncoming, first, hash_bytes(came));
  TRY(Bytes entered, entry(position));
  Bytes residual = put(TraceOp::kEnter, first, std::move(entered));
  for (std::uint32_t i = 0; i < layers_.size(); ++i) {
    TRY(residual, layer(i, residual));
  }
  if (shape_.layer_end < shape_.layers) {
    put(TraceOp::kOutgoing, first,
        hash_bytes(hash_activation(shape_.layer_end, position, residual)));
    return ok_status();
  }
  if (shape_.samples(position)) return head(residual);
  put(TraceOp::kOutgoing, first, hash_bytes(hash_output(position, kNoToken)));
  return ok_status();
}

Result<Bytes> Tracer::entry(std::uint32_t position) const {
  if (shape_.layer_begin > 0) return input_.rows[position];
  return math_.enter(weights_.embedding, static_cast<std::uint32_t>(input_.tokens[position]));
}

Result<Bytes> Tracer::layer(std::uint32_t index, const Bytes& residual) {
  const std::uint32_t layer = shape_.layer_begin + index;
  const LayerWeights& weights = weights_.layers[index];
  const TraceMath::Floats x = math_.expand(residual);
  TRY(Bytes norm, math_.norm(x, weights.attention_norm));
  TRY(const Bytes mixed, attend(index, put(TraceOp::kAttentionNorm, layer, std::move(norm))));
  TRY(Bytes quantised, math_.quantise(floats_of(mixed)));
  TRY(Bytes output,
      math_.multiply(weights.attention_output, put(TraceOp::kMixed, layer, std::move(quantised))));
  const Bytes& delta = put(TraceOp::kAttentionOutput, layer, std::move(output));
  TRY(const TraceMath::Floats sum, math_.join(x, floats_of(delta), weights.post_attention_norm));
  const TraceMath::Floats joined = floats_of(put(TraceOp::kJoined, layer, bytes_of(sum)));
  TRY(Bytes second, math_.norm(joined, weights.feed_forward_norm));
  const Bytes& in = put(TraceOp::kFeedForwardNorm, layer, std::move(second));
  TRY(Bytes gate, math_.multiply(weights.gate, in));
  const Bytes& gated = put(TraceOp::kGate, layer, std::move(gate));
  TRY(Bytes up, math_.multiply(weights.up, in));
  const Bytes& upper = put(TraceOp::kUp, layer, std::move(up));
  TRY(Bytes middle, math_.activate(floats_of(gated), floats_of(upper)));
  TRY(Bytes down, math_.multiply(weights.down, put(TraceOp::kActivated, layer, std::move(middle))));
  const Bytes& lower = put(TraceOp::kDown, layer, std::move(down));
  TRY(TraceMath::Floats end, math_.join(joined, floats_of(lower), weights.post_feed_forward_norm));
  TRY(Bytes rounded, math_.round(std::move(end)));
  return put(TraceOp::kResidual, layer, std::move(rounded));
}

// Queries, what is stored, and attention over it.
Result<Bytes> Tracer::attend(std::uint32_t index, const Bytes& norm) {
  const std::uint32_t layer = shape_.layer_begin + index;
  const LayerWeights& weights = weights_.layers[index];
  Layer& held = layers_[index];
  TRY(Bytes query, math_.multiply(weights.query, norm));
  TRY(Bytes key, math_.multiply(weights.key, norm));
  TRY(Bytes value, math_.multiply(weights.value, norm));
  const Bytes& q = put(TraceOp::kQuery, layer, std::move(query));
  const Bytes& k = put(TraceOp::kKey, layer, std::move(key));
  const Bytes& v = put(TraceOp::kValue, layer, std::move(value));
  TRY(Bytes turned,
      math_.heads(floats_of(q), weights.query_bias, weights.query_norm, layer, position_));
  const TraceMath::Floats heads = floats_of(put(TraceOp::kHeads, layer, std::move(turned)));
  TRY(Bytes row, math_.stored(floats_of(k), floats_of(v), weights.key_bias, weights.value_bias,
                              weights.key_norm, layer, position_));
  const Bytes& stored = put(TraceOp::kStored, layer, std::move(row));
  const kernels::KvLayout layout = spec_.kv_layout();
  const std::uint32_t page = position_ / kernels::kPageTokens;
  if (page == held.pages.size()) {
    AlignedBuffer<std::byte>& fresh = held.pages.emplace_back(layout.page_bytes());
    std::memset(fresh.data(), 0, layout.page_bytes());
  }
  kernels::scalar::kv_place(layout, stored.data(), held.pages[page].data(),
                            position_ % kernels::kPageTokens);
  const Bytes none;
  const Bytes& before = position_ == 0 ? none : held.chains[position_ - 1];
  const Bytes& chain = put(TraceOp::kChain, layer, math_.chain(before, stored));
  if (held.chains.size() == position_) held.chains.push_back(chain);
  std::vector<const std::byte*> pages;
  for (const auto& memory : held.pages) pages.push_back(memory.data());
  const std::uint32_t group = shape_.heads / shape_.kv_heads;
  const std::size_t width = std::size_t{group} * shape_.head_dim;
  Bytes out;
  for (std::uint32_t h = 0; h < shape_.kv_heads; ++h) {
    TRY(const Bytes part,
        math_.attention(layout, h, group, std::span(heads).subspan(h * width, width), pages,
                        shape_.first_visible(layer, position_), position_ + 1));
    out.insert(out.end(), part.begin(), part.end());
  }
  return put(TraceOp::kAttention, layer, std::move(out));
}

Status Tracer::head(const Bytes& residual) {
  const std::uint32_t first = shape_.layer_begin;
  TRY(Bytes norm, math_.norm(math_.expand(residual), weights_.output_norm));
  TRY(Bytes product,
      math_.multiply(weights_.output(), put(TraceOp::kOutputNorm, first, std::move(norm))));
  const Bytes& logits = put(TraceOp::kLogits, first, std::move(product));
  TRY(const std::uint32_t token,
      trace_token(shape_, floats_of(logits), input_.sampling, input_.tokens, position_));
  Bytes said;
  ByteWriter(said).write(token);
  const Bytes& drawn = put(TraceOp::kToken, first, std::move(said));
  put(TraceOp::kOutgoing, first,
      hash_bytes(hash_output(position_, ByteReader(drawn).read<std::uint32_t>())));
  return ok_status();
}

Result<std::vector<ledger::DisputeWeights>> Tracer::weights(std::uint32_t position,
                                                            const TraceSlot& slot,
                                                            std::uint32_t element) const {
  const auto row =
      slot.op == TraceOp::kEnter ? static_cast<std::uint32_t>(input_.tokens[position]) : element;
  std::vector<ledger::DisputeWeights> out;
  for (const TraceTensor& tensor : trace_tensors(shape_, slot)) {
    TRY(ledger::DisputeWeights part, weights_in(*file_, tensor, row));
    out.push_back(std::move(part));
  }
  return out;
}

Bytes Tracer::stored(std::uint32_t layer, std::uint32_t kv_head, std::uint32_t begin,
                     std::uint32_t end) const {
  const kernels::KvLayout layout = spec_.kv_layout();
  const std::size_t size = shape_.stored_bytes();
  Bytes slot(layout.slot_bytes());
  Bytes out;
  for (std::uint32_t i = begin; i < end; ++i) {
    const auto& page = layers_[layer - shape_.layer_begin].pages[i / kernels::kPageTokens];
    kernels::kv_read(layout, page.data(), i % kernels::kPageTokens, slot.data());
    ByteWriter(out).append(ByteSpan(slot).subspan(kv_head * size, size));
  }
  return out;
}

Bytes Tracer::chain(std::uint32_t layer, std::uint32_t position) const {
  return layers_[layer - shape_.layer_begin].chains[position];
}

Result<std::uint32_t> trace_token(const TraceShape& shape, std::span<const float> logits,
                                  const SamplingParams& sampling, std::span<const TokenId> tokens,
                                  std::uint32_t position) {
  TokenHistory history;
  for (std::uint32_t i = 0; i <= position; ++i) history.add(tokens[i], i >= shape.prompt);
  Sampler sampler(shape.vocabulary);
  TRY(const Draw draw, sampler.sample(logits, SamplerParams(sampling), history, position + 1));
  return static_cast<std::uint32_t>(draw.token);
}

}  // namespace hearth::node
