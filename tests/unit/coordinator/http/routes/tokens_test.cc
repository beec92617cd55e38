#include "coordinator/http/routes/tokens.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "model/gguf/untrusted_text.h"
#include "tests/unit/coordinator/http/routes/served_model.h"

namespace hearth::coordinator::http {
namespace {

const ServedModel& served_tokens() { return tiny_model().served; }

using Function = ApiResult<OrderedJson> (*)(const ServedModel&, const Json&);

ApiResult<OrderedJson> applied(const ServedModel& served, const Json& body) {
  return apply_template(served, body, 0);
}

std::string param_of(Function function, const char* body) {
  auto result = function(served_tokens(), Json::parse(body));
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.error().status, 400U) << body;
  return result.error().param.value_or("none");
}

TEST(TokensApi, WrongBodiesNameTheField) {
  EXPECT_EQ(param_of(tokenize, "{}"), "content");
  EXPECT_EQ(param_of(tokenize, R"({"content": null})"), "content");
  EXPECT_EQ(param_of(tokenize, R"({"content": ["a"]})"), "content");
  EXPECT_EQ(param_of(tokenize, R"({"content": "a", "add_special": 1})"), "add_special");
  EXPECT_EQ(param_of(tokenize, R"({"content": "a", "parse_special": "no"})"), "parse_special");
  EXPECT_EQ(param_of(tokenize, R"({"content": "a", "with_pieces": []})"), "with_pieces");
  EXPECT_EQ(param_of(tokenize, R"({"content": "a", "with_pieces": null})"), "accepted");
  EXPECT_EQ(param_of(detokenize, "{}"), "tokens");
  for (const char* tokens : {"5", "\"a\"", "{}", "[-1]", "[400]", "[1.5]", "[\"1\"]", "[null]",
                             "[[1]]", "[true]", "[1e300]", "[18446744073709551615]"}) {
    const std::string body = std::string(R"({"tokens": )") + tokens + "}";
    EXPECT_EQ(param_of(detokenize, body.c_str()), "tokens") << tokens;
  }
  EXPECT_EQ(param_of(applied, "{}"), "messages");
  EXPECT_EQ(param_of(applied, R"({"messages": [{"role": "user"}]})"), "messages[0].content");
  EXPECT_EQ(param_of(applied,
                     R"({"messages": [{"role": "user", "content": ""}],
                         "add_generation_prompt": 1})"),
            "add_generation_prompt");
  for (const Function function : {tokenize, detokenize, applied}) {
    for (const char* body : {"[]", "5", "\"x\"", "null"}) {
      EXPECT_EQ(param_of(function, body), "none") << body;
    }
  }
}

TEST(TokensApi, SpecialTokensAreParsedOnlyWhereAsked) {
  const auto ids = [](const char* more) {
    Json body = Json::parse(more);
    body["content"] = "a<|im_end|>";
    return (*tokenize(served_tokens(), body))["tokens"];
  };
  EXPECT_EQ(ids("{}").back(), 2);
  EXPECT_EQ(ids(R"({"parse_special": true})"), ids("{}"));
  const OrderedJson text = ids(R"({"parse_special": false})");
  EXPECT_GT(text.size(), ids("{}").size());
  for (const auto& id : text) EXPECT_GT(id.get<int>(), 2) << "user text became a control token";
  EXPECT_EQ((*tokenize(served_tokens(), {{"content", ""}})).dump(), R"({"tokens":[]})");
}

// As a chat: what no context can hold costs nothing.
TEST(TokensApi, TextsAndTokensBeyondTheContextAreRefused) {
  const ServedModel& served = served_tokens();
  const std::size_t most = served.spec.context * served.tokenizer->longest_token_bytes();
  const auto refusal = [](ApiResult<OrderedJson> result) {
    return result.ok() ? std::string("accepted")
                       : result.error().code.value_or("") + " " + result.error().param.value_or("");
  };
  EXPECT_EQ(refusal(tokenize(served, {{"content", std::string(most, ' ')}})), "accepted");
  for (const bool pieces : {false, true}) {
    const Json body = {{"content", std::string(most + 1, ' ')}, {"with_pieces", pieces}};
    EXPECT_EQ(refusal(tokenize(served, body)), "context_length_exceeded content");
  }
  std::vector<TokenId> ids(served.spec.context, 70);
  EXPECT_EQ(refusal(detokenize(served, {{"tokens", ids}})), "accepted");
  ids.push_back(70);
  EXPECT_EQ(refusal(detokenize(served, {{"tokens", ids}})), "context_length_exceeded tokens");
}

TEST(TokensApi, PiecesJoinToTheText) {
  const std::string text = "h\xC3\xA9llo \xF0\x9F\x98\x80<|im_start|>";
  const Json body = {{"content", text}, {"with_pieces", true}};
  const OrderedJson tokens = (*tokenize(served_tokens(), body))["tokens"];
  std::string joined;
  bool bytes = false;
  for (const auto& entry : tokens) {
    ASSERT_EQ(entry.size(), 2U);
    if (entry["piece"].is_string()) {
      joined += entry["piece"].get<std::string>();
      continue;
    }
    bytes = true;
    std::string part;
    for (const auto& byte : entry["piece"]) part += static_cast<char>(byte.get<int>());
    EXPECT_FALSE(model::is_utf8(part)) << "a text that could be a string";
    joined += part;
  }
  EXPECT_EQ(joined, text);
  EXPECT_TRUE(bytes) << "the emoji is split";
}

TEST(TokensApi, TokenizeAndDetokenizeAreInverse) {
  const std::string letters[] = {
      "a",          " ",  "\n", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
      "<|im_end|>", "<|", "Z",  "0",        "\t",           "'s"};
  SeededRandom random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::uint64_t n = random.next() % 30; n > 0; --n) {
      text += letters[random.next() % std::size(letters)];
    }
    for (const bool special : {false, true}) {
      const Json body = {{"content", text}, {"parse_special", special}};
      auto tokens = tokenize(served_tokens(), body);
      ASSERT_TRUE(tokens.ok());
      auto back = detokenize(served_tokens(), Json::parse(tokens->dump()));
      ASSERT_TRUE(back.ok());
      ASSERT_EQ((*back)["content"], text) << special;
    }
  }
}

TEST(TokensApi, ADetokenizedTextIsAlwaysUtf8) {
  SeededRandom random(5);
  for (int round = 0; round < 300; ++round) {
    Json body = {{"tokens", Json::array()}};
    for (std::uint64_t n = random.next() % 12; n > 0; --n) {
      body["tokens"].push_back(random.next() % 400);
    }
    auto text = detokenize(served_tokens(), body);
    ASSERT_TRUE(text.ok());
    ASSERT_TRUE(model::is_utf8((*text)["content"].get<std::string>()));
  }
}

TEST(TokensApi, TemplatesAreRendered) {
  const auto prompt = [](const char* body) {
    return (*applied(served_tokens(), Json::parse(body)))["prompt"].get<std::string>();
  };
  EXPECT_EQ(prompt(R"({"messages": [{"role": "developer", "content": "x"}],
                       "add_generation_prompt": false})"),
            "<|im_start|>system\nx<|im_end|>\n");
  EXPECT_EQ(prompt(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                       {"text": "b"}]}]})"),
            "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace hearth::coordinator::http
