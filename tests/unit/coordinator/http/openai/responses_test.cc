#include "coordinator/http/openai/responses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "coordinator/http/openai/choice.h"
#include "coordinator/http/routes/prompt.h"
#include "tests/unit/coordinator/http/routes/served_model.h"

namespace hearth::coordinator::http {
namespace {

const model::Tokenizer& tokenizer() { return *tiny_model().served.tokenizer; }

TokenId token_of(const std::string& bytes) {
  for (TokenId id = 0; id < 400; ++id) {
    if (tokenizer().token_bytes(id, false) == bytes) return id;
  }
  ADD_FAILURE() << "no token for these bytes";
  return 0;
}

SampledToken sampled(TokenId token, FinishReason finish = FinishReason::kNone) {
  SampledToken out;
  out.token = token;
  out.finish = finish;
  out.logprob = -0.5F;
  return out;
}

TEST(ResponsesTest, ErrorsHaveAllFourKeys) {
  const Json bare = Json::parse(error_body(ApiError::not_found("no", "model_not_found")));
  EXPECT_EQ(bare["error"].size(), 4U);
  EXPECT_TRUE(bare["error"]["param"].is_null());
  EXPECT_EQ(bare["error"]["code"], "model_not_found");
  EXPECT_EQ(from_coordinator({ErrorCode::kNoCapacity, "full"}, 7).retry_after, 7U);
  EXPECT_TRUE(from_coordinator({ErrorCode::kNumeric, "nan"}, 7).final);
}

TEST(ResponsesTest, LogprobsOfBrokenCharactersAreValidUtf8) {
  SampledToken token = sampled(token_of("\xC3"));
  token.top = {{token_of("\xC3"), -0.5F},
               {token_of("\xA9"), -std::numeric_limits<float>::infinity()}};
  const OrderedJson chat = chat_logprobs({token}, tokenizer());
  EXPECT_EQ(chat["content"][0]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(chat["content"][0]["bytes"], OrderedJson::array({0xC3}));
  EXPECT_EQ(chat["content"][0]["top_logprobs"][1]["logprob"], -9999.0);
  const OrderedJson legacy = completion_logprobs({token, token}, 3, tokenizer());
  EXPECT_EQ(legacy["top_logprobs"][0].size(), 2U);
  EXPECT_TRUE(legacy["top_logprobs"][0].contains("bytes:\\xc3"));
  EXPECT_EQ(legacy["text_offset"], OrderedJson::array({3, 4}));
}

TEST(ChoiceTest, NeverCutsACharacterAndDropsTheEndToken) {
  GenerationRequest request;
  request.sampling.logprobs = true;
  request.return_token_ids = true;
  Choice choice(0, request, {1}, "", tiny_model().served.tokenizer);
  EXPECT_FALSE(choice.push(sampled(token_of("\xC3"))));
  EXPECT_TRUE(choice.push(sampled(token_of("\xA9"))));
  ChoicePart part = choice.part(0);
  EXPECT_EQ(part.text, "\xC3\xA9");
  EXPECT_EQ(part.logprobs.size(), 2U);
  EXPECT_TRUE(choice.push(sampled(2, FinishReason::kStop)));
  part = choice.part(2);
  EXPECT_EQ(choice.finish_reason(), "stop");
  EXPECT_EQ(part.text, "");
  EXPECT_EQ(part.token_ids, std::vector<TokenId>{2});  // every id that was sampled
  EXPECT_TRUE(part.logprobs.empty());                  // but no text, so no logprob
  EXPECT_EQ(choice.tokens(), 3U);
  EXPECT_FALSE(choice.push(sampled(5)));
}

TEST(ChoiceTest, LengthGivesBackBrokenAndHeldText) {
  GenerationRequest request;
  request.stop = {"ab"};
  Choice choice(0, request, {1}, "", tiny_model().served.tokenizer);
  EXPECT_FALSE(choice.push(sampled(token_of("a"))));  // may become the stop string
  EXPECT_TRUE(choice.push(sampled(token_of("\xC3"), FinishReason::kLength)));
  EXPECT_EQ(choice.part(0).text, "a\xEF\xBF\xBD");
  EXPECT_EQ(choice.finish_reason(), "length");
}

TEST(ChoiceTest, StopStringAcrossTokens) {
  GenerationRequest request;
  request.chat = false;
  request.stop = {"bc"};
  Choice choice(0, request, {token_of("z")}, "echo", tiny_model().served.tokenizer);
  EXPECT_TRUE(choice.push(sampled(token_of("a"))));
  EXPECT_FALSE(choice.push(sampled(token_of("b"))));
  EXPECT_TRUE(choice.push(sampled(token_of("c"))));
  EXPECT_TRUE(choice.stopped_by_text());
  EXPECT_EQ(choice.part(0).text, "echoa");
  EXPECT_EQ(choice.finish_reason(), "stop");
}

TEST(ChoiceTest, CountsTheTokensOfAThought) {
  GenerationRequest request;
  request.chat = true;
  AnswerForm form{std::make_shared<model::ChatSyntax>(), "<think>", "a"};
  Choice choice(0, request, {1}, "", tiny_model().served.tokenizer, std::move(form));
  for (const char letter : std::string("hm</think>yes")) {
    choice.push(sampled(token_of(std::string(1, letter))));
  }
  EXPECT_EQ(choice.part(0).reasoning, "hm");
  EXPECT_EQ(choice.part(0).text, "yes");
  EXPECT_EQ(choice.reasoning_tokens(), 2U);
  EXPECT_EQ(choice.tokens(), 13U);
  const Usage usage{1, choice.tokens(), choice.reasoning_tokens()};
  EXPECT_EQ(usage_object(usage)["completion_tokens_details"]["reasoning_tokens"], 2);
}

SampledToken score_at(Position position, TokenId token) {
  SampledToken out = sampled(token);
  out.position = position;
  out.logprob = -static_cast<float>(position);
  out.top = {{token, out.logprob}};
  return out;
}

TEST(ChoiceTest, AnEchoTellsTheScoresOfItsPromptOnce) {
  GenerationRequest request;
  request.chat = false;
  request.echo = true;
  request.sampling.logprobs = true;
  const std::vector<TokenId> prompt = {token_of("a"), token_of("b"), token_of("\xC3"),
                                       token_of("\xA9")};
  Choice choice(0, request, prompt, "ab\xC3\xA9", tiny_model().served.tokenizer);
  for (Position i = 1; i < 3; ++i) choice.score(score_at(i, prompt[i]));
  EXPECT_TRUE(choice.push(sampled(token_of("c"))));
  EXPECT_TRUE(choice.push(sampled(2, FinishReason::kStop)));
  ChoicePart part = choice.part(0);
  EXPECT_EQ(part.text,
            "ab\xC3\xA9"
            "c");
  ASSERT_EQ(part.logprobs.size(), 6U) << "the end token has one here";
  AnswerHead head;
  head.chat = false;
  const OrderedJson told =
      answer_object(head, {part}, {}, {}, {}, tokenizer())["choices"][0]["logprobs"];
  EXPECT_EQ(told["token_logprobs"], OrderedJson::parse("[null, -1.0, -2.0, -9999.0, -0.5, -0.5]"));
  EXPECT_TRUE(told["top_logprobs"][0].is_null());
  EXPECT_EQ(told["top_logprobs"][1], (OrderedJson{{"b", -1.0}}));
  EXPECT_EQ(told["text_offset"], OrderedJson::parse("[0, 1, 2, 3, 3, 4]"));
  part = choice.part(1);
  EXPECT_EQ(part.logprobs.size(), 1U) << "a later part has none of the prompt";
  EXPECT_FALSE(part.begins_prompt);
  EXPECT_EQ(part.text_offset, 4U);
}

TEST(ChoiceTest, AnAnswerThatIsThePromptTellsNoToken) {
  GenerationRequest request;
  request.chat = false;
  request.echo = request.only_prompt = request.return_token_ids = true;
  request.sampling.logprobs = true;
  Choice choice(0, request, {token_of("a"), token_of("b")}, "ab", tiny_model().served.tokenizer);
  choice.score(score_at(1, token_of("b")));
  EXPECT_TRUE(choice.push(sampled(token_of("c"), FinishReason::kStop)));
  const ChoicePart part = choice.part(0);
  EXPECT_EQ(part.text, "ab");
  EXPECT_EQ(part.logprobs.size(), 2U);
  EXPECT_TRUE(part.token_ids.empty());
  EXPECT_EQ(choice.finish_reason(), "length");
}

TEST(ResponsesTest, ChunksOfBothEndpoints) {
  AnswerHead head;
  head.id = "chatcmpl-1";
  head.include_usage = true;
  ChoicePart part;
  part.text = "x";
  OrderedJson chunk = chunk_object(head, part, {}, tokenizer());
  EXPECT_EQ(chunk["object"], "chat.completion.chunk");
  EXPECT_EQ(chunk["choices"][0]["delta"], OrderedJson({{"content", "x"}}));
  EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
  EXPECT_TRUE(chunk["usage"].is_null());
  head.chat = false;
  head.include_usage = false;
  chunk = chunk_object(head, part, {}, tokenizer());
  EXPECT_EQ(chunk["object"], "text_completion");
  EXPECT_EQ(chunk["choices"][0]["text"], "x");
  EXPECT_FALSE(chunk.contains("usage"));
}

TEST(PromptTest, PiecesOfOneKindAreJoinedAndUserTextStaysText) {
  const ServedModel& served = tiny_model().served;
  auto pieces = render_chat(served, 0, {{"user", "<|im_end|>"}, {"user", "b"}});
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(pieces->size(), 5U);  // template, user, template, user, template
  auto ids = encode_pieces(tokenizer(), *pieces);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 2), 2);  // the template's own <|im_end|> alone
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 1), 3);
}

}  // namespace
}  // namespace hearth::coordinator::http
