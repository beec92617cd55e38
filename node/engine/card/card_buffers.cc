#include "node/engine/card/card_buffers.h"

#include <algorithm>

#include "proto/split.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kWordArrays = 8;  // of StepWords, beside the first and the pages
constexpr std::uint32_t kFirstWords = 64;

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

bool CardShape::has_local() const {
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    if (spec->is_local(i)) return true;
  }
  return false;
}

std::uint32_t CardShape::head_rows() const { return std::min(kHeadRows, rows); }

StepWords StepWords::at(std::uint32_t* words, std::uint32_t rows) {
  StepWords out;
  out.entries = words;
  words += kFirstWords;
  for (std::uint32_t** array : {&out.tokens, &out.slots, &out.first, &out.own, &out.ends,
                                &out.begins, &out.local_begins, &out.sampled}) {
    *array = words;
    words += rows;
  }
  out.pages = words;
  return out;
}

std::size_t StepWords::count(std::uint32_t rows, std::uint32_t pages) {
  return kFirstWords + std::size_t{kWordArrays} * rows + pages;
}

CardBuffers CardBuffers::place(const CardShape& shape, Placement& placement) {
  const model::ModelSpec& spec = *shape.spec;
  const std::size_t rows = shape.rows;
  const std::size_t layers = shape.layers.size();
  CardBuffers out;
  for (StepArrays& step : out.steps) {
    step.place(shape,
               [&]<typename T>(T*& array, std::size_t count) { array = placement.take<T>(count); });
  }
  out.tables = placement.take<const std::byte*>(layers * shape.kv_pages);
  out.token_tables = placement.take<const std::byte* const*>(layers * rows);
  out.token_pages = placement.take<std::byte*>(layers * rows);

  out.x = placement.take<float>(rows * spec.hidden);
  out.query = placement.take<float>(rows * shape.wide());
  out.key = placement.take<float>(rows * shape.narrow());
  out.value = placement.take<float>(rows * shape.narrow());
  out.mixed = placement.take<float>(rows * shape.wide());
  out.gate = placement.take<float>(rows * spec.feed_forward);
  out.up = placement.take<float>(rows * spec.feed_forward);
  out.delta = placement.take<float>(rows * spec.hidden);

  const std::size_t widest = std::max({spec.hidden, shape.wide(), spec.feed_forward});
  const std::size_t blocks = rows * (widest / kernels::kBlock);
  out.quant.values = placement.take<std::int8_t>(rows * widest);
  out.quant.scales = placement.take<float>(blocks);
  out.quant.sums = placement.take<float>(blocks);
  out.quant.block_sums = placement.take<std::int32_t>(blocks);
  out.quant.exponents = placement.take<std::int32_t>(rows);

  std::uint32_t outputs = std::max({spec.hidden, shape.wide(), spec.feed_forward});
  if (shape.is_last()) {
    for (float*& logits : out.logits) {
      logits = placement.take<float>(std::size_t{shape.head_rows()} * spec.vocabulary);
    }
    out.draw_scratch =
        placement.take<std::int32_t>(std::size_t{shape.head_rows()} * spec.vocabulary);
    outputs = std::max(outputs, spec.vocabulary);
  }
  out.product_sums = kernels::cuda::product_sums(outputs);
  out.product_tickets = kernels::cuda::product_tickets(outputs);
  out.product.sums = placement.take<std::int32_t>(out.product_sums);
  out.product.tickets = placement.take<std::uint32_t>(out.product_tickets);
  const std::size_t of_row =
      kernels::cuda::attention_scores(1, spec.heads, pages_for(spec.context, kernels::kPageTokens));
  out.score_floats = std::max(of_row, std::min(rows * of_row, shape.score_floats));
  out.attention_state = kernels::cuda::attention_state_bytes(shape.rows, spec.heads, spec.head_dim);
  out.attention.scores = placement.take<float>(out.score_floats);
  out.attention.state = placement.take<std::byte>(out.attention_state);
  return out;
}

Result<HostBuffers> HostBuffers::allocate(const CardShape& shape) {
  const model::ModelSpec& spec = *shape.spec;
  HostBuffers out;
  std::size_t bytes = 0;
  // Once to count, once to point.
  for (int pass = 0; pass < 2; ++pass) {
    bytes = 0;
    const auto take = [&]<typename T>(T*& array, std::size_t count) {
      if (pass == 1) array = reinterpret_cast<T*>(out.memory.data() + bytes);
      bytes += rounded(count * sizeof(T));
    };
    for (StepArrays& step : out.steps) step.place(shape, take);
    const std::size_t logits =
        shape.is_last() ? std::size_t{shape.head_rows()} * spec.vocabulary : 0;
    for (float*& half : out.logits) take(half, logits);
    take(out.page, spec.kv_layout(0).page_bytes());
    if (pass == 0) {
      TRY(out.memory, kernels::cuda::PinnedMemory::allocate(bytes));
    }
  }
  return Result<HostBuffers>(std::move(out));
}

}  // namespace hearth::node
