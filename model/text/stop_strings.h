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

  // Text that may be shown now. After a match, this is the text before the first complete stop
  // string; all later text is dropped. The result does not depend on how a text is cut into pieces.
  std::string push(std::string_view text);
  // Ends the text: returns the held text, which did not become a stop string.
  std::string finish();
  bool matched() const { return !match_.empty(); }
  const std::string& match() const { return match_; }  // the stop string that was found; or empty

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string match_;
};

}  // namespace hearth::model
