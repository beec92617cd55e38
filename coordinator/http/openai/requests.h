// Bodies of /v1/chat/completions and /v1/completions to one checked GenerationRequest. Unknown
// fields are ignored, null equals absent, every number has a range, and the error names the field.
// Pure functions: no clock, no randomness, never throw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coordinator/audit_outcome.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/http/openai/json.h"
#include "model/chat_template.h"
#include "proto/step.h"

namespace hearth::coordinator::http {

// What a request is checked against.
struct ModelBounds {
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct GenerationRequest {
  bool chat = true;
  std::string model;
  std::vector<model::ChatMessage> messages;  // chat
  std::vector<Prompt> prompts;               // completions, at least one

  std::uint32_t n = 1;  // choices of each prompt
  bool stream = false;
  bool include_usage = false;
  std::optional<std::uint32_t> max_tokens;  // absent: the default of the endpoint
  std::optional<std::uint64_t> seed;        // absent: a random one, reported back
  std::vector<std::string> stop;
  // Without seed, max_tokens and stop_tokens, which are known later.
  SamplingParams sampling;
  bool ignore_eos = false;
  bool return_token_ids = false;
  bool return_hashes = false;
  std::vector<std::string> trust;  // names of nodes; empty: the key's, or any
  bool echo = false;               // completions
  std::string owner = {};          // the id of the key that asks
  PublicKey account = {};          // whose credit it spends, where there are credits
  // `hearth` of the body; absent: the server's.
  std::optional<Verify> verify = {};
  std::optional<ledger::Level> min_level = {};
  bool verify_strict = false;  // refused where it cannot be verified
  bool share = false;          // newcomers may compute it again
};

// Completions that name no max_tokens get OpenAI's default.
inline constexpr std::uint32_t kCompletionMaxTokens = 16;

ApiResult<GenerationRequest> parse_chat_request(const Json& body, const ModelBounds& bounds);
ApiResult<GenerationRequest> parse_completion_request(const Json& body, const ModelBounds& bounds);

class FieldReader;

// `messages` of a chat; shared with /apply-template.
std::vector<model::ChatMessage> parse_messages(FieldReader& fields);

// An array of token ids; nothing, and a failed reader, when one is out of the vocabulary.
std::optional<std::vector<TokenId>> parse_token_ids(FieldReader& fields, const char* name,
                                                    const Json& array, std::uint32_t vocabulary);

}  // namespace hearth::coordinator::http
