#include "cli/process/log_limiter.h"

#include <algorithm>
#include <utility>

namespace hearth::cli {
namespace {

constexpr std::size_t kWords = 12;  // first words of a line, which identify its kind
constexpr std::size_t kKindBytes = 128;

// The first words. A word with a digit is an id, an address or a number, which differs from line to
// line.
std::string kind_of(std::string_view line) {
  std::string kind;
  for (std::size_t words = 0; words < kWords && kind.size() < kKindBytes && !line.empty();) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    if (word.find_first_of("0123456789") != std::string_view::npos) continue;
    kind.append(word.substr(0, kKindBytes)).append(" ");
    ++words;
  }
  return kind;
}

}  // namespace

std::optional<std::uint64_t> LogLimiter::admit(std::string_view line, Time now) {
  std::string name = kind_of(line);
  if (!kinds_.contains(name) && kinds_.size() >= kKinds) {
    forget(now);
    if (kinds_.size() >= kKinds) name.clear();
  }
  Kind& kind = kinds_.try_emplace(name, Kind{kBurst, now, 0}).first->second;
  const std::chrono::duration<double> passed = now - kind.filled;
  kind.tokens = std::min<double>(kBurst, kind.tokens + passed / kInterval);
  kind.filled = now;
  if (kind.tokens < 1.0) {
    ++kind.left_out;
    return std::nullopt;
  }
  kind.tokens -= 1.0;
  return std::exchange(kind.left_out, 0);
}

// Forgets each kind that may write as many lines as a new kind.
void LogLimiter::forget(Time now) {
  std::erase_if(kinds_, [now](const auto& one) {
    const std::chrono::duration<double> passed = now - one.second.filled;
    return one.second.tokens + passed / kInterval >= kBurst;
  });
}

}  // namespace hearth::cli
