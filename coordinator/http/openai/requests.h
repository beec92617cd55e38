// Parses bodies of /v1/chat/completions and /v1/completions into one checked GenerationRequest.
// Fields that would change the answer and are not supported are refused by name
// (openai/unsupported.h), other unknown fields are ignored, null equals absent, every number has a
// range, and errors name the field. Pure functions that never throw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/http/openai/responses.h"
#include "coordinator/request.h"
#include "model/chat_template.h"
#include "model/grammar/grammar.h"
#include "model/text/tokenizer.h"
#include "proto/step.h"

namespace hearth::coordinator::http {

// The model's limits that a request is checked against.
struct ModelBounds {
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  std::uint32_t hidden = 0;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

// The fields of a body that set the policy: `hearth`, `trust`, `cache` and `cache_prompt`.
struct PolicyFields {
  std::vector<std::string> trust = {};
  std::optional<Verify> verify = {};
  std::optional<ledger::Level> min_level = {};
  bool share = false;
  CacheScope cache = CacheScope::kKey;
  bool drafts = true;  // hearth.speculation
};

// The policy of a request. A key's verify and min_level are a floor: a body raises them and never
// lowers them. `server`: the defaults, and the account of requests without a key.
RequestPolicy merged_policy(const RequestPolicy& key, const PolicyFields& body,
                            const RequestPolicy& server);

enum class ToolChoice : std::uint8_t {
  kAuto,
  kNone,      // tools are shown to the model and not called
  kRequired,  // at least one call
  kNamed,     // at least one call, of tool_name alone
};

// All dialects parse into this one message. With `chat`, messages and all that follows them up to
// continue_final_message are of the chat.
struct GenerationRequest {
  bool chat = true;
  std::string model;                         // empty: the one that is served
  std::vector<model::ChatMessage> messages;  // chat
  std::vector<Prompt> prompts;               // completions, at least one

  std::vector<model::ChatTool> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;            // with kNamed
  bool parallel_tool_calls = true;  // an answer may hold several calls
  // The form that the whole content must have: response_format and similar fields. Completions may
  // have it, too.
  std::optional<model::GrammarSource> format;
  std::string format_field;  // that asked for it
  // Names and JSON texts for the chat template: chat_template_kwargs, enable_thinking,
  // reasoning_effort.
  std::vector<std::pair<std::string, std::string>> template_variables;
  // Thoughts of the model are separate from the content; false: they stay in the content, as the
  // model wrote them.
  bool separate_reasoning = true;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the answer continues the last message (prefill)

  std::uint32_t n = 1;  // choices of each prompt
  bool stream = false;
  bool include_usage = false;
  std::optional<std::uint32_t> max_tokens;  // absent: the default of the endpoint
  bool fills_context = false;               // max_tokens is -1: all that the context has room for
  std::optional<std::uint64_t> seed;        // absent: a random one, reported back
  std::vector<std::string> stop;
  // Without seed, max_tokens and stop_tokens: sampling_params() adds them.
  SamplingParams sampling;
  bool ignore_eos = false;
  bool return_token_ids = false;
  bool return_hashes = false;
  bool echo = false;  // completions
  // The answer is only about the prompt: `echo` with max_tokens 0. One token is computed and not
  // sent.
  bool only_prompt = false;
  // The embeddings of the prompts are the answer; only_prompt is set.
  std::optional<EmbeddingForm> embedding;
  PolicyFields asked;    // by the body
  RequestPolicy policy;  // that it has: merged_policy()

  // The answer also has the log probabilities of the prompt's tokens.
  bool scores_prompt() const { return echo && sampling.logprobs; }
};

// Completions that name no max_tokens get OpenAI's default.
inline constexpr std::uint32_t kCompletionMaxTokens = 16;

ApiResult<GenerationRequest> parse_chat_request(const Json& body, const ModelBounds& bounds);
ApiResult<GenerationRequest> parse_completion_request(const Json& body, const ModelBounds& bounds);

// /v1/embeddings. The texts are the request's prompts.
ApiResult<GenerationRequest> parse_embedding_request(const Json& body, const ModelBounds& bounds);

class FieldReader;

// `messages` of a chat; shared with /apply-template.
std::vector<model::ChatMessage> parse_messages(FieldReader& fields);
// An array of token ids; nothing, and a failed reader, when an id is out of the vocabulary.
std::optional<std::vector<TokenId>> parse_token_ids(FieldReader& fields, const char* name,
                                                    const Json& array, std::uint32_t vocabulary);

// SamplingParams of one choice of a request: the only place that turns a request into the
// parameters for the sampler. `seed`: the seed for requests that name none. `choice`: its number in
// the whole answer, counted over all prompts; the choices of one prompt have consecutive seeds.
SamplingParams sampling_params(const GenerationRequest& request, std::uint64_t seed,
                               std::uint32_t choice, std::uint32_t max_tokens,
                               const model::Tokenizer& tokenizer);

}  // namespace hearth::coordinator::http
