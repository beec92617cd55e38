#include "coordinator/http/openai/requests.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth::coordinator::http {
namespace {

constexpr ModelBounds kBounds{1000, 2048};

Json chat_body(const char* fields = "{}") {
  Json body = Json::parse(fields);
  body["model"] = "m";
  if (!body.contains("messages")) {
    body["messages"] = Json::parse(R"([{"role":"user","content":"hi"}])");
  }
  return body;
}

GenerationRequest chat(const char* fields) {
  auto parsed = parse_chat_request(chat_body(fields), kBounds);
  EXPECT_TRUE(parsed.ok()) << fields << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? *parsed : GenerationRequest{};
}

TEST(RequestsTest, DefaultsAreThoseOfOpenAi) {
  const GenerationRequest request = chat("{}");
  EXPECT_EQ(request.sampling, SamplingParams{});
  EXPECT_EQ(request.n, 1U);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_FALSE(request.seed.has_value());
  EXPECT_FALSE(request.stream);
}

TEST(RequestsTest, ReadsEveryField) {
  const GenerationRequest r = chat(R"({
    "max_tokens": 5, "max_completion_tokens": 6, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
    "min_p": 0.1, "repeat_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2,
    "seed": -1, "n": 8, "stop": ["a", "b"], "stream": true,
    "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 20,
    "ignore_eos": true, "return_token_ids": true, "return_hashes": true, "trust": ["den", "attic"],
    "hearth": {"verify": "full", "min_level": "regular",
               "share": true},
    "logit_bias": {"7": -100, "8": 1.5}})");
  EXPECT_EQ(r.max_tokens, 6U);  // the newer name wins
  EXPECT_EQ(r.sampling.temperature, 0.5F);
  EXPECT_EQ(r.sampling.top_p, 0.9F);
  EXPECT_EQ(r.sampling.top_k, 40U);
  EXPECT_EQ(r.sampling.min_p, 0.1F);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(r.sampling.presence_penalty, -1.0F);
  EXPECT_EQ(r.sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(r.seed, UINT64_MAX);  // two's complement
  EXPECT_EQ(r.n, 8U);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.stream && r.include_usage && r.ignore_eos && r.return_token_ids && r.return_hashes);
  EXPECT_TRUE(r.sampling.logprobs);
  EXPECT_EQ(r.sampling.top_logprobs, 20U);
  EXPECT_EQ(r.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(r.asked.trust, (std::vector<std::string>{"den", "attic"}));
  EXPECT_EQ(r.asked.verify, Verify::kFull);
  EXPECT_EQ(r.asked.min_level, ledger::Level::kRegular);
  EXPECT_TRUE(r.asked.share);
  EXPECT_FALSE(chat("{}").asked.share) << "sharing is opt-in";
}

TEST(RequestsTest, NullEqualsAbsentAndUnknownFieldsAreIgnored) {
  const GenerationRequest request = chat(R"({
    "temperature": null, "top_p": null, "max_tokens": null, "stop": null, "seed": null, "n": null,
    "logit_bias": null, "stream_options": null, "tools": [], "response_format": {"type": "text"},
    "user": "u", "metadata": {"a": [1, {"b": 2}]}, "store": true, "reasoning_effort": "high"})");
  EXPECT_EQ(request.sampling, SamplingParams{});
}

TEST(RequestsTest, MessagesTakeStringsAndTextParts) {
  const GenerationRequest request = chat(R"({"messages": [
    {"role": "developer", "content": "be kind"},
    {"role": "user", "content": [{"type": "text", "text": "a"},
                                 {"type": "text", "text": "b", "cache_control": {}}]},
    {"role": "assistant", "content": null}]})");
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.messages[2].content, "");
}

struct RefusedRequest {
  const char* fields;
  const char* param;
  const char* code;
};

TEST(RequestsTest, ChatRefusalsNameTheField) {
  const RefusedRequest refusals[] = {
      {R"({"messages": []})", "messages", "invalid_value"},
      {R"({"messages": [{"role": "king", "content": "x"}]})", "messages[0].role", "invalid_value"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content", "invalid_value"},
      {R"({"messages": [{"role": "tool", "content": "x"}]})", "messages", "unsupported_value"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages",
       "unsupported_content"},
      {R"({"temperature": 101})", "temperature", "invalid_value"},
      {R"({"temperature": "hot"})", "temperature", "invalid_value"},
      {R"({"top_p": 0})", "top_p", "invalid_value"},
      {R"({"top_p": 1e-60})", "top_p", "invalid_value"},
      {R"({"top_k": -2})", "top_k", "invalid_value"},
      {R"({"repeat_penalty": 0})", "repeat_penalty", "invalid_value"},
      {R"({"n": 9})", "n", "invalid_value"},
      {R"({"n": 0})", "n", "invalid_value"},
      {R"({"max_tokens": 0})", "max_tokens", "invalid_value"},
      {R"({"stop": [1]})", "stop", "invalid_value"},
      {R"({"stop": ["a", ""]})", "stop", "invalid_value"},
      {R"({"top_logprobs": 2})", "top_logprobs", "invalid_value"},
      {R"({"logprobs": true, "top_logprobs": 21})", "top_logprobs", "invalid_value"},
      {R"({"logit_bias": {"1000": 1}})", "logit_bias", "invalid_value"},
      {R"({"logit_bias": {"1x": 1}})", "logit_bias", "invalid_value"},
      {R"({"logit_bias": {"1": 101}})", "logit_bias", "invalid_value"},
      {R"({"logit_bias": [[1]]})", "logit_bias", "invalid_value"},
      {R"({"seed": 1.5})", "seed", "invalid_value"},
      {R"({"trust": "den"})", "trust", "invalid_value"},
      {R"({"hearth": 1})", nullptr, "invalid_value"},
      {R"({"hearth": {"verify": "all"}})", "hearth.verify", "invalid_value"},
      {R"({"hearth": {"verify": 1}})", "hearth.verify", "invalid_value"},
      {R"({"hearth": {"min_level": "saint"}})", "hearth.min_level", "invalid_value"},
      {R"({"hearth": {"share": "with friends"}})", "hearth.share", "invalid_value"},
      {R"({"trust": []})", "trust", "invalid_value"},
      {R"({"trust": ["den", 1]})", "trust", "invalid_value"},
      {R"({"trust": ["den\n"]})", "trust", "invalid_value"},
      {R"({"stream_options": 3})", nullptr, "invalid_value"},
      {R"({"tools": [{"type": "function"}]})", "tools", "unsupported_value"},
      {R"({"response_format": {"type": "json_object"}})", "response_format", "unsupported_value"},
  };
  for (const RefusedRequest& refusal : refusals) {
    auto parsed = parse_chat_request(chat_body(refusal.fields), kBounds);
    ASSERT_FALSE(parsed.ok()) << refusal.fields;
    EXPECT_EQ(parsed.error().status, 400U);
    EXPECT_EQ(parsed.error().code, refusal.code) << refusal.fields;
    if (refusal.param != nullptr) {
      EXPECT_EQ(parsed.error().param, refusal.param) << parsed.error().message;
    }
  }
}

TEST(RequestsTest, StopListLimits) {
  Json body = chat_body();
  body["stop"] = Json::array();
  for (int i = 0; i < 16; ++i) body["stop"].push_back(std::string(512, 's'));
  EXPECT_TRUE(parse_chat_request(body, kBounds).ok());
  body["stop"].push_back("s");
  EXPECT_FALSE(parse_chat_request(body, kBounds).ok());
  body["stop"] = std::string(513, 's');
  EXPECT_FALSE(parse_chat_request(body, kBounds).ok());
}

TEST(RequestsTest, LlamaCppsLogitBias) {
  const GenerationRequest request = chat(R"({"logit_bias": [[5, false], [6, 2.5]]})");
  ASSERT_EQ(request.sampling.logit_bias.size(), 2U);
  EXPECT_TRUE(std::isinf(request.sampling.logit_bias[0].second));
  EXPECT_LT(request.sampling.logit_bias[0].second, 0.0F);
}

ApiResult<GenerationRequest> completion(const char* fields) {
  Json body = Json::parse(fields);
  body["model"] = "m";
  return parse_completion_request(body, kBounds);
}

TEST(RequestsTest, CompletionPromptsOfEveryKind) {
  EXPECT_EQ(completion(R"({"prompt": "a"})")->prompts.size(), 1U);
  EXPECT_EQ(completion(R"({"prompt": ["a", "b"]})")->prompts.size(), 2U);
  EXPECT_EQ(completion(R"({"prompt": [1, 2, 3]})")->prompts.size(), 1U);
  EXPECT_EQ(completion(R"({"prompt": [[1], [2, 3]]})")->prompts.size(), 2U);
  for (const char* bad :
       {R"({})", R"({"prompt": []})", R"({"prompt": 5})", R"({"prompt": [1, "a"]})",
        R"({"prompt": ["a", 1]})", R"({"prompt": [1000]})", R"({"prompt": [[-1]]})",
        R"({"prompt": [1.5]})", R"({"prompt": {"a": 1}})", R"({"prompt": [null]})"}) {
    EXPECT_FALSE(completion(bad).ok()) << bad;
  }
}

TEST(RequestsTest, CompletionExtras) {
  EXPECT_TRUE(completion(R"({"prompt": "a", "best_of": 2, "n": 2, "suffix": ""})").ok());
  EXPECT_FALSE(completion(R"({"prompt": "a", "best_of": 2})").ok());
  EXPECT_FALSE(completion(R"({"prompt": "a", "suffix": "z"})").ok());
  EXPECT_FALSE(completion(R"({"prompt": "a", "echo": true, "logprobs": 1})").ok());
  EXPECT_TRUE(completion(R"({"prompt": "a", "echo": true})")->echo);
  const GenerationRequest logprobs = *completion(R"({"prompt": "a", "logprobs": 0})");
  EXPECT_TRUE(logprobs.sampling.logprobs);
  EXPECT_EQ(logprobs.sampling.top_logprobs, 0U);
}

TEST(RequestsTest, PromptsTimesChoicesAreBounded) {
  Json body = {{"model", "m"}, {"n", 8}, {"prompt", Json::array()}};
  for (int i = 0; i < 16; ++i) body["prompt"].push_back("a");
  EXPECT_TRUE(parse_completion_request(body, kBounds).ok());
  body["prompt"].push_back("a");
  EXPECT_FALSE(parse_completion_request(body, kBounds).ok());
}

}  // namespace
}  // namespace hearth::coordinator::http
