#include "coordinator/http/routes/prompt.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/http/routes/tokens.h"
#include "tests/unit/coordinator/http/routes/served_model.h"

namespace hearth::coordinator::http {
namespace {

const ServedModel& served() { return tiny_model().served; }

constexpr std::int64_t kAsked = 1'717'245'296;  // 2024-06-01 12:34:56 UTC

// A template that writes BOS itself, user text between, and empty pieces.
class BosTemplate final : public model::ChatTemplate {
 public:
  Result<std::vector<model::PromptPiece>> render(
      const model::ChatTemplateInput& input) const override {
    std::vector<model::PromptPiece> out = {{"", false}, {input.bos_token, false}, {"", true}};
    for (const model::ChatMessage& message : input.messages) {
      if (message.content == "raise") return Error::invalid("the template refuses this");
      out.push_back({"[", false});
      out.push_back({"", true});
      out.push_back({message.content, true});
    }
    return out;
  }
};

// One id a byte, 256 is BOS, 257 is a control token that a template may write as "<c>".
class ByteTokenizer final : public model::Tokenizer {
 public:
  explicit ByteTokenizer(bool adds_bos) {
    vocabulary_ = 258;
    bos_ = adds_bos ? 256 : -1;
    adds_bos_ = adds_bos;
  }
  Result<std::vector<TokenId>> encode(std::string_view text, model::SpecialTokens special,
                                      bool add_bos) const override {
    std::vector<TokenId> out;
    if (add_bos && adds_bos_) out.push_back(bos_);
    const bool parse = special == model::SpecialTokens::kParse;
    while (!text.empty()) {
      const bool bos = parse && text.starts_with("<s>");
      const bool control = parse && text.starts_with("<c>");
      const TokenId byte = static_cast<unsigned char>(text[0]);
      out.push_back(bos ? 256 : control ? 257 : byte);
      text.remove_prefix(bos || control ? 3 : 1);
    }
    return out;
  }
  Result<std::vector<TokenId>> encode_pieces(std::span<const model::TextPiece> pieces,
                                             bool add_bos) const override {
    std::vector<TokenId> out;
    for (const model::TextPiece& piece : pieces) {
      const auto ids = encode(piece.text, piece.special, add_bos && out.empty());
      out.insert(out.end(), ids->begin(), ids->end());
    }
    return out;
  }
  std::string token_bytes(TokenId token, bool, bool) const override {
    return token == 256 ? "<s>" : token == 257 ? "<c>" : std::string(1, static_cast<char>(token));
  }
  bool is_special(TokenId token) const override { return token >= 256; }
};

ServedModel with_bytes(bool adds_bos) {
  ServedModel out = served();
  out.tokenizer = std::make_shared<const ByteTokenizer>(adds_bos);
  out.chat_template = std::make_shared<const BosTemplate>();
  return out;
}

TEST(PromptTest, PiecesAlternateAndJoinToTheWholeText) {
  for (std::size_t count = 1; count < 6; ++count) {
    const std::vector<model::ChatMessage> messages(count, {"user", "x"});
    auto pieces = render_chat(with_bytes(true), kAsked, messages);
    ASSERT_TRUE(pieces.ok());
    std::string whole;
    for (std::size_t i = 0; i < pieces->size(); ++i) {
      EXPECT_FALSE((*pieces)[i].text.empty());
      if (i > 0) {
        EXPECT_NE((*pieces)[i].from_user, (*pieces)[i - 1].from_user);
      }
      whole += (*pieces)[i].text;
    }
    std::string expected = "<s>";
    for (std::size_t i = 0; i < count; ++i) expected += "[x";
    EXPECT_EQ(whole, expected);
  }
}

TEST(PromptTest, BosComesFirstAndOnce) {
  const ServedModel model = with_bytes(true);
  auto pieces = render_chat(model, kAsked, {{"user", "a"}});
  ASSERT_TRUE(pieces.ok());
  EXPECT_EQ(*encode_pieces(*model.tokenizer, *pieces), (std::vector<TokenId>{256, '[', 'a'}))
      << "the template wrote it";
  EXPECT_EQ(*encode_pieces(*model.tokenizer, {{"[", false}}), (std::vector<TokenId>{256, '['}));
  EXPECT_EQ(*encode_pieces(*model.tokenizer, {}), std::vector<TokenId>{256});
  EXPECT_EQ(*encode_pieces(*model.tokenizer, {{"<s>", true}}),
            (std::vector<TokenId>{256, '<', 's', '>'}))
      << "what the user wrote is not BOS";
  const ServedModel without = with_bytes(false);
  EXPECT_EQ(*encode_pieces(*without.tokenizer, {{"a", true}}), std::vector<TokenId>{'a'});
  EXPECT_TRUE(encode_pieces(*without.tokenizer, {})->empty());
}

TEST(PromptTest, TemplatesWriteTheDateOfTheRequest) {
  ServedModel model = with_bytes(true);
  model.chat_template =
      *model::ChatTemplate::parse("{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}");
  EXPECT_EQ((*render_chat(model, kAsked, {{"user", "a"}}))[0].text, "01 Jun 2024 ");
  GenerationRequest request;
  request.messages = {{"user", "a"}};
  auto input = tokenise(model, request, kAsked);
  ASSERT_TRUE(input.ok());
  EXPECT_EQ(input->created, kAsked);
  EXPECT_EQ(decode_tokens(model, input->prompts[0], false), "<s>01 Jun 2024 a");
  EXPECT_NE(input->prompts, tokenise(model, request, kAsked + 86'400)->prompts);
  auto applied = apply_template(
      model, Json::parse(R"({"messages": [{"role": "user", "content": "a"}]})"), kAsked);
  EXPECT_EQ((*applied)["prompt"], "01 Jun 2024 a");
}

TEST(PromptTest, ATemplatesRefusalIsHandedOn) {
  auto pieces = render_chat(with_bytes(true), kAsked, {{"user", "raise"}});
  ASSERT_FALSE(pieces.ok());
  EXPECT_EQ(pieces.error().code, ErrorCode::kInvalidInput);
}

// Hermes' own template walks over its tools whether there are any or not.
TEST(PromptTest, ATemplateThatNeedsAListOfToolsGetsAnEmptyOne) {
  ServedModel model = with_bytes(true);
  model.chat_template = *model::ChatTemplate::parse(
      "{% for tool in tools %}{{ tool }}{% endfor %}{{ messages[0].content }}");
  EXPECT_EQ((*render_chat(model, kAsked, {{"user", "a"}}))[0].text, "a");
  // Others look whether there are none.
  model.chat_template =
      *model::ChatTemplate::parse("{{ 'no list' if tools is not iterable else 'a list' }}");
  EXPECT_EQ((*render_chat(model, kAsked, {{"user", "a"}}))[0].text, "no list");
}

// Whatever users write, in however many pieces, only the template's own words become control
// tokens.
TEST(PromptTest, UserTextNeverBecomesAControlToken) {
  const std::string parts[] = {
      "<|im_end|>", "<|im_start|>", "<|",    "im_end", "|>", "<|endoftext|>", "<", "|",
      "x",          "\n",           "<|im_", "end|>"};
  const model::Tokenizer& tokenizer = *served().tokenizer;
  SeededRandom random(13);
  for (int round = 0; round < 400; ++round) {
    std::vector<model::PromptPiece> pieces;
    std::size_t specials = 0;
    for (std::uint64_t n = 1 + random.next() % 6; n > 0; --n) {
      const bool user = random.next() % 2 == 0;
      if (!user) {
        pieces.push_back({"<|im_end|>", false});
        ++specials;
        continue;
      }
      std::string text;
      for (std::uint64_t k = random.next() % 4; k > 0; --k) {
        text += parts[random.next() % std::size(parts)];
      }
      pieces.push_back({text, true});
    }
    auto ids = encode_pieces(tokenizer, pieces);
    ASSERT_TRUE(ids.ok());
    const auto found = std::count_if(ids->begin(), ids->end(),
                                     [&](TokenId id) { return tokenizer.is_special(id); });
    ASSERT_EQ(static_cast<std::size_t>(found), specials);
    std::string whole;
    for (const auto& piece : pieces) whole += piece.text;
    ASSERT_EQ(decode_tokens(served(), *ids, true), whole);
  }
}

// A control token half in the template's text and half in the user's is plain text.
TEST(PromptTest, ABorderMakesNoControlToken) {
  const std::string word = "<|im_end|>";
  for (std::size_t cut = 1; cut < word.size(); ++cut) {
    for (const bool user_first : {true, false}) {
      auto ids = encode_pieces(*served().tokenizer, {{word.substr(0, cut), user_first},
                                                     {word.substr(cut), !user_first}});
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(std::count(ids->begin(), ids->end(), 2), 0) << cut;
      EXPECT_EQ(decode_tokens(served(), *ids, true), word);
    }
  }
}

// Clients that build a chat's prompt themselves rely on it.
TEST(PromptTest, CompletionsMaySpellControlTokens) {
  auto ids = encode_text(*served().tokenizer, "a<|im_end|>");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 2), 1);
  EXPECT_EQ(decode_tokens(served(), {2, 2}, false), "");
  EXPECT_EQ(decode_tokens(served(), {2}, true), "<|im_end|>");
  EXPECT_EQ(decode_tokens(served(), {}, true), "");
}

}  // namespace
}  // namespace hearth::coordinator::http
