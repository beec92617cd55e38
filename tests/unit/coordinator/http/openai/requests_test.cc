#include "coordinator/http/openai/requests.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/limits.h"

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

ApiResult<GenerationRequest> embedding(const char* body) {
  return parse_embedding_request(Json::parse(body), {1000, 2048, 64});
}

std::string embedding_error(const char* body) {
  const auto parsed = embedding(body);
  return parsed.ok() ? "" : parsed.error().param.value_or("") + ": " + parsed.error().message;
}

TEST(RequestsTest, WhatIsEmbeddedIsTextsOrTokens) {
  const auto texts = [](const char* body) {
    auto parsed = embedding(body);
    EXPECT_TRUE(parsed.ok()) << body;
    return parsed.ok() ? parsed->prompts : std::vector<Prompt>{};
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(texts(R"({"input":"a"})"), (std::vector<Prompt>{"a"}));
  EXPECT_EQ(texts(R"({"input":["a","b"]})"), (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(texts(R"({"input":[1,2]})"), (std::vector<Prompt>{Ids{1, 2}}));
  EXPECT_EQ(texts(R"({"input":[[1,2],"b"]})"), (std::vector<Prompt>{Ids{1, 2}, "b"}));
  auto whole = embedding(R"({"model":"m","input":"a","user":"u","dimensions":null})");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->model, "m");
  EXPECT_TRUE(whole->only_prompt && !whole->chat && !whole->stream);
  EXPECT_EQ(whole->max_tokens, 1U);
  EXPECT_EQ(whole->embedding->values, 64U) << "all that the model has";
  EXPECT_FALSE(whole->embedding->base64 || whole->embedding->truncate);
  auto form = embedding(R"({"input":"a","dimensions":7,"encoding_format":"base64"})");
  EXPECT_EQ(form->embedding->values, 7U);
  EXPECT_TRUE(form->embedding->base64);
  EXPECT_EQ(form->asked.cache, CacheScope::kKey);
  EXPECT_EQ(embedding(R"({"input":"a","cache":"off"})")->asked.cache, CacheScope::kOff);
}

TEST(RequestsTest, AnEmbeddingThatCannotBeIsRefusedByItsField) {
  const std::string many = R"({"input":[")" + std::string(limits::kHttpSequences, 'x') + "\"]}";
  EXPECT_EQ(embedding_error(many.c_str()), "") << "one long text is one";
  Json list = Json::array();
  for (std::uint32_t i = 0; i <= limits::kHttpSequences; ++i) list.push_back("x");
  const std::string over = dump({{"input", list}});
  EXPECT_EQ(embedding_error(over.c_str()),
            "input: 'input' has 129 entries; the limit is 128, send it in parts");
  EXPECT_TRUE(embedding_error(R"({})").starts_with("input: 'input' is required"));
  for (const char* input : {"[]", "{}", "7", "true", R"([{"a":1}])", "[1.5]", "[-1]", "[1000]",
                            R"([1,"a"])", R"(["a",1])"}) {
    const std::string body = std::string(R"({"input":)") + input + "}";
    EXPECT_TRUE(embedding_error(body.c_str()).starts_with("input: ")) << input;
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"dimensions", "0"},
      {"dimensions", "65"},
      {"dimensions", "\"a\""},
      {"encoding_format", "1"},
      {"encoding_format", "\"a\""},
      {"truncate", "1"},
      {"model", "3"},
      {"truncate_prompt_tokens", "5"},
      {"embd_normalize", "-1"},
      {"trust", "{}"},
      {"instruction", "\"a\""},
      {"cache", "\"all\""},
  };
  for (const auto& [field, value] : wrong) {
    const std::string body = std::string(R"({"input":"a",")") + field + "\":" + value + "}";
    EXPECT_TRUE(embedding_error(body.c_str()).starts_with(std::string(field) + ": ")) << body;
  }
  EXPECT_FALSE(parse_embedding_request(Json::array(), {1000, 2048, 64}).ok());
}

TEST(RequestsTest, ReadsEveryField) {
  const GenerationRequest r = chat(R"({
    "max_tokens": 5, "max_completion_tokens": 6, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
    "min_p": 0.1, "repeat_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2,
    "seed": -2, "n": 8, "stop": ["a", "b"], "stream": true,
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
  EXPECT_EQ(r.seed, UINT64_MAX - 1);  // two's complement
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
  EXPECT_EQ(chat("{}").asked.cache, CacheScope::kKey);
  EXPECT_EQ(chat(R"({"cache": "shared", "cache_prompt": true})").asked.cache, CacheScope::kShared);
  EXPECT_EQ(chat(R"({"cache": "off"})").asked.cache, CacheScope::kOff);
  EXPECT_EQ(chat(R"({"cache_prompt": false})").asked.cache, CacheScope::kOff);
}

TEST(RequestsTest, WhatHasOneObviousMeaningIsAccepted) {
  EXPECT_EQ(chat(R"({"seed": -1})").seed, std::nullopt) << "another one each time";
  const GenerationRequest whole = chat(R"({"max_tokens": -1})");
  EXPECT_TRUE(whole.fills_context);
  EXPECT_EQ(whole.max_tokens, std::nullopt);
  EXPECT_FALSE(chat(R"({"max_tokens": -1, "max_completion_tokens": 3})").fills_context);
  const float least = chat(R"({"top_p": 0})").sampling.top_p;
  EXPECT_GT(least, 0.0F);
  EXPECT_LT(least, 1e-30F) << "the likeliest token alone";
  auto zero = parse_chat_request(chat_body(R"({"max_tokens": 0})"), kBounds);
  EXPECT_NE(zero.error().message.find("'max_tokens' must be at least 1"), std::string::npos);
  const Json unnamed = Json::parse(R"({"prompt": "a", "suffix": null, "best_of": 1})");
  auto completed = parse_completion_request(unnamed, kBounds);
  ASSERT_TRUE(completed.ok());
  EXPECT_EQ(completed->model, "") << "there is one only";
}

TEST(RequestsTest, NullEqualsAbsentAndUnknownFieldsAreIgnored) {
  const GenerationRequest request = chat(R"({
    "temperature": null, "top_p": null, "max_tokens": null, "stop": null, "seed": null, "n": null,
    "logit_bias": null, "stream_options": null, "tools": [], "response_format": {"type": "text"},
    "user": "u", "metadata": {"a": [1, {"b": 2}]}, "store": true, "reasoning_effort": null})");
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
      {R"({"messages": [{"role": "function", "content": "x"}]})", "messages[0].role",
       "invalid_value"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages",
       "unsupported_content"},
      {R"({"temperature": 101})", "temperature", "invalid_value"},
      {R"({"temperature": "hot"})", "temperature", "invalid_value"},
      {R"({"top_p": -0.1})", "top_p", "invalid_value"},
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
      {R"({"cache": "all"})", "cache", "invalid_value"},
      {R"({"cache": true})", "cache", "invalid_value"},
      {R"({"cache": "key", "cache_prompt": false})", "cache", "invalid_value"},
      {R"({"cache_prompt": 1})", "cache_prompt", "invalid_value"},
      {R"({"trust": ["den", 1]})", "trust", "invalid_value"},
      {R"({"trust": ["den\n"]})", "trust", "invalid_value"},
      {R"({"stream_options": 3})", nullptr, "invalid_value"},
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

// What would change the answer is refused by name, in the request and in its messages.
TEST(RequestsTest, NothingThatChangesTheAnswerIsIgnored) {
  const RefusedRequest refusals[] = {
      {R"({"think": true})", "think", ""},
      {R"({"function_call": {"name": "f"}})", "function_call", ""},
      {R"({"stop_token_ids": [2]})", "stop_token_ids", ""},
      {R"({"min_tokens": 5})", "min_tokens", ""},
      {R"({"n_predict": 5})", "n_predict", ""},
      {R"({"mirostat": 2})", "mirostat", ""},
      {R"({"typical_p": 0.5})", "typical_p", ""},
      {R"({"echo": true})", "echo", ""},
      {R"({"options": {"temperature": 0}})", "options", ""},
      {R"({"messages": [{"role": "assistant", "content": "", "function_call": {"name": "f"}}]})",
       "messages[0].function_call", ""},
      {R"({"messages": [{"role": "assistant", "content": "a", "prefix": true}]})",
       "messages[0].prefix", ""},
  };
  for (const RefusedRequest& refusal : refusals) {
    auto parsed = parse_chat_request(chat_body(refusal.fields), kBounds);
    ASSERT_FALSE(parsed.ok()) << refusal.fields;
    EXPECT_EQ(parsed.error().code, "unsupported_value");
    EXPECT_EQ(parsed.error().param, refusal.param) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(refusal.param), std::string::npos);
  }
  chat(R"({"tools": [], "tool_choice": "none", "function_call": "auto", "grammar": "",
    "json_schema": {}, "guided_json": null, "chat_template_kwargs": {}, "stop_token_ids": [],
    "add_generation_prompt": true, "continue_final_message": false, "min_tokens": 0,
    "typical_p": 1.0, "mirostat": 0, "do_sample": true, "skip_special_tokens": true,
    "modalities": ["text"], "echo": false, "cache_prompt": true, "user": "u", "id_slot": -1,
    "service_tier": "auto", "parallel_tool_calls": true, "messages": [
      {"role": "user", "content": "a", "name": "ada"},
      {"role": "assistant", "content": "b", "tool_calls": [], "refusal": null, "audio": null,
       "annotations": []}]})");
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
  EXPECT_TRUE(completion(R"({"prompt": "a", "echo": true, "logprobs": 1})")->scores_prompt());
  EXPECT_FALSE(completion(R"({"prompt": "a", "logprobs": 1})")->scores_prompt());
  EXPECT_TRUE(completion(R"({"prompt": "a", "echo": true})")->echo);
  const GenerationRequest none = *completion(R"({"prompt": "a", "echo": true, "max_tokens": 0})");
  EXPECT_TRUE(none.only_prompt);
  EXPECT_EQ(none.max_tokens, 1U);
  EXPECT_FALSE(completion(R"({"prompt": "a", "echo": false, "max_tokens": 0})").ok());
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
