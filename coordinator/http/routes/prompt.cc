#include "coordinator/http/routes/prompt.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

std::string special_text(const model::Tokenizer& tokenizer, TokenId token) {
  return token < 0 ? std::string() : tokenizer.token_bytes(token, true);
}

}  // namespace

Result<std::vector<model::PromptPiece>> render_chat(const ServedModel& served,
                                                    std::int64_t unix_seconds,
                                                    std::vector<model::ChatMessage> messages,
                                                    bool add_generation_prompt) {
  model::ChatTemplateInput input;
  input.messages = std::move(messages);
  input.add_generation_prompt = add_generation_prompt;
  return render_prompt(served, unix_seconds, std::move(input));
}

model::ChatTemplateInput template_input(GenerationRequest& request) {
  model::ChatTemplateInput input;
  input.messages = std::move(request.messages);
  input.tools = request.tools;
  input.variables = request.template_variables;
  input.add_generation_prompt = request.add_generation_prompt;
  input.continue_final_message = request.continue_final_message;
  return input;
}

std::string prompt_tail(const std::vector<model::PromptPiece>& pieces, bool continued) {
  if (pieces.empty()) return {};
  std::string tail = pieces.back().text;
  if (pieces.back().from_user) {
    if (!continued) return {};
    // The text that the answer continues may have begun a thought.
    if (pieces.size() > 1) tail.insert(0, pieces[pieces.size() - 2].text);
  }
  return tail.substr(tail.size() - std::min(tail.size(), limits::kPromptTailBytes));
}

Result<std::vector<model::PromptPiece>> render_prompt(const ServedModel& served,
                                                      std::int64_t unix_seconds,
                                                      model::ChatTemplateInput input) {
  if (served.syntax) {
    input.object_arguments = served.syntax->object_arguments;
    model::describe_tools(*served.syntax, input);
  }
  input.unix_seconds = unix_seconds;
  input.bos_token = special_text(*served.tokenizer, served.tokenizer->bos());
  input.eos_token = special_text(*served.tokenizer, served.tokenizer->eos());
  for (const auto& [name, token] : served.tokenizer->named_tokens()) {
    input.named_tokens.emplace_back(name, special_text(*served.tokenizer, token));
  }
  auto rendered = served.chat_template->render(input);
  if (!rendered.ok() && input.tools.empty()) {
    // Some templates (Hermes) iterate over the tools even if there are none, and none is not a
    // list.
    input.variables.insert(input.variables.end(), {{"tools", "[]"}, {"documents", "[]"}});
    auto again = served.chat_template->render(input);
    if (again.ok()) rendered = std::move(again);
  }
  TRY(std::vector<model::PromptPiece> pieces, std::move(rendered));
  std::vector<model::PromptPiece> joined;
  for (model::PromptPiece& piece : pieces) {
    if (piece.text.empty()) continue;
    if (!joined.empty() && joined.back().from_user == piece.from_user) {
      joined.back().text += piece.text;
    } else {
      joined.push_back(std::move(piece));
    }
  }
  return joined;
}

Result<std::vector<TokenId>> encode_pieces(const model::Tokenizer& tokenizer,
                                           const std::vector<model::PromptPiece>& pieces) {
  std::vector<model::TextPiece> texts;
  texts.reserve(pieces.size());
  for (const model::PromptPiece& piece : pieces) {
    texts.push_back(
        {piece.text, piece.from_user ? model::SpecialTokens::kText : model::SpecialTokens::kParse});
  }
  TRY(std::vector<TokenId> ids, tokenizer.encode_pieces(texts, false));
  const TokenId bos = tokenizer.bos();
  const bool has_bos = !ids.empty() && ids.front() == bos;
  if (tokenizer.adds_bos() && bos >= 0 && !has_bos) ids.insert(ids.begin(), bos);
  return ids;
}

Result<std::vector<TokenId>> encode_text(const model::Tokenizer& tokenizer, std::string_view text) {
  return encode_pieces(tokenizer, {{std::string(text), false}});
}

std::optional<ApiError> check_bytes(const ServedModel& served, std::size_t bytes,
                                    const char* param) {
  const std::uint64_t longest = served.tokenizer->longest_token_bytes();
  const std::uint64_t context = served.spec.context;
  if (longest == 0 || bytes <= context * longest) return std::nullopt;
  return ApiError::invalid(fmt::format("the text has {} bytes; the model's context of {} tokens "
                                       "holds at most {} (its longest token has {})",
                                       bytes, context, context * longest, longest),
                           param, "context_length_exceeded");
}

CanaryWords canary_words(const ServedModel& served, const Clock& clock) {
  CanaryWords words;
  words.end_tokens = served.tokenizer->end_tokens();
  words.prompt_of = [served, &clock](const std::vector<TokenId>& text) {
    const auto pieces =
        render_chat(served, clock.unix_seconds(), {{"user", decode_tokens(served, text, false)}});
    auto ids = pieces ? encode_pieces(*served.tokenizer, *pieces)
                      : Result<std::vector<TokenId>>(pieces.error());
    return ids ? *std::move(ids) : text;
  };
  return words;
}

std::string decode_tokens(const ServedModel& served, const std::vector<TokenId>& tokens,
                          bool show_special) {
  model::Detokenizer detokenizer(served.tokenizer, show_special);
  std::string text;
  for (const TokenId token : tokens) text += detokenizer.push(token);
  return text + detokenizer.finish();
}

}  // namespace hearth::coordinator::http
