#include "node/engine/card/card_input.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "node/engine/kv_cache.h"
#include "proto/split.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

CardInput::CardInput(const CardStage& stage, kernels::ThreadPool& pool)
    : stage_(stage), pool_(pool), frequencies_(stage.spec().rope_frequencies()) {
  const LayerRange layers = stage.shape().layers;
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    if (stage.spec().is_local(i)) local_layer_ = i;
  }
  if (local_layer_) local_frequencies_ = stage.spec().local_rope_frequencies();
}

StepReach CardInput::fill(std::uint32_t set, std::span<const ForwardRow> rows,
                          std::span<const std::uint32_t> sampled) {
  INVARIANT(set < kStepsUnderWay, "each step under way has its own arrays");
  INVARIANT(!rows.empty() && rows.size() <= stage_.shape().rows, "the arrays hold the step");
  set_ = set;
  rows_ = static_cast<std::uint32_t>(rows.size());
  entries_ = 0;
  const StepReach reach = fill_words(rows, sampled);
  fill_angles(rows);
  return rounded(reach);
}

StepReach CardInput::fill_words(std::span<const ForwardRow> rows,
                                std::span<const std::uint32_t> sampled) {
  INVARIANT(sampled.size() <= rows.size(), "a row is sampled once");
  const StepWords words = stage_.host_words(set_);
  StepReach reach{1, 1};
  std::uint32_t begins_at = 0;
  for (std::uint32_t i = 0; i < rows_; ++i) {
    const ForwardRow& row = rows[i];
    if (i == 0 || row.pages != rows[i - 1].pages) {
      begins_at = entries_;
      INVARIANT(row.pages->size() <= stage_.shape().kv_pages - entries_, "a page has one owner");
      std::copy(row.pages->begin(), row.pages->end(), words.pages + entries_);
      entries_ += static_cast<std::uint32_t>(row.pages->size());
    }
    const std::uint32_t own = row.position / kernels::kPageTokens;
    const std::uint32_t local_begin =
        local_layer_ ? stage_.spec().first_visible(*local_layer_, row.position) : 0;
    words.tokens[i] = static_cast<std::uint32_t>(row.token);
    words.slots[i] = row.position % kernels::kPageTokens;
    words.first[i] = begins_at;
    words.own[i] = begins_at + own;
    words.ends[i] = row.position + 1;
    words.begins[i] = 0;
    words.local_begins[i] = local_begin;
    reach.all = std::max(reach.all, own + 1);
    reach.local = std::max(reach.local, own + 1 - local_begin / kernels::kPageTokens);
  }
  std::copy(sampled.begin(), sampled.end(), words.sampled);
  *words.entries = entries_;
  return reach;
}

// Powers of two from eight pages on: a split of attention takes at least eight, and few reaches
// mean few graphs.
StepReach CardInput::rounded(const StepReach& reach) const {
  const std::uint32_t most = pages_for(stage_.spec().context, kernels::kPageTokens);
  const auto round = [&](std::uint32_t n) {
    return std::min(most, std::max(8U, std::bit_ceil(n)));
  };
  return {round(reach.all), round(reach.local)};
}

void CardInput::fill_angles(std::span<const ForwardRow> rows) {
  const StepArrays& to = stage_.host(set_);
  pool_.parallel_for(rows_, 16, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::size_t at = std::size_t{i} * stage_.spec().head_dim;
      kernels::rope_table_row(rows[i].position, frequencies_, stage_.spec().rope_magnitude,
                              to.angles + at);
      if (local_frequencies_.empty()) continue;
      kernels::rope_table_row(rows[i].position, local_frequencies_,
                              stage_.spec().local_rope_magnitude(), to.local_angles + at);
    }
  });
}

Status CardInput::send() const {
  INVARIANT(rows_ > 0, "a step is filled before it is sent");
  const StepArrays& card = stage_.card(set_);
  const StepArrays& host = stage_.host(set_);
  const auto copy = [&]<typename T>(T* to, const T* from, std::size_t count) {
    return cuda::copy_to_device(to, from, count * sizeof(T), stage_.upload());
  };
  const std::size_t angles = std::size_t{rows_} * stage_.spec().head_dim;
  TRY_VOID(copy(card.words, host.words, StepWords::count(stage_.shape().rows, entries_)));
  TRY_VOID(copy(card.angles, host.angles, angles));
  if (local_layer_) TRY_VOID(copy(card.local_angles, host.local_angles, angles));
  if (stage_.shape().is_first()) return ok_status();
  return copy(card.bits, host.bits, std::size_t{rows_} * stage_.spec().hidden);
}

}  // namespace hearth::node
