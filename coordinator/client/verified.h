// Verified: the state of an answer's verification, from `verified`, `retracted` and `corrected` of
// its `hearth` object (README, "Verified answers").
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace hearth::client {

struct Verified {
  std::string state;     // verified, verifying, by_draw, unverified, disputed, retracted; or empty
  std::string sentence;  // for people; to be escaped before it is shown; empty: nothing
  // The right answer, where other tokens than those that were told are right.
  struct Right {
    std::string text;
    std::vector<TokenId> token_ids;
    std::string finish_reason;
  };
  std::optional<Right> right;
  nlohmann::json object;  // as it came

  // An auditor has another result, and the answer's was not found right.
  bool is_doubtful() const { return state == "disputed" || state == "retracted"; }
};

// Of the first choice. Throws nlohmann::json::exception where a field is of another kind.
Verified read_verified(const nlohmann::json& hearth);

}  // namespace hearth::client
