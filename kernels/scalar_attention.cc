// CANONICAL.md, "Keys and values" and "Attention", in code.
#include <algorithm>
#include <cstring>

#include "kernels/elementary.h"
#include "kernels/latent.h"
#include "kernels/matrix_view.h"
#include "kernels/preconditions.h"
#include "kernels/quantize_block.h"
#include "kernels/scalar.h"

namespace hearth::kernels::scalar {
namespace {

// One kv head of a page, by position in the page and dimension.
struct HeadPage {
  std::byte* keys;
  float* key_scales;
  std::int8_t* values;
  float* value_scales;
  std::uint32_t head_dim;

  std::byte& key(std::uint32_t slot, std::uint32_t d) const {
    return keys[((slot / 16) * (head_dim / 4) + d / 4) * 64 + (slot % 16) * 4 + d % 4];
  }
  float& key_scale(std::uint32_t slot, std::uint32_t block) const {
    return key_scales[((slot / 16) * (head_dim / kBlock) + block) * 16 + slot % 16];
  }
  std::int8_t& value(std::uint32_t slot, std::uint32_t d) const {
    return values[((slot / 4) * head_dim + d) * 4 + slot % 4];
  }
};

HeadPage head_page(const KvLayout& layout, const std::byte* page, std::uint32_t kv_head) {
  const PageOffsets offsets = page_offsets(layout.head_dim);
  std::byte* base = const_cast<std::byte*>(page) + kv_head * offsets.head_bytes;
  return {base, reinterpret_cast<float*>(base + offsets.key_scales),
          reinterpret_cast<std::int8_t*>(base + offsets.values),
          reinterpret_cast<float*>(base + offsets.value_scales), layout.head_dim};
}

bool in_range(const float* x, std::uint32_t n) {
  return largest_magnitude(x, n) <= std::bit_cast<std::uint32_t>(kAttentionMax);
}

void write_head(const HeadPage& page, std::uint32_t slot, const float* k, const float* v) {
  std::int8_t quants[kHeadDimMax];
  for (std::uint32_t b = 0; b < page.head_dim / kBlock; ++b) {
    page.key_scale(slot, b) = quantize_block(k + b * kBlock, kBlock, quants).scale;
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      page.key(slot, b * kBlock + i) = static_cast<std::byte>(quants[i] + 128);
    }
  }
  page.value_scales[slot] = quantize_block(v, page.head_dim, quants).scale;
  for (std::uint32_t d = 0; d < page.head_dim; ++d) page.value(slot, d) = quants[d];
}

struct Query {
  std::int8_t values[kHeadDimMax];
  float scales[kHeadDimMax / kBlock];  // with the score scale and log2(e) folded in
};

void quantize_query(const float* x, std::uint32_t head_dim, float score_scale, Query& out) {
  const float factor = score_scale * kLog2E;
  for (std::uint32_t b = 0; b < head_dim / kBlock; ++b) {
    const std::uint32_t at = b * kBlock;
    out.scales[b] = quantize_block(x + at, kBlock, out.values + at).scale * factor;
  }
}

float score(const Query& query, const HeadPage& page, std::uint32_t slot) {
  float sum = 0.0F;
  for (std::uint32_t b = 0; b < page.head_dim / kBlock; ++b) {
    std::int32_t dot = 0;
    for (std::uint32_t d = b * kBlock; d < (b + 1) * kBlock; ++d) {
      dot += query.values[d] * (std::to_integer<int>(page.key(slot, d)) - 128);
    }
    sum = std::fma(static_cast<float>(dot), query.scales[b] * page.key_scale(slot, b), sum);
  }
  return sum;
}

// One query head. `sink`: its logit, or null. `weights` has room for end - begin floats.
void attend(const AttentionArgs& args, const float* query_values, const float* sink, float* weights,
            float* out) {
  const std::uint32_t head_dim = args.layout.head_dim;
  const auto page_at = [&](std::uint32_t position) {
    return head_page(args.layout, args.pages[position / kPageTokens], args.kv_head);
  };
  Query query;
  quantize_query(query_values, head_dim, args.score_scale, query);

  const float cap = args.score_cap * kLog2E;  // scores are of base 2
  const float rate = cap > 0.0F ? softcap_rate(cap) : 0.0F;
  float maximum = 0.0F;
  for (std::uint32_t i = args.begin; i < args.end; ++i) {
    float s = score(query, page_at(i), i % kPageTokens);
    if (cap > 0.0F) s = softcap_of(s, cap, rate);
    weights[i - args.begin] = s;
    maximum = i == args.begin ? s : std::max(maximum, s);
  }

  std::int64_t denominator = 0;
  if (sink != nullptr) {
    const float z = *sink * kLog2E;
    maximum = std::max(maximum, z);
    denominator = round_even(exp2_of(z - maximum) * 0x1p24F);
  }
  float largest = 0.0F;
  for (std::uint32_t i = args.begin; i < args.end; ++i) {
    float& weight = weights[i - args.begin];
    const float w = exp2_of(weight - maximum);
    denominator += round_even(w * 0x1p24F);
    weight = w * page_at(i).value_scales[i % kPageTokens];
    largest = std::max(largest, weight);
  }
  std::fill(out, out + head_dim, 0.0F);
  if (largest < kTiny) return;

  std::int64_t sums[kHeadDimMax] = {};
  const float to_integer = 65535.0F / largest;
  for (std::uint32_t i = args.begin; i < args.end; ++i) {
    const std::int64_t p = round_even(weights[i - args.begin] * to_integer);
    const HeadPage page = page_at(i);
    for (std::uint32_t d = 0; d < head_dim; ++d) sums[d] += p * page.value(i % kPageTokens, d);
  }
  const float r = (largest / 65535.0F) / (static_cast<float>(denominator) * 0x1p-24F);
  for (std::uint32_t d = 0; d < head_dim; ++d) out[d] = static_cast<float>(sums[d]) * r;
}

}  // namespace

bool kv_write(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* k,
              const float* v) {
  check_kv_slot(layout, page, slot);
  const std::uint32_t n = layout.kv_heads * layout.head_dim;
  if (!in_range(k, n) || !in_range(v, n)) return false;
  for (std::uint32_t h = 0; h < layout.kv_heads; ++h) {
    const std::size_t at = std::size_t{h} * layout.head_dim;
    write_head(head_page(layout, page, h), slot, k + at, v + at);
  }
  return true;
}

bool attention(const AttentionArgs& args) {
  check_attention(args);
  const std::uint32_t head_dim = args.layout.head_dim;
  if (!in_range(args.query, args.group * head_dim) ||
      (args.sinks != nullptr && !in_range(args.sinks, args.group))) {
    std::fill(args.out, args.out + std::size_t{args.group} * head_dim, 0.0F);
    return false;
  }
  for (std::uint32_t g = 0; g < args.group; ++g) {
    const std::size_t at = std::size_t{g} * head_dim;
    const float* sink = args.sinks != nullptr ? args.sinks + g : nullptr;
    attend(args, args.query + at, sink, args.scratch, args.out + at);
  }
  return true;
}

}  // namespace hearth::kernels::scalar

namespace hearth::kernels {

std::size_t KvLayout::slot_bytes() const {
  if (latent != 0) return head_dim + head_dim / kBlock * sizeof(float);
  return kv_heads * (2 * std::size_t{head_dim} + (head_dim / kBlock + 1) * sizeof(float));
}

void kv_read(const KvLayout& layout, const std::byte* page, std::uint32_t slot, std::byte* out) {
  if (layout.latent != 0) {
    latent_read(layout, page, slot, out);
    return;
  }
  check_kv_slot(layout, page, slot);
  const auto put = [&out](const auto value) {
    std::memcpy(out, &value, sizeof(value));
    out += sizeof(value);
  };
  for (std::uint32_t h = 0; h < layout.kv_heads; ++h) {
    const scalar::HeadPage head = scalar::head_page(layout, page, h);
    for (std::uint32_t d = 0; d < layout.head_dim; ++d) {
      put(static_cast<std::int8_t>(std::to_integer<int>(head.key(slot, d)) - 128));
    }
    for (std::uint32_t b = 0; b < layout.head_dim / kBlock; ++b) put(head.key_scale(slot, b));
    for (std::uint32_t d = 0; d < layout.head_dim; ++d) put(head.value(slot, d));
    put(head.value_scales[slot]);
  }
}

}  // namespace hearth::kernels
