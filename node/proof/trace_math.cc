#include "node/proof/trace_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/scalar.h"
#include "node/engine/aligned_buffer.h"

namespace hearth::node {
namespace {

using kernels::kBlock;
using ledger::TraceShape;

Error out_of_range(const char* what) {
  return {ErrorCode::kNumeric, std::string("the ") + what + " leaves the numeric range"};
}

// A quantised row that owns its memory. As bytes: the values, the scales, the exponent.
class QuantisedRow {
 public:
  explicit QuantisedRow(std::uint32_t cols)
      : values_(cols), scales_(cols / kBlock), sums_(cols / kBlock), block_sums_(cols / kBlock) {}

  kernels::QuantizedRows view() {
    kernels::QuantizedRows out;
    out.rows = 1;
    out.cols = static_cast<std::uint32_t>(values_.size());
    out.values = values_.data();
    out.scales = scales_.data();
    out.sums = sums_.data();
    out.block_sums = block_sums_.data();
    out.exponents = &exponent_;
    return out;
  }

  Bytes bytes() const {
    Bytes out;
    ByteWriter writer(out);
    writer.append(std::as_bytes(std::span(values_)));
    writer.append(std::as_bytes(std::span(scales_)));
    writer.write(exponent_);
    return out;
  }

  static Result<QuantisedRow> parse(ByteSpan bytes, std::uint32_t cols) {
    QuantisedRow out(cols);
    ByteReader reader(bytes);
    for (std::int8_t& value : out.values_) value = reader.read<std::int8_t>();
    for (float& scale : out.scales_) scale = reader.read<float>();
    out.exponent_ = reader.read<std::int32_t>();
    const bool plain =
        std::ranges::all_of(out.scales_, [](float s) { return s >= 0.0F && s <= 0x1p40F; });
    REQUIRE(!reader.failed() && reader.remaining() == 0 && plain &&
                out.exponent_ >= kernels::kExponentMin && out.exponent_ <= 128,
            "a quantised row is none that quantising gives");
    for (std::size_t b = 0; b < out.scales_.size(); ++b) {
      for (std::size_t i = 0; i < kBlock; ++i) out.block_sums_[b] += out.values_[b * kBlock + i];
      out.sums_[b] = out.scales_[b] * static_cast<float>(out.block_sums_[b]);
    }
    return out;
  }

 private:
  std::vector<std::int8_t> values_;
  std::vector<float> scales_;
  std::vector<float> sums_;
  std::vector<std::int32_t> block_sums_;
  std::int32_t exponent_ = 0;
};

std::vector<double> whole(std::vector<double> frequencies, std::uint32_t head_dim) {
  frequencies.resize(head_dim / 2, 1.0);
  return frequencies;
}

// What the cache has stored: no scale that quantising a value in range would not give.
Status check_stored(const kernels::KvLayout& layout, ByteSpan row) {
  ByteReader reader(row);
  const auto scale = [&reader] {
    const auto value = reader.read<float>();
    return value >= 0.0F && value <= kernels::kAttentionMax;
  };
  bool plain = true;
  reader.take(layout.head_dim);
  for (std::uint32_t b = 0; b < layout.head_dim / kBlock; ++b) plain &= scale();
  reader.take(layout.head_dim);
  plain &= scale();
  REQUIRE(plain, "stored keys and values are none that quantising gives");
  return ok_status();
}

}  // namespace

TraceShape trace_shape(const model::ModelSpec& spec, LayerRange layers, std::uint32_t prompt) {
  TraceShape out;
  out.layer_begin = layers.begin;
  out.layer_end = layers.end;
  out.layers = spec.layers;
  out.hidden = spec.hidden;
  out.feed_forward = spec.feed_forward;
  out.heads = spec.heads;
  out.kv_heads = spec.kv_heads;
  out.head_dim = spec.head_dim;
  out.vocabulary = spec.vocabulary;
  out.prompt = prompt;
  out.sliding_window = spec.sliding_window;
  out.global_every = spec.family->global_every;
  out.residual_shift = spec.family->residual_shift;
  out.epsilon = spec.rms_epsilon;
  out.score_scale = spec.score_scale();
  out.embedding_scale = spec.embedding_scale();
  const auto trait = [&out](bool has, std::uint8_t bit) {
    if (has) out.traits = static_cast<std::uint8_t>(out.traits | bit);
  };
  trait(spec.family->qkv_bias, TraceShape::kBias);
  trait(spec.family->qk_norm, TraceShape::kHeadNorm);
  trait(spec.family->post_norms, TraceShape::kPostNorm);
  trait(spec.family->scale_embeddings, TraceShape::kScaledEntry);
  trait(spec.family->rope == kernels::RopeStyle::kHalves, TraceShape::kHalves);
  trait(spec.family->activation == model::Activation::kGeluTanh, TraceShape::kGelu);
  trait(spec.tied_embeddings, TraceShape::kTied);
  out.frequencies = whole(spec.rope_frequencies(), spec.head_dim);
  out.local_frequencies = whole(spec.local_rope_frequencies(), spec.head_dim);
  return out;
}

std::vector<float> floats_of(ByteSpan bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

Bytes bytes_of(std::span<const float> values) {
  const ByteSpan bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

Result<Bytes> TraceMath::enter(const kernels::PackedMatrix& embedding, std::uint32_t row) const {
  Floats x(shape_.hidden);
  table_.dequantize_row(embedding, row, x.data());
  if (shape_.has(TraceShape::kScaledEntry)) {
    for (float& value : x) value *= shape_.embedding_scale;
  }
  return round(std::move(x));
}

TraceMath::Floats TraceMath::expand(ByteSpan residual) const {
  std::vector<std::uint16_t> bits(shape_.hidden);
  std::memcpy(bits.data(), residual.data(), bits.size() * sizeof(std::uint16_t));
  Floats out(shape_.hidden);
  table_.residual_expand(bits.data(), out.data(), shape_.hidden, shape_.residual_shift);
  return out;
}

Result<Bytes> TraceMath::norm(std::span<const float> x, const Floats& weight) const {
  QuantisedRow out(static_cast<std::uint32_t>(x.size()));
  if (!table_.rms_norm_quantize(x.data(), weight.data(), shape_.epsilon, out.view(), 0, nullptr)) {
    return out_of_range("norm");
  }
  return out.bytes();
}

Result<Bytes> TraceMath::quantise(std::span<const float> x) const {
  QuantisedRow out(static_cast<std::uint32_t>(x.size()));
  if (!table_.quantize(x.data(), out.view(), 0)) return out_of_range("output of attention");
  return out.bytes();
}

Result<Bytes> TraceMath::multiply(const kernels::PackedMatrix& weights, ByteSpan row) const {
  TRY(QuantisedRow in, QuantisedRow::parse(row, weights.cols()));
  Floats out(weights.rows());
  table_.matmul(weights, in.view(), 0, weights.groups(), out.data(), weights.rows());
  return bytes_of(out);
}

Result<TraceMath::Floats> TraceMath::turn(Floats x, std::uint32_t heads, const Floats& bias,
                                          const Floats& norm, bool angles, std::uint32_t layer,
                                          std::uint32_t position) const {
  const std::uint32_t n = shape_.head_dim;
  if (!bias.empty()) table_.add(x.data(), bias.data(), heads * n);
  for (std::uint32_t h = 0; h < heads && !norm.empty(); ++h) {
    float* head = x.data() + std::size_t{h} * n;
    if (!table_.rms_norm(head, norm.data(), shape_.epsilon, n, head)) {
      return out_of_range("norm of a head");
    }
  }
  if (!angles) return x;
  Floats cos_sin(n);
  kernels::rope_table_row(position,
                          shape_.is_local(layer) ? shape_.local_frequencies : shape_.frequencies,
                          cos_sin.data());
  const auto style =
      shape_.has(TraceShape::kHalves) ? kernels::RopeStyle::kHalves : kernels::RopeStyle::kAdjacent;
  table_.rope(x.data(), heads, n, style, cos_sin.data());
  return x;
}

Result<Bytes> TraceMath::heads(Floats query, const Floats& bias, const Floats& norm,
                               std::uint32_t layer, std::uint32_t position) const {
  TRY(const Floats out, turn(std::move(query), shape_.heads, bias, norm, true, layer, position));
  return bytes_of(out);
}

Result<Bytes> TraceMath::stored(Floats key, Floats value, const Floats& key_bias,
                                const Floats& value_bias, const Floats& norm, std::uint32_t layer,
                                std::uint32_t position) const {
  TRY(const Floats k, turn(std::move(key), shape_.kv_heads, key_bias, norm, true, layer, position));
  TRY(const Floats v,
      turn(std::move(value), shape_.kv_heads, value_bias, {}, false, layer, position));
  const kernels::KvLayout layout{shape_.kv_heads, shape_.head_dim};
  AlignedBuffer<std::byte> page(layout.page_bytes());
  if (!table_.kv_write(layout, page.data(), 0, k.data(), v.data())) {
    return out_of_range("key or value");
  }
  Bytes out(layout.slot_bytes());
  kernels::kv_read(layout, page.data(), 0, out.data());
  return out;
}

Bytes TraceMath::chain(ByteSpan before, ByteSpan stored) const {
  Bytes out;
  ByteWriter writer(out);
  const std::size_t size = shape_.stored_bytes();
  for (std::uint32_t h = 0; h < shape_.kv_heads; ++h) {
    Hash256 hash;
    if (!before.empty()) {
      std::ranges::copy(before.subspan(h * sizeof(Hash256), sizeof(Hash256)), hash.bytes.begin());
    }
    writer.append(ledger::chain_hash(hash, stored.subspan(h * size, size)).bytes);
  }
  return out;
}

Result<Bytes> TraceMath::attention(const kernels::KvLayout& layout, std::uint32_t kv_head,
                                   std::uint32_t group, std::span<const float> query,
                                   const std::vector<const std::byte*>& pages, std::uint32_t begin,
                                   std::uint32_t end) const {
  AlignedBuffer<float> scratch(kernels::attention_scratch(group, end - begin));
  Floats out(std::size_t{group} * layout.head_dim);
  kernels::AttentionArgs args;
  args.layout = layout;
  args.kv_head = kv_head;
  args.group = group;
  args.query = query.data();
  args.pages = pages.data();
  args.begin = begin;
  args.end = end;
  args.score_scale = shape_.score_scale;
  args.scratch = scratch.data();
  args.out = out.data();
  if (!table_.attention(args)) return out_of_range("query");
  return bytes_of(out);
}

Result<Bytes> TraceMath::attention_of(std::span<const float> query, ByteSpan rows) const {
  const kernels::KvLayout layout{1, shape_.head_dim};
  const std::size_t size = layout.slot_bytes();
  const auto count = static_cast<std::uint32_t>(rows.size() / size);
  REQUIRE(count > 0 && rows.size() % size == 0, "the rows of attention are no whole ones");
  const std::uint32_t paged = (count + kernels::kPageTokens - 1) / kernels::kPageTokens;
  const std::size_t page_bytes = layout.page_bytes();
  AlignedBuffer<std::byte> memory(paged * page_bytes);
  std::fill_n(memory.data(), paged * page_bytes, std::byte{});
  std::vector<const std::byte*> pages;
  for (std::uint32_t i = 0; i < paged; ++i) pages.push_back(memory.data() + i * page_bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const ByteSpan row = rows.subspan(i * size, size);
    TRY_VOID(check_stored(layout, row));
    kernels::scalar::kv_place(layout, row.data(),
                              memory.data() + i / kernels::kPageTokens * page_bytes,
                              i % kernels::kPageTokens);
  }
  return attention(layout, 0, 1, query, pages, 0, count);
}

Result<TraceMath::Floats> TraceMath::join(Floats x, Floats delta, const Floats& post_norm) const {
  const auto n = static_cast<std::uint32_t>(x.size());
  if (!post_norm.empty() &&
      !table_.rms_norm(delta.data(), post_norm.data(), shape_.epsilon, n, delta.data())) {
    return out_of_range("norm behind a sublayer");
  }
  table_.add(x.data(), delta.data(), n);
  return x;
}

Result<Bytes> TraceMath::activate(const Floats& gate, const Floats& up) const {
  QuantisedRow out(static_cast<std::uint32_t>(gate.size()));
  const auto entry = shape_.has(TraceShape::kGelu) ? table_.geglu_quantize : table_.swiglu_quantize;
  if (!entry(gate.data(), up.data(), out.view(), 0)) return out_of_range("activation");
  return out.bytes();
}

Result<Bytes> TraceMath::round(Floats x) const {
  std::vector<std::uint16_t> bits(x.size());
  if (!table_.residual_round(x.data(), bits.data(), static_cast<std::uint32_t>(x.size()),
                             shape_.residual_shift)) {
    return out_of_range("residual");
  }
  const ByteSpan bytes = std::as_bytes(std::span(bits));
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace hearth::node
