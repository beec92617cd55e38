// Turns messages or text into token ids. Text of a chat's messages never becomes a control token.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/http/api/options.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

// The chat template's output as pieces. Adjacent pieces of one kind are joined, so that the
// tokenizer can merge across their border. `unix_seconds`: of the request, for templates that write
// the date.
Result<std::vector<model::PromptPiece>> render_chat(const ServedModel& served,
                                                    std::int64_t unix_seconds,
                                                    std::vector<model::ChatMessage> messages,
                                                    bool add_generation_prompt = true);
// The same with tools and all else that a template takes; the tokens and the time are added here.
Result<std::vector<model::PromptPiece>> render_prompt(const ServedModel& served,
                                                      std::int64_t unix_seconds,
                                                      model::ChatTemplateInput input);
// The input of the template from a request; its messages are moved.
model::ChatTemplateInput template_input(GenerationRequest& request);
// model::AnswerRules::prompt_tail of a prompt. `continued`: the answer goes on in a message.
std::string prompt_tail(const std::vector<model::PromptPiece>& pieces, bool continued);

// Pieces to ids, after BOS where the tokenizer requires it and the template did not write it.
Result<std::vector<TokenId>> encode_pieces(const model::Tokenizer& tokenizer,
                                           const std::vector<model::PromptPiece>& pieces);
// A completion's prompt. Its client writes it as the model reads it, so it may spell control
// tokens. After BOS where the tokenizer requires it and the text does not begin with it.
Result<std::vector<TokenId>> encode_text(const model::Tokenizer& tokenizer, std::string_view text);
// The prompts of the coordinator's own requests: a chat in which a user sends the text. `clock`
// outlives them.
CanaryWords canary_words(const ServedModel& served, const Clock& clock);
// Refuses a text that no context can hold by its number of bytes, before it is tokenised. `param`:
// the field that has it.
std::optional<ApiError> check_bytes(const ServedModel& served, std::size_t bytes,
                                    const char* param);
// Token ids to valid UTF-8.
std::string decode_tokens(const ServedModel& served, const std::vector<TokenId>& tokens,
                          bool show_special);

}  // namespace hearth::coordinator::http
