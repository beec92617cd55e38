#include "model/text/vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/limits.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

TEST(Vocabulary, FindsEveryEntryByItsTextAndNothingElse) {
  SmallVocabulary v;
  for (int i = 0; i < 3000; ++i) v.add("t" + std::to_string(i * 7919 % 3000));
  v.add(std::string("a\0b", 3));
  v.add("");
  v.add("");  // padding may stand many times
  const auto vocabulary = Vocabulary::build(v.view());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  ASSERT_EQ(vocabulary->size(), 3003U);
  for (TokenId token = 0; token < 3001; ++token) {
    const std::string& text = v.tokens[static_cast<std::size_t>(token)];
    ASSERT_EQ(vocabulary->text(token), text);
    ASSERT_EQ(vocabulary->find(text), token);
  }
  for (const std::string& text : {std::string("t3000"), std::string("t"), std::string("a"),
                                  std::string("a\0", 2), std::string("t1 "), std::string()}) {
    EXPECT_EQ(vocabulary->find(text), -1) << text;
  }
  EXPECT_EQ(vocabulary->longest(), 5U);
}

TEST(Vocabulary, RefusesWhatIsNoVocabularyAndNamesTheEntry) {
  const auto refusal = [](const std::function<void(SmallVocabulary&)>& change) {
    SmallVocabulary v;
    for (const char* text : {"a", "b", "c"}) v.add(text);
    change(v);
    const auto built = Vocabulary::build(v.view());
    return built.ok() ? std::string("built") : built.error().message;
  };
  const struct {
    std::function<void(SmallVocabulary&)> change;
    const char* words;
  } cases[] = {
      {[](SmallVocabulary& v) { v.tokens.clear(); }, "is empty"},
      {[](SmallVocabulary& v) { v.tokens[2] = "a"; }, "entry 2 has the text of entry 0"},
      {[](SmallVocabulary& v) { v.types.pop_back(); }, "has 2 entries"},
      {[](SmallVocabulary& v) { v.types[1] = 7; }, "entry 1: 7; it must be 0 to 6"},
      {[](SmallVocabulary& v) { v.types[1] = -1; }, "entry 1: -1"},
      {[](SmallVocabulary& v) { v.tokens[1] = std::string(limits::kTokenBytes + 1, 'x'); },
       "entry 1: 4097 bytes"},
      {[](SmallVocabulary& v) { v.source.bos = 3; }, "bos_token_id is 3"},
      {[](SmallVocabulary& v) { v.source.eos = 3; }, "eos_token_id is 3"},
      {[](SmallVocabulary& v) { v.source.eot = ~std::uint64_t{0}; }, "eot_token_id"},
      {[](SmallVocabulary& v) { v.source.eom = 1ULL << 32; }, "eom_token_id"},
      {[](SmallVocabulary& v) { v.source.fim_pad = 99; }, "fim_pad_token_id is 99"},
      {[](SmallVocabulary& v) { v.source.fim_repo = 99; }, "fim_rep_token_id"},
      {[](SmallVocabulary& v) { v.source.fim_separator = 99; }, "fim_sep_token_id"},
  };
  for (const auto& one : cases) {
    EXPECT_NE(refusal(one.change).find(one.words), std::string::npos) << refusal(one.change);
  }
  EXPECT_EQ(
      refusal([](SmallVocabulary& v) { v.tokens[1] = std::string(limits::kTokenBytes, 'x'); }),
      "built");
  EXPECT_EQ(refusal([](SmallVocabulary& v) { v.types.clear(); }), "built");
}

TEST(Vocabulary, EndTokensAreThoseOfTheKeysAndThoseKnownByText) {
  SmallVocabulary v;
  const TokenId plain = v.add("plain");
  const TokenId eot = v.add("<|eot_id|>");  // normal, says the file
  const TokenId pad = v.add("<PAD>", TokenKind::kUserDefined);
  const TokenId second_pad = v.add("[PAD]", TokenKind::kUserDefined);
  const TokenId mine = v.add("<stop>", TokenKind::kControl);
  const TokenId mark = v.add("<|user|>", TokenKind::kUserDefined);
  const TokenId normal_mark = v.add("<s>");
  const TokenId unknown = v.add("<eos>", TokenKind::kUnknown);
  const TokenId bos = v.add("<begin>");
  v.source.eos = static_cast<std::uint64_t>(mine);
  v.source.eom = static_cast<std::uint64_t>(eot);
  v.source.bos = static_cast<std::uint64_t>(bos);
  const auto vocabulary = Vocabulary::build(v.view());
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->end_tokens(), (std::vector<TokenId>{eot, pad, mine, unknown}));
  for (const TokenId token : {eot, pad, mine, mark, bos}) {
    EXPECT_EQ(vocabulary->kind(token), TokenKind::kControl) << vocabulary->text(token);
    EXPECT_EQ(vocabulary->find_text(vocabulary->text(token)), -1);
    EXPECT_EQ(vocabulary->find(vocabulary->text(token)), token);
  }
  EXPECT_EQ(vocabulary->kind(unknown), TokenKind::kUnknown);
  EXPECT_TRUE(vocabulary->special(unknown));
  EXPECT_EQ(vocabulary->kind(second_pad), TokenKind::kUserDefined);
  for (const TokenId token : {plain, normal_mark}) {
    EXPECT_FALSE(vocabulary->special(token));
    EXPECT_EQ(vocabulary->find_text(vocabulary->text(token)), token);
  }
}

// gpt-oss ends a message with one mark, a turn with two others.
TEST(Vocabulary, TheEndOfAMessageWithinATurnIsNoEndToken) {
  SmallVocabulary v;
  const TokenId end = v.add("<|end|>", TokenKind::kControl);
  const TokenId back = v.add("<|return|>", TokenKind::kControl);
  auto vocabulary = Vocabulary::build(v.view());
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->end_tokens(), (std::vector<TokenId>{end, back}));
  const TokenId call = v.add("<|call|>", TokenKind::kControl);
  vocabulary = Vocabulary::build(v.view());
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->end_tokens(), (std::vector<TokenId>{back, call}));
  EXPECT_TRUE(vocabulary->special(end));
}

// Gemma's vocabulary has HTML tags that look like another model's marks.
TEST(Vocabulary, WhatTheFileCallsTextIsTextWhereAnotherTokenIsTheMark) {
  const struct {
    std::string_view mark;
    TokenKind mark_kind;
    std::string_view text;
  } cases[] = {
      {"<bos>", TokenKind::kControl, "<s>"},
      {"<eos>", TokenKind::kControl, "</s>"},
      {"<|end_of_text|>", TokenKind::kUnknown, "<|endoftext|>"},
      {"<|im_end|>", TokenKind::kControl, "<end_of_turn>"},
      {"<|end|>", TokenKind::kControl, "<EOT>"},
      {"<|im_start|>", TokenKind::kControl, "<start_of_turn>"},
      {"<|fim_prefix|>", TokenKind::kControl, "<PRE>"},
      {"<fim_suffix>", TokenKind::kControl, "<SUF>"},
      {"<|fim_pad|>", TokenKind::kControl, "[PAD]"},
      {"[PAD]", TokenKind::kControl, "<PAD>"},
  };
  for (const auto& one : cases) {
    for (const TokenKind kind : {TokenKind::kNormal, TokenKind::kUserDefined}) {
      SmallVocabulary v;
      const TokenId text = v.add(std::string(one.text), kind);
      const TokenId mark = v.add(std::string(one.mark), one.mark_kind);
      const auto vocabulary = *Vocabulary::build(v.view());
      EXPECT_EQ(vocabulary.kind(text), kind) << one.text;
      EXPECT_EQ(vocabulary.find_text(one.text), text);
      EXPECT_TRUE(vocabulary.special(mark));
      EXPECT_FALSE(std::ranges::count(vocabulary.end_tokens(), text)) << one.text;
    }
    SmallVocabulary alone;
    const TokenId only = alone.add(std::string(one.text), TokenKind::kUserDefined);
    EXPECT_TRUE((*Vocabulary::build(alone.view())).special(only)) << one.text;
  }
}

TEST(Vocabulary, AKeyOfTheFileIsTheOtherMark) {
  using Id = std::optional<std::uint64_t> TokenizerSource::*;
  const std::pair<Id, std::string> cases[] = {{&TokenizerSource::bos, "<s>"},
                                              {&TokenizerSource::eos, "</s>"},
                                              {&TokenizerSource::eot, "<end_of_turn>"}};
  for (const auto& [id, text] : cases) {
    SmallVocabulary v;
    const TokenId token = v.add(text, TokenKind::kUserDefined);
    v.source.*id = static_cast<std::uint64_t>(v.add("mark"));
    EXPECT_FALSE((*Vocabulary::build(v.view())).special(token)) << text;
    v.source.*id = static_cast<std::uint64_t>(token);
    EXPECT_TRUE((*Vocabulary::build(v.view())).special(token)) << text;
    v.source.*id = 1;
    v.types.clear();  // the file calls nothing anything
    EXPECT_EQ((*Vocabulary::build(v.view())).special(token), text != "<s>") << text;
  }
}

}  // namespace
}  // namespace hearth::model
