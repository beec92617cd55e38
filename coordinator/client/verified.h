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
  std::string sentence;  // for people, to be escaped before display; may be empty
  // The corrected answer, when the sent tokens are wrong.
  struct Right {
    std::string text;
    std::vector<TokenId> token_ids;
    std::string finish_reason;
  };
  std::optional<Right> right;
  nlohmann::json object;  // as received

  // An auditor's result differs, and the answer was not confirmed.
  bool is_doubtful() const { return state == "disputed" || state == "retracted"; }
};

// Reads the first choice. Throws nlohmann::json::exception when a field has another type.
Verified read_verified(const nlohmann::json& hearth);

}  // namespace hearth::client
