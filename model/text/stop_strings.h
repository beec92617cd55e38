// StopMatcher: finds stop strings in text that arrives in pieces, and holds back exactly the tail
// that may still become one. A stop string is never shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::model {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  // Text that may be shown now. After a match it is what stood before the stop string that was
  // complete first, and everything later is dropped. How a text is cut into pieces does not matter.
  std::string push(std::string_view text);
  // The end of the text: what was held back and never became a stop string.
  std::string finish();
  bool matched() const { return !match_.empty(); }
  const std::string& match() const { return match_; }  // the stop string that was found; or empty

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string match_;
};

}  // namespace hearth::model
