#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/responses.h"

namespace hearth::coordinator::http {
namespace {

// A vocabulary whose entries a test chooses; two of them may be spelled alike, as SentencePiece's
// "A" and its byte token are.
class ListTokenizer final : public model::Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> entries) : entries_(std::move(entries)) {
    vocabulary_ = static_cast<std::uint32_t>(entries_.size());
  }
  Result<std::vector<TokenId>> encode(std::string_view, model::SpecialTokens, bool) const override {
    return std::vector<TokenId>{};
  }
  std::string token_bytes(TokenId token, bool, bool) const override {
    return entries_[static_cast<std::size_t>(token)];
  }
  bool is_special(TokenId) const override { return false; }

 private:
  std::vector<std::string> entries_;
};

SampledToken sampled(TokenId token, float logprob, std::vector<TokenLogprob> top = {}) {
  SampledToken out;
  out.token = token;
  out.logprob = logprob;
  out.top = std::move(top);
  return out;
}

TEST(LogprobsTest, ChatShape) {
  const ListTokenizer tokenizer({"A", "\xE2\x82", "\xAC", ""});
  const OrderedJson value =
      chat_logprobs({sampled(0, -0.25F, {{0, -0.25F}, {1, -2.0F}}), sampled(3, -1.0F)}, tokenizer);
  EXPECT_EQ(value.dump(),
            "{\"content\":[{\"token\":\"A\",\"logprob\":-0.25,\"bytes\":[65],\"top_logprobs\":["
            "{\"token\":\"A\",\"logprob\":-0.25,\"bytes\":[65]},"
            "{\"token\":\"\xEF\xBF\xBD\xEF\xBF\xBD\",\"logprob\":-2.0,\"bytes\":[226,130]}]},"
            "{\"token\":\"\",\"logprob\":-1.0,\"bytes\":[],\"top_logprobs\":[]}],"
            "\"refusal\":null}");
  EXPECT_EQ(chat_logprobs({}, tokenizer)["content"], OrderedJson::array());
}

TEST(LogprobsTest, CompletionArraysRunParallel) {
  const ListTokenizer tokenizer({"A", "\xE2\x82", "\xAC", "\xC3\xA9x"});
  std::vector<SampledToken> tokens;
  for (const TokenId token : {0, 1, 2, 3, 0}) tokens.push_back(sampled(token, -1.0F));
  const OrderedJson value = completion_logprobs(tokens, 7, tokenizer);
  for (const char* key : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    EXPECT_EQ(value[key].size(), tokens.size()) << key;
  }
  EXPECT_EQ(value["tokens"][1], "bytes:\\xe2\\x82");
  EXPECT_EQ(value["tokens"][2], "bytes:\\xac");
  EXPECT_EQ(value["text_offset"], OrderedJson::array({7, 8, 9, 9, 11}))
      << "characters, and a split one counts once";
}

TEST(LogprobsTest, WhatIsNoNumberInJsonBecomesTheFloor) {
  const ListTokenizer tokenizer({"A"});
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {-infinity, std::nanf(""), -1e30F, -10'000.0F}) {
    const OrderedJson chat = chat_logprobs({sampled(0, bad, {{0, bad}})}, tokenizer);
    EXPECT_EQ(chat["content"][0]["logprob"], -9999.0);
    EXPECT_EQ(chat["content"][0]["top_logprobs"][0]["logprob"], -9999.0);
    EXPECT_EQ(completion_logprobs({sampled(0, bad)}, 0, tokenizer)["token_logprobs"][0], -9999.0);
  }
}

TEST(LogprobsTest, OfTokensSpelledAlikeTheLikelierIsTold) {
  const ListTokenizer tokenizer({"A", "A", "B"});
  const OrderedJson value =
      completion_logprobs({sampled(0, -0.5F, {{0, -0.5F}, {2, -1.0F}, {1, -7.0F}})}, 0, tokenizer);
  const OrderedJson& top = value["top_logprobs"][0];
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top["A"], -0.5);
  EXPECT_EQ(top["B"], -1.0);
}

TEST(LogprobsTest, CharactersAreLeadBytes) {
  EXPECT_EQ(utf8_characters(""), 0U);
  EXPECT_EQ(utf8_characters("abc"), 3U);
  EXPECT_EQ(utf8_characters("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), 3U);
  EXPECT_EQ(utf8_characters("\xA9\xA9"), 0U);
}

// However the parts of a stream are cut, offsets and texts are those of one whole answer.
TEST(LogprobsTest, PartsOfAStreamContinueTheOffsets) {
  const auto tokenizer = std::make_shared<const ListTokenizer>(
      std::vector<std::string>{"a", "\xC3", "\xA9", "bc", "\xF0\x9F", "\x98\x80"});
  GenerationRequest request;
  request.chat = false;
  request.sampling.logprobs = true;
  const std::vector<TokenId> tokens = {0, 1, 2, 3, 4, 5, 0, 3};
  for (unsigned cuts = 0; cuts < 256; ++cuts) {
    Choice choice(0, request, {}, "", tokenizer);
    std::string text;
    std::vector<std::uint64_t> offsets;
    std::uint32_t told = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      SampledToken token = sampled(tokens[i], -1.0F);
      if (i + 1 == tokens.size()) token.finish = FinishReason::kLength;
      choice.push(token);
      if ((cuts >> i & 1) == 0 && i + 1 < tokens.size()) continue;
      const ChoicePart part = choice.part(told);
      told = choice.tokens();
      text += part.text;
      const OrderedJson logprobs = completion_logprobs(part.logprobs, part.text_offset, *tokenizer);
      for (const auto& offset : logprobs["text_offset"]) {
        offsets.push_back(offset);
      }
    }
    EXPECT_EQ(text,
              "a\xC3\xA9"
              "bc\xF0\x9F\x98\x80"
              "abc");
    EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 1, 2, 2, 4, 5, 5, 6})) << cuts;
  }
}

TEST(LogprobsTest, TheSeedIsReportedAsARequestTakesIt) {
  for (const std::int64_t seed : {INT64_MIN, std::int64_t{-5}, std::int64_t{0}, INT64_MAX}) {
    const OrderedJson value =
        hearth_object(static_cast<std::uint64_t>(seed), std::nullopt, {}, false);
    Json body = {{"model", "m"}, {"prompt", "a"}, {"seed", Json::parse(value.dump())["seed"]}};
    auto again = parse_completion_request(body, {400, 512});
    ASSERT_TRUE(again.ok()) << value;
    EXPECT_EQ(again->seed, static_cast<std::uint64_t>(seed)) << value;
    EXPECT_FALSE(value.contains("hashes"));
  }
}

TEST(LogprobsTest, UsageAndTimingsAddUp) {
  EXPECT_EQ(usage_object({7, 5}).dump(),
            "{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12,"
            "\"prompt_tokens_details\":{\"cached_tokens\":0},"
            "\"completion_tokens_details\":{\"reasoning_tokens\":0}}");
  EXPECT_EQ(usage_object({7, 5, 0, 6})["prompt_tokens_details"]["cached_tokens"], 6);
  const OrderedJson cached = timings_object({10, 500.0, 4, 2000.0, 8});
  EXPECT_EQ(cached["cache_n"], 8);
  EXPECT_EQ(cached["prompt_n"], 2);
  EXPECT_EQ(cached["prompt_per_second"], 4.0);
  const OrderedJson timings = timings_object({10, 500.0, 4, 2000.0});
  EXPECT_EQ(timings["prompt_per_second"], 20.0);
  EXPECT_EQ(timings["predicted_per_second"], 2.0);
  const OrderedJson instant = timings_object({10, 0.0, 1, 0.0});
  EXPECT_EQ(instant["prompt_per_second"], 0.0) << "no infinity in JSON";
  EXPECT_EQ(instant["predicted_per_second"], 0.0);
}

TEST(LogprobsTest, HashesAreListedByChoice) {
  RowHash row;
  row.position = 3;
  row.stage = 1;
  row.layers = {2, 4};
  row.in.bytes.fill(std::byte{0xAB});
  const OrderedJson value =
      hearth_object(1, std::nullopt, {{0, {row}}, {1, {}}, {2, {row, row}}}, true);
  ASSERT_EQ(value["hashes"].size(), 3U);
  EXPECT_EQ(value["hashes"][0]["step"], 3);
  EXPECT_EQ(value["hashes"][1]["choice"], 2);
  EXPECT_EQ(value["hashes"][0]["layers"], OrderedJson::array({2, 4}));
  EXPECT_TRUE(value["hashes"][0]["in"].get<std::string>().starts_with("abab"));
  EXPECT_EQ(hearth_object(1, std::nullopt, {}, true)["hashes"], OrderedJson::array());
}

}  // namespace
}  // namespace hearth::coordinator::http
