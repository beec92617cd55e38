#include "node/engine/replay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/canonical.h"

namespace hearth::node {
namespace {

std::uint32_t pages_within(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget) {
  const std::uint64_t page = kernels::kPageTokens * (sizeof(Hash256) + row_bytes);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pages, budget / page));
}

}  // namespace

Replay::Replay(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget_bytes)
    : pages_(pages_within(pages, row_bytes, budget_bytes)),
      row_bytes_(row_bytes),
      inputs_(std::size_t{pages_} * kernels::kPageTokens),
      outputs_(std::size_t{pages_} * kernels::kPageTokens * row_bytes) {}

std::optional<std::size_t> Replay::index(const BlockTable& table, Position position) const {
  const std::uint32_t at = position / kernels::kPageTokens;
  if (at >= table.size() || table[at] >= pages_) return std::nullopt;
  return std::size_t{table[at]} * kernels::kPageTokens + position % kernels::kPageTokens;
}

void Replay::put_input(const BlockTable& table, Position position, const Hash256& in) {
  if (const auto at = index(table, position)) inputs_.data()[*at] = in;
}

void Replay::put_output(const BlockTable& table, Position position, ByteSpan out) {
  INVARIANT(out.size() == row_bytes_, "a kept row has the width of the stage's output");
  const auto at = index(table, position);
  if (at) std::memcpy(outputs_.data() + *at * row_bytes_, out.data(), row_bytes_);
}

bool Replay::came_in(const BlockTable& table, Position position, const Hash256& in) const {
  const auto at = index(table, position);
  return at && inputs_.data()[*at] == in;
}

ByteSpan Replay::output(const BlockTable& table, Position position) const {
  const auto at = index(table, position);
  INVARIANT(at, "the table still holds the page of a replayed row");
  return {outputs_.data() + *at * row_bytes_, row_bytes_};
}

void Replay::keep(Kept kept) {
  INVARIANT(kept.length <= kept.pages.size() * std::size_t{kernels::kPageTokens},
            "the pages hold the positions that are kept");
  kept_pages_ += static_cast<std::uint32_t>(kept.pages.size());
  kept_.push_back(std::move(kept));
}

std::optional<Replay::Kept> Replay::take(SequenceId sequence) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& kept) { return kept.sequence == sequence; });
  if (found == kept_.end()) return std::nullopt;
  Kept kept = std::move(*found);
  kept_.erase(found);
  INVARIANT(kept_pages_ >= kept.pages.size(), "every kept page is counted");
  kept_pages_ -= static_cast<std::uint32_t>(kept.pages.size());
  return kept;
}

std::optional<Replay::Kept> Replay::take_oldest() {
  if (kept_.empty()) return std::nullopt;
  return take(kept_.front().sequence);
}

}  // namespace hearth::node
