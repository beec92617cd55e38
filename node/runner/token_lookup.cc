#include "node/runner/token_lookup.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr std::size_t kLeastSlots = 256;
constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio

}  // namespace

// The slot for the tokens before `end`.
std::size_t TokenLookup::slot(std::size_t table, std::size_t end) const {
  INVARIANT(end >= kLengths[table], "as many tokens as are hashed stand before the end");
  std::uint64_t hash = 0;
  for (std::size_t i = end - kLengths[table]; i < end; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens_[i])) * kMultiplier;
    hash ^= hash >> 32;
  }
  return hash & (tables_[table].last.size() - 1);
}

void TokenLookup::insert(std::size_t table, std::size_t end) {
  std::vector<std::uint32_t>& earlier = tables_[table].earlier;
  std::uint32_t& last = tables_[table].last[slot(table, end)];
  if (earlier.size() <= end) earlier.resize(end + 1);
  earlier[end] = last;
  last = static_cast<std::uint32_t>(end);
}

// Keeps as many slots as there are tokens, so that few share one.
void TokenLookup::grow() {
  const std::size_t slots = tables_[0].last.size();
  if (tokens_.size() <= slots) return;
  for (std::size_t table = 0; table < kLengths.size(); ++table) {
    tables_[table].last.assign(std::max(2 * slots, kLeastSlots), 0);
    for (std::size_t end = kLengths[table]; end < tokens_.size(); ++end) insert(table, end);
  }
}

// How many tokens before `end` are the last ones.
std::uint32_t TokenLookup::agree(std::size_t end) const {
  INVARIANT(end < tokens_.size(), "an earlier end is compared");
  const std::size_t most = std::min<std::size_t>(end, kLongest);
  std::uint32_t length = 0;
  while (length < most && tokens_[end - 1 - length] == tokens_[tokens_.size() - 1 - length]) {
    ++length;
  }
  return length;
}

void TokenLookup::append(TokenId token) {
  tokens_.push_back(token);
  grow();
  earlier_ = 0;
  for (std::size_t table = 0; table < kLengths.size(); ++table) {
    if (tokens_.size() < kLengths[table]) continue;
    std::uint32_t end = tables_[table].last[slot(table, tokens_.size())];
    for (std::uint32_t step = 0; earlier_ == 0 && end != 0 && step < kSteps; ++step) {
      if (agree(end) >= kLengths[table]) earlier_ = end;
      end = tables_[table].earlier[end];
    }
    insert(table, tokens_.size());
  }
}

TokenLookup::Match TokenLookup::find(std::size_t most) const {
  if (earlier_ == 0) return {};
  return {agree(earlier_),
          std::span(tokens_).subspan(earlier_, std::min(most, tokens_.size() - earlier_))};
}

}  // namespace hearth::node
