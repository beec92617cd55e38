// `logprobs` in the shapes of chat (content[] of objects) and of legacy completions (parallel
// arrays). Token strings are valid UTF-8; chat also has the exact bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/http/openai/json.h"
#include "model/text/tokenizer.h"
#include "proto/step.h"

namespace hearth::coordinator::http {

OrderedJson chat_logprobs(const std::vector<SampledToken>& tokens,
                          const model::Tokenizer& tokenizer);

// `text_offset`: characters of the completion before the first token.
OrderedJson completion_logprobs(const std::vector<SampledToken>& tokens, std::uint64_t text_offset,
                                const model::Tokenizer& tokenizer);

// Characters of a UTF-8 text; what completion_logprobs counts.
std::uint64_t utf8_characters(std::string_view text);

}  // namespace hearth::coordinator::http
