// Every field of a request: below, at and above its limits, of wrong types, and null.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/limits.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {
namespace {

constexpr ModelBounds kRangeBounds{1000, 2048};

ApiResult<GenerationRequest> parse(bool chat, const std::string& name, const Json& value,
                                   const Json& more = Json::object()) {
  Json body = {{"model", "m"}};
  if (chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", "hi"}}});
  } else {
    body["prompt"] = "hi";
  }
  body.update(more);
  body[name] = value;
  return chat ? parse_chat_request(body, kRangeBounds)
              : parse_completion_request(body, kRangeBounds);
}

struct Range {
  const char* name;
  std::vector<Json> good;
  std::vector<Json> bad;
  bool chat = true;
  bool completion = true;
};

const Json kNumbersWrong = Json::parse(R"(["1", "", true, false, [], [1], {}, {"a": 1}])");
const Json kBooleansWrong = Json::parse(R"([0, 1, "true", "", [], [true], {}, 1.0])");

std::vector<Range> number_ranges() {
  const double above = std::nextafter(100.0, 200.0);
  const double below = std::nextafter(-100.0, -200.0);
  return {
      {"temperature", {0, -0.0, 1e-40, 0.7, 2, 100}, {-1e-9, -1, above, 1e308}},
      {"top_p", {0, -0.0, 1e-60, 1e-30, 0.5, 1, 1.0}, {-0.1, std::nextafter(1.0, 2.0), 2}},
      {"min_p", {0, 1e-60, 0.5, 1}, {-1e-300, std::nextafter(1.0, 2.0), 5}},
      {"presence_penalty", {-100, -2, 0, 2, 100}, {above, below, 1e300}},
      {"frequency_penalty", {-100, -2, 0, 2, 100}, {above, below, -1e300}},
      {"repetition_penalty", {1e-30, 1, 1.1, 100}, {0, -0.0, 1e-60, -1, above}},
      {"repeat_penalty", {1e-30, 1, 1.1, 100}, {0, 1e-60, -1, above}},
  };
}

std::vector<Range> integer_ranges() {
  const std::int64_t int32 = 2147483647;
  return {
      {"top_k", {-1, 0, 1, 999, 1000, int32, 40.0}, {-2, int32 + 1, 1.5, -1.5, 1e300}},
      {"n", {1, 8, 2.0}, {0, -1, 9, 1.5, 1000000000}},
      {"max_tokens", {-1, 1, int32, 5.0}, {0, -2, int32 + 1, 0.5}},
      {"max_completion_tokens", {-1, 1, int32}, {0, -2, int32 + 1, 0.5}, true, false},
      {"seed", {0, -1, INT64_MIN, INT64_MAX, -3.0}, {UINT64_MAX, 0.5, 1e19, -1e19}},
      {"best_of", {1, 1.0}, {0, 2, -1, 1.5}, false, true},
      {"logprobs", {0, 1, 20}, {-1, 21, 0.5}, false, true},
  };
}

std::vector<Range> flag_ranges() {
  std::vector<Range> out;
  for (const char* name : {"stream", "ignore_eos", "return_token_ids", "return_hashes"}) {
    out.push_back({name, {true, false}, kBooleansWrong});
  }
  out.push_back({"logprobs", {true, false}, kBooleansWrong, true, false});
  out.push_back({"echo", {true, false}, kBooleansWrong, false, true});
  return out;
}

void check(const Range& range, bool chat) {
  for (const Json& value : range.good) {
    auto parsed = parse(chat, range.name, value);
    EXPECT_TRUE(parsed.ok()) << range.name << " = " << value << ": "
                             << (parsed.ok() ? "" : parsed.error().message);
  }
  for (const Json& value : range.bad) {
    auto parsed = parse(chat, range.name, value);
    ASSERT_FALSE(parsed.ok()) << range.name << " = " << value;
    EXPECT_EQ(parsed.error().status, 400U);
    EXPECT_EQ(parsed.error().param, range.name) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(range.name), std::string::npos);
  }
  auto parsed = parse(chat, range.name, nullptr);
  ASSERT_TRUE(parsed.ok()) << range.name << " = null";
  auto absent = parse(chat, "no_such_field", 1);
  EXPECT_EQ(parsed->sampling, absent->sampling) << range.name;
  EXPECT_EQ(parsed->n, absent->n);
  EXPECT_EQ(parsed->max_tokens, absent->max_tokens);
  EXPECT_EQ(parsed->seed, absent->seed);
}

void check_all(const std::vector<Range>& ranges, const Json& wrong) {
  for (Range range : ranges) {
    // `logprobs: false` is off in both endpoints.
    for (const Json& value : wrong) {
      if (std::string(range.name) != "logprobs" || value != false) range.bad.push_back(value);
    }
    if (range.chat) check(range, true);
    if (range.completion) check(range, false);
  }
}

TEST(RequestsRanges, Numbers) { check_all(number_ranges(), kNumbersWrong); }
TEST(RequestsRanges, Integers) { check_all(integer_ranges(), kNumbersWrong); }
TEST(RequestsRanges, Flags) { check_all(flag_ranges(), Json::array()); }

// Whatever the parser lets through must pass the check that every stage makes of it.
TEST(RequestsRanges, WhatIsAcceptedIsValidOnTheWire) {
  for (const auto& ranges : {number_ranges(), integer_ranges()}) {
    for (const Range& range : ranges) {
      if (!range.chat) continue;
      for (const Json& value : range.good) {
        auto parsed = parse(true, range.name, value);
        ASSERT_TRUE(parsed.ok());
        const Status valid = validate(parsed->sampling, kRangeBounds.vocabulary);
        EXPECT_TRUE(valid.ok()) << range.name << " = " << value << valid.error().message;
      }
    }
  }
}

TEST(RequestsRanges, AliasesMeanTheSameAndTheLaterNameWins) {
  EXPECT_EQ(parse(true, "repeat_penalty", 1.5)->sampling,
            parse(true, "repetition_penalty", 1.5)->sampling);
  const Json both = {{"repetition_penalty", 1.25}};
  EXPECT_EQ(parse(true, "repeat_penalty", 1.5, both)->sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(parse(true, "max_tokens", 7)->max_tokens, 7U);
  EXPECT_EQ(parse(true, "max_completion_tokens", 9, {{"max_tokens", 7}})->max_tokens, 9U);
  EXPECT_FALSE(parse(true, "max_completion_tokens", 9, {{"max_tokens", 0}}).ok())
      << "an alias does not excuse the other name";
  EXPECT_EQ(parse(false, "max_completion_tokens", 9)->max_tokens, std::nullopt);
}

TEST(RequestsRanges, TopKThatCoversTheVocabularyIsOff) {
  EXPECT_EQ(parse(true, "top_k", -1)->sampling.top_k, 0U);
  EXPECT_EQ(parse(true, "top_k", 999)->sampling.top_k, 999U);
  EXPECT_EQ(parse(true, "top_k", 1000)->sampling.top_k, 0U);
}

TEST(RequestsRanges, SeedsAreTwosComplement) {
  EXPECT_EQ(parse(true, "seed", INT64_MIN)->seed, std::uint64_t{1} << 63);
  EXPECT_EQ(parse(true, "seed", -5)->seed, UINT64_MAX - 4);
  EXPECT_EQ(parse(true, "seed", INT64_MAX)->seed, UINT64_MAX >> 1);
}

TEST(RequestsRanges, TopLogprobsNeedLogprobs) {
  const Json on = {{"logprobs", true}};
  EXPECT_EQ(parse(true, "top_logprobs", 20, on)->sampling.top_logprobs, 20U);
  EXPECT_TRUE(parse(true, "top_logprobs", 0).ok());
  for (const Json& bad : {Json(21), Json(-1), Json(1.5), Json("2"), Json(true)}) {
    auto parsed = parse(true, "top_logprobs", bad, on);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().param, "top_logprobs");
  }
  EXPECT_FALSE(parse(true, "top_logprobs", 1).ok());
  EXPECT_FALSE(parse(false, "logprobs", false)->sampling.logprobs);
}

TEST(RequestsRanges, LogitBias) {
  const char* good[] = {"{}",
                        "[]",
                        R"({"0": -100, "999": 100})",
                        R"({"3": false})",
                        R"([["3", 1.5], [4, false]])",
                        R"([[5.0, 0]])",
                        R"({"007": 1})"};
  for (const char* text : good) {
    auto parsed = parse(true, "logit_bias", Json::parse(text));
    ASSERT_TRUE(parsed.ok()) << text << parsed.error().message;
    EXPECT_TRUE(validate(parsed->sampling, kRangeBounds.vocabulary).ok()) << text;
  }
  const char* bad[] = {R"({"1000": 1})",
                       R"({"-1": 1})",
                       R"({"": 1})",
                       R"({" 1": 1})",
                       R"({"1 ": 1})",
                       R"({"+1": 1})",
                       R"({"1.0": 1})",
                       R"({"0x1": 1})",
                       R"({"99999999999999999999": 1})",
                       R"({"1": 100.0001})",
                       R"({"1": -101})",
                       R"({"1": true})",
                       R"({"1": null})",
                       R"({"1": "5"})",
                       R"({"1": [5]})",
                       R"([1, 2])",
                       R"([[1]])",
                       R"([[1, 2, 3]])",
                       R"([[1.5, 2]])",
                       R"([[null, 2]])",
                       R"([{"1": 2}])",
                       R"("x")",
                       "3",
                       "true"};
  for (const char* text : bad) {
    auto parsed = parse(true, "logit_bias", Json::parse(text));
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().param, "logit_bias") << text;
  }
  Json many = Json::array();
  for (std::uint32_t i = 0; i < limits::kLogitBias; ++i) many.push_back({i % 1000, 1});
  EXPECT_TRUE(parse(true, "logit_bias", many).ok());
  many.push_back({1, 1});
  EXPECT_FALSE(parse(true, "logit_bias", many).ok());
}

TEST(RequestsRanges, Stop) {
  for (const char* text : {R"("x")", R"(["x"])", R"(["x", "x", "\u0000"])", "[]"}) {
    EXPECT_TRUE(parse(false, "stop", Json::parse(text)).ok()) << text;
  }
  for (const char* text : {R"("")", R"([""])", R"(["x", null])", R"([["x"]])", "1", "true", "{}"}) {
    auto parsed = parse(false, "stop", Json::parse(text));
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().param, "stop");
  }
  // Bytes count, not characters.
  std::string wide;
  for (std::size_t i = 0; i < limits::kStopStringBytes / 2; ++i) wide += "\xC3\xA9";
  EXPECT_TRUE(parse(true, "stop", wide).ok());
  EXPECT_FALSE(parse(true, "stop", wide + "x").ok());
}

TEST(RequestsRanges, StreamOptions) {
  EXPECT_TRUE(parse(true, "stream_options", {{"include_usage", true}})->include_usage);
  EXPECT_FALSE(parse(true, "stream_options", Json::object())->include_usage);
  auto wrong = parse(true, "stream_options", {{"include_usage", 1}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().param, "stream_options.include_usage");
  for (const Json& value : {Json("x"), Json::array(), Json(true)}) {
    EXPECT_FALSE(parse(false, "stream_options", value).ok()) << value;
  }
}

TEST(RequestsRanges, WhatIsNotSupportedSaysSo) {
  const auto expect_refused = [](bool chat, const char* name, const char* text) {
    auto parsed = parse(chat, name, Json::parse(text));
    ASSERT_FALSE(parsed.ok()) << name << text;
    EXPECT_EQ(parsed.error().type, "not_supported_error");
    EXPECT_EQ(parsed.error().code, "unsupported_value");
    EXPECT_EQ(parsed.error().param, name);
    EXPECT_TRUE(parse(chat, name, nullptr).ok());
  };
  for (const bool chat : {true, false}) {
    expect_refused(chat, "functions", R"([{"name": "f"}])");
    expect_refused(chat, "logits_processors", R"(["f"])");
  }
  // A completion has no messages, so it has no tools, no thoughts and no template.
  const char* tool = R"([{"type": "function", "function": {"name": "f"}}])";
  EXPECT_EQ(parse(true, "tools", Json::parse(tool))->tools.size(), 1U);
  expect_refused(false, "tools", tool);
  expect_refused(false, "tool_choice", R"("required")");
  expect_refused(false, "reasoning_effort", R"("low")");
  expect_refused(false, "chat_template_kwargs", R"({"enable_thinking": false})");
  expect_refused(false, "continue_final_message", "true");
}

TEST(RequestsRanges, AFormatIsTakenByBothEndpoints) {
  using Kind = model::GrammarSource::Kind;
  const std::pair<const char*, Kind> formats[] = {
      {R"({"type": "json_object"})", Kind::kJsonObject},
      {R"({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}})",
       Kind::kJsonSchema},
  };
  for (const bool chat : {true, false}) {
    for (const auto& [text, kind] : formats) {
      auto parsed = parse(chat, "response_format", Json::parse(text));
      ASSERT_TRUE(parsed.ok()) << text << parsed.error().message;
      ASSERT_TRUE(parsed->format) << text;
      EXPECT_EQ(parsed->format->kind, kind);
    }
    EXPECT_FALSE(parse(chat, "response_format", {{"type", "text"}})->format);
    EXPECT_FALSE(parse(chat, "response_format", nullptr)->format);
    for (const char* text :
         {"{}", R"({"type": "json_schema"})", R"({"type": "json_schema", "json_schema": {}})",
          R"({"type": "json_schema", "json_schema": {"schema": 5}})", R"({"type": "yaml"})"}) {
      auto parsed = parse(chat, "response_format", Json::parse(text));
      ASSERT_FALSE(parsed.ok()) << text;
      EXPECT_EQ(parsed.error().code, "invalid_value");
      EXPECT_TRUE(parsed.error().param->starts_with("response_format")) << *parsed.error().param;
    }
    EXPECT_EQ(parse(chat, "response_format", {{"type", 5}}).error().param, "response_format.type");
  }
}

TEST(RequestsRanges, MessagesOfEveryWrongShape) {
  struct Case {
    const char* text;
    const char* param;
  };
  const Case cases[] = {
      {R"("hi")", "messages"},
      {R"({"role": "user"})", "messages"},
      {R"([])", "messages"},
      {R"([{"content": "x"}])", "messages[0].role"},
      {R"([{"role": null, "content": "x"}])", "messages[0].role"},
      {R"([{"role": 5, "content": "x"}])", "messages[0].role"},
      {R"([{"role": "User", "content": "x"}])", "messages[0].role"},
      {R"([{"role": "user", "content": "x"}, {"role": "user", "content": 7}])",
       "messages[1].content"},
      {R"([{"role": "user", "content": {"text": "x"}}])", "messages[0].content"},
      {R"([{"role": "user", "content": null}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "content[].text"},
      {R"([{"role": "user", "content": [{"type": 3, "text": "x"}]}])", "content[].type"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 3}]}])", "content[].text"},
      {R"([{"role": "function", "content": "x"}])", "messages[0].role"},
  };
  for (const Case& each : cases) {
    auto parsed = parse(true, "messages", Json::parse(each.text));
    ASSERT_FALSE(parsed.ok()) << each.text;
    EXPECT_EQ(parsed.error().param, each.param) << parsed.error().message;
  }
  for (const char* text : {R"([5])", R"([null])", R"([{"role": "user", "content": ["x"]}])"}) {
    EXPECT_FALSE(parse(true, "messages", Json::parse(text)).ok()) << text;
  }
  Json many = Json::array();
  const Json one = {{"role", "user"}, {"content", ""}};
  for (std::uint32_t i = 0; i < limits::kMessages; ++i) many.push_back(one);
  EXPECT_EQ(parse(true, "messages", many)->messages.size(), limits::kMessages);
  many.push_back(one);
  EXPECT_FALSE(parse(true, "messages", many).ok());
}

TEST(RequestsRanges, ModelIsAString) {
  for (const Json& value : {Json(5), Json::array({"m"}), Json(true)}) {
    for (const bool chat : {true, false}) {
      auto parsed = parse(chat, "model", value);
      ASSERT_FALSE(parsed.ok()) << value;
      EXPECT_EQ(parsed.error().param, "model");
    }
  }
}

TEST(RequestsRanges, PromptsAreBoundedInNumber) {
  Json many = Json::array();
  for (std::uint32_t i = 0; i < limits::kPrompts; ++i)
    many.push_back(i % 2 ? Json("a") : Json({1}));
  auto parsed = parse(false, "prompt", many);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->prompts.size(), limits::kPrompts);
  EXPECT_EQ(std::get<std::vector<TokenId>>(parsed->prompts[0]), std::vector<TokenId>{1});
  EXPECT_EQ(std::get<std::string>(parsed->prompts[1]), "a");
  many.push_back("a");
  auto refused = parse(false, "prompt", many);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "prompt");
  // A list of token ids is one prompt however long it is.
  EXPECT_EQ(parse(false, "prompt", Json(std::vector<int>(500, 7)))->prompts.size(), 1U);
}

}  // namespace
}  // namespace hearth::coordinator::http
