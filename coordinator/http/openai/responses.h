// Bodies of answers in OpenAI's shapes: whole objects and stream chunks of both endpoints. Pure
// functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "coordinator/http/openai/json.h"
#include "model/text/tokenizer.h"
#include "proto/step.h"

namespace hearth::coordinator::http {

// `logprobs` in the shapes of chat (content[] of objects) and of legacy completions (parallel
// arrays). Token strings are valid UTF-8; chat also has the exact bytes.
OrderedJson chat_logprobs(const std::vector<SampledToken>& tokens,
                          const model::Tokenizer& tokenizer);
// `text_offset`: characters of the completion before the first token. `begins_prompt`: the first
// token is the prompt's first. Nothing predicts it, so its log probability is null.
OrderedJson completion_logprobs(const std::vector<SampledToken>& tokens, std::uint64_t text_offset,
                                const model::Tokenizer& tokenizer, bool begins_prompt = false);
// Characters of a UTF-8 text; what completion_logprobs counts.
std::uint64_t utf8_characters(std::string_view text);

// The fields that all objects of one answer share.
struct AnswerHead {
  bool chat = true;
  std::string id;  // one for the whole stream
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
  bool include_usage = false;  // chunks then carry "usage": null
};

// How the embeddings of a request are computed and written.
struct EmbeddingForm {
  std::uint32_t values = 0;  // number of values of each: the first ones, normalised to length 1
  bool base64 = false;       // of their fp32 numbers, little-endian; else an array of numbers
  bool one = false;          // Ollama's /api/embeddings: a vector in place of a list of them
  bool truncate = false;     // a text that is too long is cut; false: it is refused
};

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t reasoning_tokens = 0;  // completion tokens up to the end of the thoughts
  std::uint64_t cached_tokens = 0;     // of the prompt, that were not computed
};

// llama-server's `timings`.
struct Timings {
  std::uint64_t prompt_tokens = 0;
  double prompt_ms = 0.0;
  std::uint64_t predicted_tokens = 0;
  double predicted_ms = 0.0;
  std::uint64_t cached_tokens = 0;  // of the prompt_tokens
  DraftCounts drafts{};
};

// A part of one call. The first part of a call carries its id and name, and the arguments of all
// parts, joined, are the JSON text of an object.
struct ToolCallPart {
  std::uint32_t index = 0;  // of the call in its choice
  std::string id;           // empty: a later part
  std::string name;         // likewise
  std::string arguments;
};

// A part of one choice: the text since its last chunk, or the whole.
struct ChoicePart {
  std::uint32_t index = 0;
  std::string text;
  std::string reasoning;                 // chat: what the model thinks, beside the text
  std::vector<ToolCallPart> tool_calls;  // chat, in order of their index
  bool first = false;                    // chat: the delta that carries the role
  std::vector<TokenId> token_ids;        // written when `with_token_ids`
  bool with_token_ids = false;
  std::vector<SampledToken> logprobs;  // written when `with_logprobs`
  bool with_logprobs = false;
  bool begins_prompt = false;     // they begin with those of an echoed prompt
  std::uint64_t text_offset = 0;  // legacy logprobs: characters before the first of them
  std::string finish_reason;      // "stop", "length", "tool_calls"; empty while it goes on
  std::string stop_string;        // the one that ended it; or empty
  std::shared_ptr<const std::vector<float>> embedding = {};  // of its prompt; or null
};

struct ChoiceHashes {
  std::uint32_t choice = 0;
  std::vector<RowHash> hashes;
};

// The values with which a client proves its answer: the name of its receipts, and the committed
// values that the request does not contain.
struct AnswerProof {
  std::string receipt;
  std::string salt;              // hex, of its receipts (PROTOCOL.md, 2)
  std::uint32_t max_tokens = 0;  // the length that each choice was allowed
};

// The `hearth` object: the values for an exact repetition, and the hashes when requested. `proof`:
// nothing when no receipts are made.
OrderedJson hearth_object(std::uint64_t seed, const std::optional<AnswerProof>& proof,
                          const std::vector<ChoiceHashes>& hashes, bool with_hashes);
OrderedJson usage_object(const Usage& usage);
// The calls of a part. `streamed`: with their index, and without fields that an earlier part had.
OrderedJson calls_of(const ChoicePart& part, bool streamed);
OrderedJson timings_object(const Timings& timings);
// The non-streaming answer.
OrderedJson answer_object(const AnswerHead& head, const std::vector<ChoicePart>& choices,
                          const Usage& usage, const Timings& timings, OrderedJson hearth,
                          const model::Tokenizer& tokenizer);
// One stream chunk with one choice. `extra` holds keys to add at the top (timings, hearth).
OrderedJson chunk_object(const AnswerHead& head, const ChoicePart& part, OrderedJson extra,
                         const model::Tokenizer& tokenizer);
// The last chunk of stream_options.include_usage: no choices.
OrderedJson usage_chunk(const AnswerHead& head, const Usage& usage, const Timings& timings);
// A chunk with the hearth object and no choices.
OrderedJson hearth_chunk(const AnswerHead& head, OrderedJson hearth);

}  // namespace hearth::coordinator::http
