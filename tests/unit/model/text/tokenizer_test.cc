#include "model/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "model/gguf/writer.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

using Ids = std::vector<TokenId>;

std::string refusal(SmallVocabulary v) {
  const auto built = v.build();
  if (built.ok()) return "accepted";
  EXPECT_EQ(built.error().code, ErrorCode::kInvalidInput);
  return built.error().message;
}

Ids encode_text(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special) {
  auto ids = tokenizer.encode(text, special, false);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : Ids{};
}

Ids pieces(const Tokenizer& tokenizer, const std::vector<TextPiece>& parts) {
  auto ids = tokenizer.encode_pieces(parts, false);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : Ids{};
}

TEST(Tokenizer, UserTextNeverBecomesASpecialToken) {
  SeededRandom random(23);
  const std::string_view parts[] = {
      "<|im_start|>", "<|im_end|>",    "<|",    "im_end", "|>", "</s>", "<s>",
      "<think>",      "<|endoftext|>", "<unk>", "a",      " ",  "\n"};
  for (SmallVocabulary v : {small_bpe(), small_bpe("llama-bpe"), small_spm()}) {
    const auto tokenizer = *v.build();
    for (int round = 0; round < 2000; ++round) {
      std::string text;
      for (std::uint64_t i = random.next() % 12; i-- > 0;) {
        text += parts[random.next() % std::size(parts)];
      }
      for (const TokenId id : encode_text(*tokenizer, text, SpecialTokens::kText)) {
        ASSERT_FALSE(tokenizer->is_special(id)) << text;
      }
    }
  }
}

TEST(Tokenizer, TemplateTextSpellsSpecialTokens) {
  SmallVocabulary v = small_bpe();
  const auto t = *v.build();
  const Ids expected{v.id("<|im_start|>"), 'u', '\n', v.id("hello"), v.id("<|im_end|>")};
  EXPECT_EQ(*t->encode("<|im_start|>u\nhello<|im_end|>", SpecialTokens::kParse, false), expected);
}

TEST(Tokenizer, UserDefinedTokensAreFoundInEveryTextTheLongestFirst) {
  SmallVocabulary v = small_bpe();
  const auto t = *v.build();
  for (const SpecialTokens special : {SpecialTokens::kText, SpecialTokens::kParse}) {
    EXPECT_EQ(*t->encode("<think>a<think>\nb<thin", special, false),
              (Ids{v.id("<think>"), 'a', v.id("<think>\n"), 'b', '<', 't', 'h', 'i', 'n'}));
  }
}

TEST(Tokenizer, PiecesAreOneTextButSpecialTokensAreOfTheTemplateAlone) {
  SmallVocabulary v = small_bpe();
  const auto t = *v.build();
  const auto user = SpecialTokens::kText;
  const auto parse = SpecialTokens::kParse;
  // A word runs on across the border.
  EXPECT_EQ(pieces(*t, {{"he", parse}, {"llo", user}}), (Ids{v.id("hello")}));
  // The template's own text may be in parts.
  EXPECT_EQ(pieces(*t, {{"<|im_", parse}, {"end|>", parse}}), (Ids{v.id("<|im_end|>")}));
  // Half of a token each: text.
  for (const auto& [first, second] : {std::pair{parse, user}, std::pair{user, parse}}) {
    for (const TokenId id : pieces(*t, {{"<|im_", first}, {"end|>", second}})) {
      EXPECT_FALSE(t->is_special(id));
    }
  }
  EXPECT_EQ(pieces(*t, {{"<|im_start|>", parse}, {"<|im_end|>", user}, {"<|im_end|>", parse}}),
            (Ids{v.id("<|im_start|>"), v.id("<|"), 'i', 'm', '_', 'e', 'n', 'd', v.id("|>"),
                 v.id("<|im_end|>")}));
  EXPECT_EQ(pieces(*t, {}), Ids{});
  EXPECT_EQ(pieces(*t, {{"", user}, {"", parse}}), Ids{});
}

TEST(Tokenizer, OnePieceIsTheSameAsAText) {
  SeededRandom random(29);
  SmallVocabulary v = small_bpe("llama-bpe");
  const auto t = *v.build();
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (std::uint64_t i = random.next() % 30; i-- > 0;) text += "helo wr<|>\n"[random.next() % 11];
    const std::size_t cut = text.empty() ? 0 : random.next() % text.size();
    const std::string_view view = text;
    EXPECT_EQ(pieces(*t, {{view.substr(0, cut)}, {view.substr(cut)}}),
              *t->encode(text, SpecialTokens::kText, false));
  }
}

TEST(Tokenizer, BosStandsWhereTheModelWantsIt) {
  SmallVocabulary v = small_bpe();
  EXPECT_EQ(*(*v.build())->encode("a", SpecialTokens::kText, true), (Ids{'a'}));
  EXPECT_FALSE((*v.build())->adds_eos());
  v.source.add_eos = true;
  EXPECT_TRUE((*v.build())->adds_eos());
  v.source.add_bos = true;
  const auto t = *v.build();
  EXPECT_TRUE(t->adds_bos());
  EXPECT_EQ(*t->encode("a", SpecialTokens::kText, true), (Ids{t->bos(), 'a'}));
  EXPECT_EQ(*t->encode("a", SpecialTokens::kText, false), (Ids{'a'}));
  v = small_bpe("llama-bpe");  // wants it unless the file says otherwise
  EXPECT_TRUE((*v.build())->adds_bos());
  v.source.bos.reset();
  EXPECT_FALSE((*v.build())->adds_bos());
  EXPECT_TRUE((*small_bpe("tekken").build())->adds_bos());
  for (const std::string_view pre : {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}) {
    EXPECT_FALSE((*small_bpe(pre).build())->adds_bos()) << pre;
  }
}

TEST(Tokenizer, EndTokensAreThoseOfTheKeysAndThoseKnownByText) {
  SmallVocabulary v = small_bpe();
  const TokenId odd = v.add("[finish]");
  v.source.eot = static_cast<std::uint64_t>(odd);
  v.add("<end_of_turn>", TokenKind::kControl);
  v.add("<|eom_id|>", TokenKind::kControl);
  const auto t = *v.build();
  EXPECT_EQ(t->end_tokens(), (Ids{v.id("<|im_end|>"), v.id("<|endoftext|>"), odd,
                                  v.id("<end_of_turn>"), v.id("<|eom_id|>")}));
  EXPECT_EQ(t->eos(), v.id("<|im_end|>"));
  EXPECT_EQ(t->kind(), "bpe");
  for (const TokenId id : t->end_tokens()) EXPECT_TRUE(t->is_special(id));
  for (const TokenId id : encode_text(*t, "[finish]<end_of_turn>", SpecialTokens::kText)) {
    EXPECT_FALSE(t->is_special(id));
  }
}

TEST(Tokenizer, LongTextsAreRefused) {
  SmallVocabulary v = small_bpe();
  const auto t = *v.build();
  const std::string text(limits::kTextBytes + 1, ' ');
  const auto refused = t->encode(text, SpecialTokens::kText, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("8388608"), std::string::npos);
  const std::string_view half = std::string_view(text).substr(0, text.size() / 2 + 1);
  const TextPiece parts[] = {{half, SpecialTokens::kText}, {half, SpecialTokens::kParse}};
  EXPECT_FALSE(t->encode_pieces(parts, false).ok());
}

TEST(Tokenizer, VocabulariesAreChecked) {
  SmallVocabulary v = small_bpe();
  v.add("hello");
  EXPECT_NE(refusal(v).find("has the text of entry 259"), std::string::npos) << refusal(v);
  v = small_bpe();
  v.types.pop_back();
  EXPECT_NE(refusal(v).find("tokenizer.ggml.token_type has 272"), std::string::npos) << refusal(v);
  v = small_bpe();
  v.types[3] = 7;
  EXPECT_NE(refusal(v).find("tokenizer.ggml.token_type, entry 3"), std::string::npos);
  v = small_bpe();
  v.add(std::string(limits::kTokenBytes + 1, 'x'));
  EXPECT_NE(refusal(v).find("tokenizer.ggml.tokens, entry 273: 4097 bytes"), std::string::npos);
  v = SmallVocabulary();
  v.source.model = "gpt2";
  EXPECT_NE(refusal(v).find("tokenizer.ggml.tokens is empty"), std::string::npos);
}

TEST(Tokenizer, IdsOfTheFileAreChecked) {
  const std::pair<std::string, std::optional<std::uint64_t> TokenizerSource::*> ids[] = {
      {"bos", &TokenizerSource::bos},         {"eos", &TokenizerSource::eos},
      {"eot", &TokenizerSource::eot},         {"eom", &TokenizerSource::eom},
      {"unknown", &TokenizerSource::unknown}, {"fim_pad", &TokenizerSource::fim_pad},
  };
  for (const auto& [name, member] : ids) {
    for (SmallVocabulary v : {small_bpe(), small_spm()}) {
      v.source.*member = v.tokens.size();
      const std::string key = "tokenizer.ggml." + name + "_token_id is ";
      EXPECT_EQ(refusal(v).find(key), 0U) << refusal(v);
    }
  }
}

// A vocabulary as a file, with more keys.
Result<std::shared_ptr<const Tokenizer>> load(const SmallVocabulary& v,
                                              const std::function<void(GgufWriter&)>& add) {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", std::string(v.source.model));
  writer.add_array("tokenizer.ggml.tokens", v.tokens);
  writer.add_array("tokenizer.ggml.token_type", v.types);
  add(writer);
  TRY(const Bytes bytes, writer.bytes());
  TRY(const auto file, GgufFile::parse(bytes, "small"));
  return Tokenizer::load(*file);
}

TEST(Tokenizer, NamedTokensAreThoseThatTheFileNamesWithinTheVocabulary) {
  const SmallVocabulary v = small_bpe();
  const auto t = load(v, [&](GgufWriter& writer) {
    writer.add_array("tokenizer.ggml.merges", v.merges);
    writer.add("tokenizer.ggml.padding_token_id", std::uint32_t{7});
    writer.add("tokenizer.ggml.seperator_token_id", std::uint32_t{99'999});
    writer.add("tokenizer.ggml.cls_token_id", std::int32_t{-1});
    writer.add("tokenizer.ggml.mask_token_id", std::string("[MASK]"));
    writer.add("tokenizer.ggml.unknown_token_id", std::uint32_t{3});
  });
  ASSERT_TRUE(t.ok()) << t.error().message;
  const std::vector<std::pair<std::string_view, TokenId>> expected = {{"unk_token", 3},
                                                                      {"pad_token", 7}};
  EXPECT_EQ((*t)->named_tokens(), expected);
}

TEST(Tokenizer, AListThatIsNeededAndAbsentIsNamed) {
  const auto missing = [](SmallVocabulary v, std::string_view left_out) {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", std::string(v.source.model));
    const auto add = [&](std::string_view key, const auto& items) {
      if (key != left_out) writer.add_array("tokenizer.ggml." + std::string(key), items);
    };
    add("tokens", v.tokens);
    add("token_type", v.types);
    add("scores", v.scores);
    add("merges", v.merges);
    const Bytes bytes = *writer.bytes();
    const auto built = Tokenizer::load(**GgufFile::parse(bytes, "small"));
    return built.ok() ? std::string("loaded") : built.error().message;
  };
  for (const char* key : {"tokens", "merges"}) {
    EXPECT_NE(
        missing(small_bpe(), key).find(std::string("'tokenizer.ggml.") + key + "' is missing"),
        std::string::npos)
        << key;
  }
  for (const char* key : {"tokens", "scores", "token_type"}) {
    EXPECT_NE(
        missing(small_spm(), key).find(std::string("'tokenizer.ggml.") + key + "' is missing"),
        std::string::npos)
        << key;
  }
  EXPECT_EQ(missing(small_bpe(), "scores"), "loaded");
  EXPECT_EQ(missing(small_bpe(), "token_type"), "loaded");
  EXPECT_EQ(missing(small_spm(), "merges"), "loaded");
}

TEST(Tokenizer, AnIdOfMinusOneIsNoToken) {
  const SmallVocabulary v = small_bpe();
  for (const char* name :
       {"bos", "eos", "eot", "eom", "unknown", "fim_pad", "fim_rep", "fim_sep"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    const auto with = [&](auto id) {
      const auto t = load(v, [&](GgufWriter& writer) {
        writer.add_array("tokenizer.ggml.merges", v.merges);
        writer.add(key, id);
      });
      return t.ok() ? std::string("loaded") : t.error().message;
    };
    EXPECT_EQ(with(std::int32_t{-1}), "loaded");
    EXPECT_EQ(with(std::int64_t{-1}), "loaded");
    EXPECT_EQ(with(~std::uint32_t{0}), "loaded");
    EXPECT_NE(with(std::int32_t{-2}).find(key), std::string::npos) << with(std::int32_t{-2});
    EXPECT_NE(with(std::uint32_t{999}).find(key), std::string::npos);
    EXPECT_NE(with(~std::uint64_t{0}).find(key), std::string::npos);
  }
}

TEST(Tokenizer, EmptyEntriesArePadding) {
  SmallVocabulary v = small_bpe();
  v.add("");
  v.add("", TokenKind::kControl);
  const auto built = v.build();
  ASSERT_TRUE(built.ok());
  EXPECT_EQ((*built)->token_bytes(273, true), "");
}

TEST(Tokenizer, OtherKindsAreRefusedByName) {
  SmallVocabulary v = small_bpe();
  v.source.model = "bert";
  const auto built = v.build();
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(built.error().message.find("\"bert\""), std::string::npos);
}

}  // namespace
}  // namespace hearth::model
