#include "cli/watch/rate_history.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace hearth::cli {
namespace {

constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

void RateHistory::add(double rate) {
  rates_[added_++ % kReadings] = std::isfinite(rate) ? std::max(rate, 0.0) : 0.0;
}

std::string RateHistory::line() const {
  if (added_ < 2) return "";
  const std::size_t count = std::min(added_, kReadings);
  const double most = *std::ranges::max_element(rates_);
  std::string text;
  for (std::size_t i = added_ - count; i < added_; ++i) {
    const double share = most > 0.0 ? rates_[i % kReadings] / most : 0.0;
    const auto height = static_cast<std::size_t>(std::lround(share * (kBlocks.size() - 1)));
    INVARIANT(height < kBlocks.size(), "a reading is at most the largest one");
    text += kBlocks[height];
  }
  return text + fmt::format("  at most {:.1f}", most);
}

}  // namespace hearth::cli
