// Messages or text to the token ids that the model reads. User text never becomes a control token.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "coordinator/http/server.h"

namespace hearth::coordinator::http {

// The chat template's output as pieces; neighbours of one kind are joined, so that a border inside
// one kind of text costs no merge.
Result<std::vector<model::PromptPiece>> render_chat(const ServedModel& served,
                                                    std::vector<model::ChatMessage> messages,
                                                    bool add_generation_prompt = true);

// Pieces to ids. BOS comes first where the tokenizer wants one, unless the template wrote it.
Result<std::vector<TokenId>> encode_pieces(const model::Tokenizer& tokenizer,
                                           const std::vector<model::PromptPiece>& pieces);

// A completion's prompt: user text, BOS as the tokenizer wants.
Result<std::vector<TokenId>> encode_text(const model::Tokenizer& tokenizer, std::string_view text);

// What the coordinator's own requests are made of: a chat in which a user says the text, as the API
// makes one.
CanaryWords canary_words(const ServedModel& served);

// Token ids to valid UTF-8.
std::string decode_tokens(const ServedModel& served, const std::vector<TokenId>& tokens,
                          bool show_special);

}  // namespace hearth::coordinator::http
