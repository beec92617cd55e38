#include "model/text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hearth::model {
namespace {

// Length of the longest tail of `text` that is a proper beginning of `stop`.
std::size_t partial_match(std::string_view text, std::string_view stop) {
  INVARIANT(!stop.empty(), "an empty stop string would end every text");
  std::size_t length = std::min(text.size(), stop.size() - 1);
  for (; length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  held_ += text;
  std::size_t first = std::string::npos;
  std::size_t first_end = std::string::npos;
  std::size_t hold = 0;
  for (const std::string& stop : stops_) {
    hold = std::max(hold, partial_match(held_, stop));
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    // The stop string that is complete first, as if the text arrived character by character.
    if (std::pair(at + stop.size(), at) < std::pair(first_end, first)) {
      first = at;
      first_end = at + stop.size();
      match_ = stop;
    }
  }
  if (matched()) {
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  INVARIANT(hold <= held_.size(), "only received text is held");
  // A stop string may begin inside a character only if it is broken UTF-8, which JSON refuses,
  // so the text is always split between characters.
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::finish() { return matched() ? std::string() : std::exchange(held_, {}); }

}  // namespace hearth::model
