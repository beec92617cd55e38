#include "coordinator/http/dialects/translate.h"

#include <gtest/gtest.h>

namespace hearth::coordinator::http {
namespace {

constexpr ModelBounds kTranslateBounds{1000, 2048};

// Its order of keys has no meaning here.
nlohmann::json body_of(ApiResult<TranslatedBody> translated) {
  if (!translated.ok()) {
    ADD_FAILURE() << translated.error().message;
    return {};
  }
  return translated->body;
}

nlohmann::json anthropic(const char* body) {
  return body_of(translate_anthropic(Json::parse(body), false));
}
nlohmann::json responses(const char* body) {
  return body_of(translate_responses(Json::parse(body)));
}
nlohmann::json ollama(const char* body, bool chat = true) {
  return body_of(translate_ollama(Json::parse(body), chat));
}

// The error of a body as a client of the dialect gets it.
ApiError refusal(Dialect dialect, const char* body) {
  auto request = translate_request(dialect, Json::parse(body), kTranslateBounds);
  if (!request.ok()) return request.error();
  ADD_FAILURE() << "it was accepted: " << body;
  return {};
}

TEST(TranslateOllama, WhatIsEmbedded) {
  const auto embed = [](const char* body, bool one) {
    return translate_ollama_embed(Json::parse(body), one, {1000, 2048, 64});
  };
  auto list = embed(R"({"model":"m","input":["a","b"],"options":{"num_ctx":9},"keep_alive":-1,
                        "dimensions":8})",
                    false);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->request.model, "m");
  EXPECT_EQ(list->request.prompts.size(), 2U);
  EXPECT_EQ(list->request.embedding->values, 8U);
  EXPECT_TRUE(list->request.embedding->truncate) << "as Ollama's default";
  EXPECT_FALSE(list->request.embedding->one || list->only_loads);
  auto one = embed(R"({"model":"m","prompt":"a"})", true);
  ASSERT_TRUE(one.ok());
  EXPECT_TRUE(one->request.embedding->one);
  EXPECT_FALSE(embed(R"({"input":"a","truncate":false})", false)->request.embedding->truncate);
  for (const char* body : {R"({"model":"m"})", R"({"model":"m","input":""})",
                           R"({"model":"m","input":[]})", R"({"model":"m","input":null})"}) {
    auto loads = embed(body, false);
    ASSERT_TRUE(loads.ok()) << body;
    EXPECT_TRUE(loads->only_loads);
    EXPECT_EQ(loads->request.model, "m");
  }
  EXPECT_EQ(embed(R"({"input":{"a":1}})", false).error().param, "input");
  EXPECT_EQ(embed(R"({"prompt":["a"]})", true).error().param, "prompt");
  EXPECT_EQ(embed(R"({"input":"a","truncate":3})", false).error().param, "truncate");
  EXPECT_FALSE(embed("[]", false).ok());
}

TEST(TranslateAnthropic, ABodyBecomesAChat) {
  EXPECT_EQ(
      anthropic(R"({"model":"m","max_tokens":5,"temperature":0.5,"top_k":3,"seed":9,
      "system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
      "messages":[{"role":"user","content":"Hi"}],"stop_sequences":["END"]})"),
      nlohmann::json::parse(R"({"model":"m","max_tokens":5,"temperature":0.5,"top_k":3,"seed":9,
      "stop":["END"],"messages":[
        {"role":"system","content":[{"type":"text","text":"Be brief."}]},
        {"role":"user","content":"Hi"}]})"));
}

TEST(TranslateAnthropic, ManyUnknownFieldsCostTheirNumberOnly) {
  Json body = Json::parse(R"({"max_tokens":5,"messages":[{"role":"user","content":"x"}]})");
  constexpr int kMany = 400'000;  // their square is a day's work
  for (int i = 0; i < kMany; ++i) append_member(body, std::to_string(i), 0);
  EXPECT_EQ(body_of(translate_anthropic(body, false)).size(), std::size_t{kMany} + 2);
}

TEST(TranslateAnthropic, BlocksOfToolsBecomeCallsAndToolMessages) {
  const nlohmann::json chat = anthropic(R"({"max_tokens":5,"messages":[
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},
      {"type":"text","text":"I look."},
      {"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
    {"role":"user","content":[
      {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"42"}]},
      {"type":"tool_result","tool_use_id":"t2","content":"no","is_error":true},
      {"type":"text","text":"So?"}]}]})");
  EXPECT_EQ(chat["messages"], nlohmann::json::parse(R"([
    {"role":"assistant","content":[{"type":"text","text":"I look."}],"reasoning_content":"hm",
     "tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
    {"role":"tool","tool_call_id":"t1","content":[{"type":"text","text":"42"}]},
    {"role":"tool","tool_call_id":"t2","content":[{"type":"text","text":"Error: "},
                                                  {"type":"text","text":"no"}]},
    {"role":"user","content":[{"type":"text","text":"So?"}]}])"));
}

TEST(TranslateAnthropic, ToolsAndTheirChoice) {
  const nlohmann::json chat =
      anthropic(R"({"max_tokens":5,"messages":[{"role":"user","content":"x"}],
    "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
    "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}})");
  EXPECT_EQ(chat["tools"], nlohmann::json::parse(R"([{"type":"function","function":
    {"name":"f","description":"d","parameters":{"type":"object"}}}])"));
  EXPECT_EQ(chat["tool_choice"],
            nlohmann::json::parse(R"({"type":"function","function":{"name":"f"}})"));
  EXPECT_EQ(chat["parallel_tool_calls"], false);
  EXPECT_EQ(anthropic(R"({"max_tokens":5,"messages":[{"role":"user","content":"x"}],
    "tool_choice":{"type":"any"}})")["tool_choice"],
            "required");
}

TEST(TranslateAnthropic, ThinkingAndPrefill) {
  const nlohmann::json chat = anthropic(R"({"max_tokens":5,"thinking":{"type":"disabled"},
    "output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}},
    "messages":[{"role":"user","content":"x"},{"role":"assistant","content":"The"}]})");
  EXPECT_EQ(chat["chat_template_kwargs"]["enable_thinking"], false);
  EXPECT_EQ(chat["reasoning_effort"], "high");
  EXPECT_EQ(chat["response_format"]["json_schema"]["schema"]["type"], "object");
  EXPECT_EQ(chat["continue_final_message"], true);
  EXPECT_EQ(chat["add_generation_prompt"], false);
}

TEST(TranslateAnthropic, RefusesByName) {
  const auto param = [](const char* body) { return refusal(Dialect::kAnthropic, body).param; };
  EXPECT_EQ(param(R"({"messages":[{"role":"user","content":"x"}]})"), "max_tokens");
  EXPECT_EQ(param(R"({"max_tokens":1})"), "messages");
  EXPECT_EQ(param(R"({"max_tokens":0,"messages":[{"role":"user","content":"x"}]})"), "max_tokens");
  EXPECT_EQ(param(R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],
                      "stop_sequences":[3]})"),
            "stop_sequences");
  EXPECT_EQ(param(R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],
                      "mcp_servers":[{"url":"u"}]})"),
            "mcp_servers");
  EXPECT_EQ(param(R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],
                      "tools":[{"type":"web_search_20250305","name":"w"}]})"),
            "tools[0].type");
  EXPECT_EQ(param(R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],
                      "mirostat":2})"),
            "mirostat")
      << "what the chat refuses is refused in every dialect";
  const ApiError image = refusal(Dialect::kAnthropic, R"({"max_tokens":1,"messages":[
      {"role":"user","content":[{"type":"image","source":{}}]}]})");
  EXPECT_NE(image.message.find("'image'"), std::string::npos);
}

TEST(TranslateAnthropic, CountsWithoutALength) {
  auto counted = translate_request(Dialect::kAnthropic,
                                   Json::parse(R"({"messages":[{"role":"user","content":"x"}]})"),
                                   kTranslateBounds, true);
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->request.messages.size(), 1U);
}

TEST(TranslateResponses, TextAndInstructions) {
  const nlohmann::json chat = responses(R"({"model":"m","input":"Hi","instructions":"Be brief.",
    "max_output_tokens":5,"store":true,"temperature":0})");
  EXPECT_EQ(chat["messages"], nlohmann::json::parse(R"([{"role":"system","content":"Be brief."},
                                              {"role":"user","content":"Hi"}])"));
  EXPECT_EQ(chat["max_tokens"], 5);
  EXPECT_EQ(chat["temperature"], 0);
}

TEST(TranslateResponses, ItemsOfOneTurnAreOneMessage) {
  const nlohmann::json chat = responses(R"({"input":[
    {"role":"user","content":[{"type":"input_text","text":"Go"}]},
    {"type":"reasoning","id":"rs_1","summary":[],
     "content":[{"type":"reasoning_text","text":"hm"}]},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
    {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
    {"type":"function_call_output","call_id":"c1","output":"1"},
    {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]}]})");
  ASSERT_EQ(chat["messages"].size(), 4U);
  const Json& said = chat["messages"][1];
  EXPECT_EQ(said["reasoning_content"], "hm");
  EXPECT_EQ(said["content"][0]["text"], "I look.");
  EXPECT_EQ(said["tool_calls"].size(), 2U);
  EXPECT_EQ(chat["messages"][2],
            nlohmann::json::parse(R"({"role":"tool","tool_call_id":"c1","content":"1"})"));
  EXPECT_EQ(chat["messages"][3]["tool_call_id"], "c2");
}

TEST(TranslateResponses, ToolsFormatAndEffort) {
  const nlohmann::json chat =
      responses(R"({"input":"x","reasoning":{"effort":"low","summary":"auto"},
    "tools":[
      {"type":"function","name":"f","parameters":{"type":"object"},"strict":true}],
    "tool_choice":{"type":"function","name":"f"},
    "text":{
      "format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}})");
  EXPECT_EQ(chat["tools"][0], nlohmann::json::parse(R"({"type":"function","function":
    {"name":"f","parameters":{"type":"object"},"strict":true}})"));
  EXPECT_EQ(chat["tool_choice"],
            nlohmann::json::parse(R"({"type":"function","function":{"name":"f"}})"));
  EXPECT_EQ(chat["reasoning_effort"], "low");
  EXPECT_EQ(chat["response_format"], nlohmann::json::parse(R"({"type":"json_schema","json_schema":
    {"name":"n","schema":{"type":"object"},"strict":true}})"));
}

TEST(TranslateResponses, RepeatsItsRequest) {
  auto translated =
      translate_responses(Json::parse(R"({"input":"x","top_p":0.5,"metadata":{"a":"b"},
        "tools":[{"type":"function","name":"f"}]})"));
  ASSERT_TRUE(translated.ok());
  const OrderedJson& frame = translated->frame;
  EXPECT_EQ(frame["top_p"], 0.5);
  EXPECT_EQ(frame["temperature"], 1.0);
  EXPECT_EQ(frame["metadata"]["a"], "b");
  EXPECT_EQ(frame["store"], false) << "nothing is stored";
  EXPECT_EQ(frame["text"]["format"]["type"], "text");
  EXPECT_TRUE(frame["tools"][0]["strict"].is_null());
}

TEST(TranslateResponses, RefusesByName) {
  const auto param = [](const char* body) { return refusal(Dialect::kResponses, body).param; };
  EXPECT_EQ(param(R"({})"), "input");
  EXPECT_EQ(param(R"({"input":"x","previous_response_id":"resp_1"})"), "previous_response_id");
  EXPECT_EQ(param(R"({"input":"x","conversation":"c"})"), "conversation");
  EXPECT_EQ(param(R"({"input":"x","background":true})"), "background");
  EXPECT_EQ(param(R"({"input":"x","truncation":"auto"})"), "truncation");
  EXPECT_EQ(param(R"({"input":"x","max_output_tokens":0})"), "max_output_tokens");
  EXPECT_EQ(param(R"({"input":"x","tools":[{"type":"web_search"}]})"), "tools[0].type");
  EXPECT_EQ(param(R"({"input":[{"type":"item_reference","id":"x"}]})"), "input[0].type");
  EXPECT_EQ(param(R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})"), "input");
}

TEST(TranslateOllama, AChat) {
  EXPECT_EQ(ollama(R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"keep_alive":"5m",
      "options":{"num_predict":5,"num_ctx":9,"seed":1,"repeat_penalty":1.1,"stop":["a"]}})"),
            nlohmann::json::parse(
                R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,
      "max_tokens":5,"seed":1,"repetition_penalty":1.1,"stop":["a"]})"));
}

TEST(TranslateOllama, CallsHaveObjectsAndNoIds) {
  const nlohmann::json chat = ollama(R"({"messages":[
    {"role":"assistant","content":"","thinking":"hm",
     "tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},
    {"role":"tool","content":"42","tool_name":"f"}]})");
  const Json& said = chat["messages"][0];
  EXPECT_EQ(said["reasoning_content"], "hm");
  EXPECT_EQ(said["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(chat["messages"][1]["tool_call_id"], said["tool_calls"][0]["id"]);
  EXPECT_EQ(chat["messages"][1]["name"], "f");
}

TEST(TranslateOllama, Generations) {
  const nlohmann::json chat =
      ollama(R"({"prompt":"Hi","system":"Be brief.","stream":false})", false);
  EXPECT_EQ(chat["messages"].size(), 2U);
  EXPECT_EQ(chat["stream"], false);
  auto raw = translate_ollama(Json::parse(R"({"prompt":"Hi","raw":true})"), false);
  ASSERT_TRUE(raw.ok());
  EXPECT_FALSE(raw->chat);
  EXPECT_EQ(raw->body["prompt"], "Hi");
  EXPECT_EQ(raw->body["max_tokens"], -1);
  auto load = translate_request(Dialect::kOllamaGenerate, Json::parse(R"({"model":"m"})"),
                                kTranslateBounds);
  ASSERT_TRUE(load.ok());
  EXPECT_TRUE(load->only_loads);
  EXPECT_EQ(load->request.model, "m");
}

TEST(TranslateOllama, AModelThatIsKeptForNoTimeIsNotLoaded) {
  const auto unloads = [](const char* keep_alive, const char* prompt = "") {
    const Json body = {{"prompt", prompt}, {"keep_alive", Json::parse(keep_alive)}};
    auto load = translate_request(Dialect::kOllamaGenerate, body, kTranslateBounds);
    EXPECT_TRUE(load.ok()) << keep_alive;
    return load.ok() && load->unloads;
  };
  for (const char* none : {"0", "0.0", "\"0\"", "\"0s\"", "\"0.0m\"", "\"0ms\""}) {
    EXPECT_TRUE(unloads(none)) << none;
    EXPECT_FALSE(unloads(none, "Hi")) << none;
  }
  for (const char* some : {"1", "-1", "\"5m\"", "\"0x\"", "\"\"", "\"s\"", "null", "[]"}) {
    EXPECT_FALSE(unloads(some)) << some;
  }
}

TEST(TranslateOllama, FormatAndThink) {
  const nlohmann::json chat = ollama(R"({"messages":[{"role":"user","content":"x"}],"format":"json",
                               "think":"low"})");
  EXPECT_EQ(chat["response_format"]["type"], "json_object");
  EXPECT_EQ(chat["reasoning_effort"], "low");
  const nlohmann::json other = ollama(R"({"messages":[{"role":"user","content":"x"}],
                                "format":{"type":"object"},"think":true})");
  EXPECT_EQ(other["response_format"]["json_schema"]["schema"]["type"], "object");
  EXPECT_EQ(other["chat_template_kwargs"]["enable_thinking"], true);
}

TEST(TranslateOllama, RefusesByName) {
  const auto param = [](const char* body) { return refusal(Dialect::kOllamaGenerate, body).param; };
  EXPECT_EQ(param(R"({"prompt":"x","suffix":"y"})"), "suffix");
  EXPECT_EQ(param(R"({"prompt":"x","template":"y"})"), "template");
  EXPECT_EQ(param(R"({"prompt":"x","context":[1]})"), "context");
  EXPECT_EQ(param(R"({"prompt":"x","images":["a"]})"), "images");
  EXPECT_EQ(param(R"({"prompt":"x","options":{"mirostat":1}})"), "mirostat");
  EXPECT_EQ(param(R"({"prompt":"x","options":{"num_predict":0}})"), "options.num_predict");
  EXPECT_EQ(param(R"({"prompt":"x","options":{"repeat_penalty":2,"repeat_last_n":64}})"),
            "options.repeat_last_n");
}

TEST(Translate, AnyJsonIsARequestOrAnError) {
  for (const char* body : {"3", "[]", "{}", "null", R"({"messages":3,"input":3,"prompt":3})",
                           R"({"messages":[3],"input":[3],"tools":[3],"options":3,"text":3})",
                           R"({"max_tokens":1,"messages":[{"role":"user","content":[3]}]})",
                           R"({"messages":[{"role":3,"tool_calls":[3,{"function":3}]}]})"}) {
    for (const Dialect dialect :
         {Dialect::kAnthropic, Dialect::kResponses, Dialect::kOllama, Dialect::kOllamaGenerate}) {
      auto request = translate_request(dialect, Json::parse(body), kTranslateBounds);
      EXPECT_TRUE(request.ok() || request.error().status == 400U) << body;
    }
  }
}

TEST(Dialect, ErrorsHaveTheShapeOfTheirClients) {
  const ApiError error = ApiError::of(503, "gone", "no_pipeline", "unavailable_error");
  EXPECT_EQ(status_of(error, Dialect::kAnthropic), 529U);
  EXPECT_EQ(status_of(error, Dialect::kOllama), 503U);
  EXPECT_EQ(error_body(error, Dialect::kOllamaGenerate), R"({"error":"gone"})");
  EXPECT_EQ(error_body(error, Dialect::kResponses), error_body(error));
  const auto type = [](unsigned status) {
    return Json::parse(error_body(ApiError::of(status, "x", "y"), Dialect::kAnthropic))["error"]
        .value("type", "");
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(403), "permission_error");
  EXPECT_EQ(type(404), "not_found_error");
  EXPECT_EQ(type(413), "request_too_large");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "api_error");
  EXPECT_EQ(type(504), "timeout_error");
}

}  // namespace
}  // namespace hearth::coordinator::http
