// SavedAnswer: a request with its answer as a client has stored them, from which the answer's
// receipts are recomputed. Two forms are read: the file of `hearth run --receipt`, one object
// {"request": ..., "answer": ...}; and the two bodies of any OpenAI client, each in a file, the
// answer as one object or as the events of a stream.
//
// Any bytes may be parsed. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"

namespace hearth::client {

inline constexpr std::size_t kSavedAnswerBytes = std::size_t{64} << 20;
inline constexpr std::uint32_t kSavedChoices = 65'536;  // as a receipt can number them

struct SavedCall {
  std::string name;
  std::string arguments;
};

struct SavedChoice {
  std::string text;
  std::optional<std::string> reasoning = {};  // nothing: not saved
  std::vector<SavedCall> calls = {};
  std::optional<std::vector<TokenId>> token_ids = {};  // with return_token_ids
  std::optional<std::string> finish_reason = {};       // nothing: the answer is incomplete
  // With return_hashes: the hash of a stage's output, [stage][position].
  std::map<std::uint32_t, std::map<Position, Hash256>> hashes = {};
};

struct SavedAnswer {
  // The body of the request, a JSON object, kept as text because templates and schemas depend on
  // the order of its members.
  std::string request;
  std::string receipt;  // hearth.receipt, unchecked
  Hash256 salt;
  std::uint64_t seed = 0;
  std::uint32_t max_tokens = 0;
  std::optional<std::int64_t> created = {};
  bool says_verified = false;                         // the server states what audits found
  std::map<std::uint32_t, SavedChoice> choices = {};  // by index
};

// kInvalidInput names what is missing and how to get it. `request`: the request's body if it is a
// separate file; empty when both are one object.
Result<SavedAnswer> read_saved_answer(std::string_view answer, std::string_view request);
// The file of `hearth run --receipt`, for one choice.
std::string write_saved_answer(const nlohmann::json& request, const nlohmann::json& head,
                               const std::string& text, const std::vector<TokenId>& token_ids,
                               const std::string& finish_reason);

}  // namespace hearth::client
