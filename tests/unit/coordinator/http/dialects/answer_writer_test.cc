#include "coordinator/http/dialects/answer_writer.h"

#include <gtest/gtest.h>

namespace hearth::coordinator::http {
namespace {

AnswerStart start_of() {
  AnswerStart out;
  out.head.id = "chatcmpl-00c0ffee";
  out.head.created = 86'400;
  out.head.model = "tiny";
  out.prompt_tokens = 7;
  return out;
}

ChoicePart text(const char* words) {
  ChoicePart part;
  part.text = words;
  return part;
}

ChoicePart thought(const char* words) {
  ChoicePart part;
  part.reasoning = words;
  return part;
}

ChoicePart call(std::uint32_t index, const char* name, const char* arguments) {
  ChoicePart part;
  const bool first = *name != '\0';
  part.tool_calls.push_back({index, first ? "call_" + std::to_string(index) : "", name, arguments});
  return part;
}

ChoicePart ending(const char* reason, const char* stop = "") {
  ChoicePart part;
  part.finish_reason = reason;
  part.stop_string = stop;
  return part;
}

AnswerEnd end_of() {
  AnswerEnd end;
  end.usage = {7, 5};
  end.timings = {7, 1500.0, 5, 250.5};
  end.hearth = {{"seed", 3}};
  return end;
}

// All events of a stream of these parts, the last of which ends it.
std::vector<std::pair<std::string, Json>> play(AnswerWriter& writer,
                                               const std::vector<ChoicePart>& parts) {
  std::vector<std::pair<std::string, Json>> out;
  const auto take = [&out](const StreamEvents& events) {
    for (const StreamEvent& event : events) {
      out.emplace_back(event.name, Json::parse(event.data));
    }
  };
  take(writer.begin(parts.front()));
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) take(writer.add(parts[i]));
  take(writer.end(parts.back(), {}));
  take(writer.close(end_of()));
  return out;
}

std::vector<std::string> names(const std::vector<std::pair<std::string, Json>>& events) {
  std::vector<std::string> out;
  for (const auto& [name, data] : events) {
    EXPECT_EQ(data.value("type", name), name) << "an event's name is its type";
    out.push_back(name);
  }
  return out;
}

using Names = std::vector<std::string>;

// A stream whose model is loaded first, in two steps.
std::vector<std::pair<std::string, Json>> loaded(AnswerWriter& writer) {
  std::vector<std::pair<std::string, Json>> out;
  for (const char* state : {"waiting", "loading"}) {
    for (const StreamEvent& event : writer.tell_loading({{"model", "m"}, {"state", state}})) {
      out.emplace_back(event.name, Json::parse(event.data));
    }
  }
  for (auto& event : play(writer, {text("Hello"), ending("stop")})) out.push_back(std::move(event));
  return out;
}

TEST(Loading, AnthropicPings) {
  const auto events = loaded(*make_anthropic_writer(start_of()));
  EXPECT_EQ(events[0].first, "ping");
  EXPECT_EQ(events[1].second["hearth"]["loading"]["state"], "loading");
  EXPECT_EQ(events[2].first, "message_start");
}

TEST(Loading, OllamaHasLinesWithoutText) {
  const auto events = loaded(*make_ollama_writer(start_of(), true));
  EXPECT_EQ(events[0].second["message"]["content"], "");
  EXPECT_EQ(events[0].second["done"], false);
  EXPECT_EQ(events[1].second["hearth"]["loading"]["state"], "loading");
  EXPECT_EQ(events[2].second["message"]["content"], "Hello");
  const auto generated = loaded(*make_ollama_writer(start_of(), false));
  EXPECT_EQ(generated[0].second["response"], "");
}

TEST(Loading, AResponseIsQueuedOnceItIsCreated) {
  const auto events = loaded(*make_responses_writer(start_of()));
  const std::vector<std::string> begun = {"response.created", "response.queued", "response.queued",
                                          "response.in_progress"};
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_TRUE(i >= begun.size() || events[i].first == begun[i]) << events[i].first;
    EXPECT_EQ(events[i].second["sequence_number"], i);
  }
  EXPECT_EQ(events[0].second["response"]["status"], "queued");
  EXPECT_EQ(events[2].second["response"]["hearth"]["loading"]["state"], "loading");
  EXPECT_EQ(events[3].second["response"]["status"], "in_progress");
}

TEST(FixedWriter, SaysWhatIsKnown) {
  AnswerStart start = start_of();
  start.fixed = R"({"done":true})";
  EXPECT_EQ(make_answer_writer(Dialect::kOllama, start)->whole({}, {}), start.fixed);
}

ChoicePart embedded(std::uint32_t index, std::vector<float> values) {
  ChoicePart part;
  part.index = index;
  part.embedding = std::make_shared<const std::vector<float>>(std::move(values));
  return part;
}

std::string embeddings(Dialect dialect, EmbeddingForm form, const std::vector<ChoicePart>& parts) {
  AnswerStart start = start_of();
  start.embedding = form;
  return make_answer_writer(dialect, std::move(start))->whole(parts, end_of());
}

TEST(EmbeddingWriter, HasTheShapesOfItsRoutes) {
  const std::vector<ChoicePart> parts = {embedded(0, {0.5F, -0.1F}), embedded(1, {1e-9F, 1.0F})};
  const Json openai = Json::parse(embeddings(Dialect::kOpenAi, {}, parts));
  EXPECT_EQ(openai["object"], "list");
  EXPECT_EQ(openai["usage"], Json::parse(R"({"prompt_tokens":7,"total_tokens":7})"));
  ASSERT_EQ(openai["data"].size(), 2U);
  EXPECT_EQ(openai["data"][1]["object"], "embedding");
  EXPECT_EQ(openai["data"][1]["index"], 1);
  EXPECT_EQ(openai["data"][0]["embedding"][1].get<float>(), -0.1F) << "read as the same number";
  EXPECT_EQ(openai["data"][1]["embedding"][0].get<float>(), 1e-9F);
  const Json base64 = Json::parse(embeddings(Dialect::kOpenAi, {.base64 = true}, parts));
  EXPECT_EQ(base64["data"][0]["embedding"], "AAAAP83MzL0=");
  const Json ollama = Json::parse(embeddings(Dialect::kOllama, {}, parts));
  EXPECT_EQ(ollama["embeddings"].size(), 2U);
  EXPECT_EQ(ollama["prompt_eval_count"], 7);
  EXPECT_EQ(ollama["total_duration"], 1'500'000'000);
  const Json one = Json::parse(embeddings(Dialect::kOllama, {.one = true}, {parts[0]}));
  EXPECT_EQ(one.size(), 1U);
  EXPECT_EQ(one["embedding"].size(), 2U);
}

TEST(AnthropicWriter, TextIsOneBlock) {
  const auto writer = make_anthropic_writer(start_of());
  const auto events = play(*writer, {text("Hel"), text("lo"), ending("stop")});
  EXPECT_EQ(names(events),
            (Names{"message_start", "ping", "content_block_start", "content_block_delta",
                   "content_block_delta", "content_block_stop", "message_delta", "message_stop"}));
  const Json& message = events[0].second["message"];
  EXPECT_EQ(message["id"], "msg_00c0ffee");
  EXPECT_EQ(message["usage"]["input_tokens"], 7);
  EXPECT_EQ(message["content"], Json::array());
  EXPECT_EQ(events[3].second, Json::parse(R"({"type":"content_block_delta","index":0,
      "delta":{"type":"text_delta","text":"Hel"}})"));
  EXPECT_EQ(events[6].second["delta"],
            Json::parse(R"({"stop_reason":"end_turn","stop_sequence":null})"));
  EXPECT_EQ(events[6].second["usage"]["output_tokens"], 5);
}

TEST(AnthropicWriter, ThinkingTextAndCallsAreBlocksInTurn) {
  const auto writer = make_anthropic_writer(start_of());
  const auto events =
      play(*writer, {thought("so"), text("I look."), call(0, "f", ""), call(0, "", "{\"a\""),
                     call(0, "", ":1}"), call(1, "g", "{}"), ending("tool_calls")});
  std::string blocks;
  for (const auto& [name, data] : events) {
    if (name == "content_block_start") {
      EXPECT_EQ(data["index"], std::count(blocks.begin(), blocks.end(), '('));
      blocks += "(" + data["content_block"]["type"].get<std::string>();
    } else if (name == "content_block_delta") {
      blocks += " " + data["delta"]["type"].get<std::string>();
    } else if (name == "content_block_stop") {
      blocks += ")";
    }
  }
  EXPECT_EQ(blocks,
            "(thinking thinking_delta signature_delta)(text text_delta)"
            "(tool_use input_json_delta input_json_delta)(tool_use input_json_delta)");
  EXPECT_EQ(events[events.size() - 2].second["delta"]["stop_reason"], "tool_use");
}

TEST(AnthropicWriter, TellsWhyItStopped) {
  const auto reason = [](const ChoicePart& end) {
    const auto writer = make_anthropic_writer(start_of());
    return Json::parse(writer->whole({end}, end_of()));
  };
  EXPECT_EQ(reason(ending("length"))["stop_reason"], "max_tokens");
  EXPECT_EQ(reason(ending("stop"))["stop_reason"], "end_turn");
  EXPECT_EQ(reason(ending("stop"))["stop_sequence"], Json());
  EXPECT_EQ(reason(ending("stop", "END"))["stop_reason"], "stop_sequence");
  EXPECT_EQ(reason(ending("stop", "END"))["stop_sequence"], "END");
  EXPECT_EQ(reason(ending("stop"))["content"],
            Json::parse(R"([{"type":"text","text":"","citations":null}])"));
}

TEST(AnthropicWriter, AWholeCallHasItsInputAsAnObject) {
  const auto writer = make_anthropic_writer(start_of());
  ChoicePart part = call(0, "f", R"({"a":[1]})");
  part.finish_reason = "tool_calls";
  const Json whole = Json::parse(writer->whole({part}, end_of()));
  EXPECT_EQ(whole["content"],
            Json::parse(R"([{"type":"tool_use","id":"call_0","name":"f","input":{"a":[1]},
                             "caller":{"type":"direct"}}])"));
  EXPECT_EQ(arguments_object(R"({"a":)"), (OrderedJson{{"arguments", R"({"a":)"}}));
}

TEST(AnthropicWriter, AnEmptyAnswerHasABlockAndAnErrorAnEvent) {
  const auto writer = make_anthropic_writer(start_of());
  const auto events = play(*writer, {ending("stop")});
  EXPECT_EQ(names(events)[2], "content_block_start");
  const StreamEvents failed = writer->fail(ApiError::of(503, "no pipeline", "no_pipeline"));
  EXPECT_EQ(failed.front().name, "error");
  EXPECT_EQ(failed.front().data,
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"no pipeline\"}}");
}

TEST(ResponsesWriter, TextIsOneMessage) {
  const auto writer = make_responses_writer(start_of());
  const auto events = play(*writer, {text("Hel"), text("lo"), ending("stop")});
  EXPECT_EQ(names(events), (Names{"response.created", "response.in_progress",
                                  "response.output_item.added", "response.content_part.added",
                                  "response.output_text.delta", "response.output_text.delta",
                                  "response.output_text.done", "response.content_part.done",
                                  "response.output_item.done", "response.completed"}));
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].second["sequence_number"], i);
  }
  EXPECT_EQ(events[6].second["text"], "Hello");
  const Json& response = events.back().second["response"];
  EXPECT_EQ(response["id"], "resp_00c0ffee");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(response["output"][0]["id"], events[4].second["item_id"]);
  EXPECT_EQ(response["usage"]["total_tokens"], 12);
}

TEST(ResponsesWriter, ReasoningTextAndCallsAreItemsInTurn) {
  const auto writer = make_responses_writer(start_of());
  const auto events = play(*writer, {thought("so"), text("I look."), call(0, "f", "{\"a\""),
                                     call(0, "", ":1}"), ending("tool_calls")});
  const Json& output = events.back().second["response"]["output"];
  ASSERT_EQ(output.size(), 3U);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0]["text"], "so");
  EXPECT_EQ(output[1]["type"], "message");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["arguments"], "{\"a\":1}");
  EXPECT_EQ(output[2]["call_id"], "call_0");
  for (const auto& [name, data] : events) {
    if (name != "response.output_item.done") continue;
    EXPECT_EQ(data["item"], output[data["output_index"].get<std::size_t>()]);
  }
}

TEST(ResponsesWriter, AnAnswerThatWasCutIsIncomplete) {
  const auto writer = make_responses_writer(start_of());
  const auto events = play(*writer, {text("Hel"), ending("length")});
  EXPECT_EQ(events.back().first, "response.incomplete");
  ChoicePart part = text("Hel");
  part.finish_reason = "length";
  const Json whole = Json::parse(make_responses_writer(start_of())->whole({part}, end_of()));
  EXPECT_EQ(whole, events.back().second["response"]) << "a stream ends with the whole";
  EXPECT_EQ(whole["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(whole["output"][0]["status"], "incomplete");
}

TEST(ResponsesWriter, AnErrorFailsTheResponse) {
  const auto writer = make_responses_writer(start_of());
  writer->begin({});
  const StreamEvents failed = writer->fail(ApiError::of(503, "no pipeline", "no_pipeline"));
  ASSERT_EQ(failed.size(), 2U);
  EXPECT_EQ(failed[0].name, "error");
  EXPECT_EQ(failed[1].name, "response.failed");
  EXPECT_EQ(Json::parse(failed[1].data)["response"]["error"]["message"], "no pipeline");
}

TEST(OllamaWriter, LinesOfAChat) {
  const auto writer = make_ollama_writer(start_of(), true);
  EXPECT_TRUE(writer->form().lines);
  const auto events = play(*writer, {thought("so"), text("Hello"), call(0, "f", "{\"a\""),
                                     call(0, "", ":1}"), ending("tool_calls")});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].second["message"]["thinking"], "so");
  EXPECT_EQ(events[0].second["created_at"], "1970-01-02T00:00:00Z");
  EXPECT_EQ(events[1].second["message"]["content"], "Hello");
  EXPECT_EQ(events[1].second["done"], false);
  const Json& told = events[2].second["message"]["tool_calls"];
  ASSERT_EQ(told.size(), 1U) << "a call is told whole";
  EXPECT_EQ(told[0]["function"]["arguments"], Json::parse(R"({"a":1})"));
  const Json& last = events[3].second;
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["done_reason"], "stop");
  EXPECT_EQ(last["prompt_eval_count"], 7);
  EXPECT_EQ(last["prompt_eval_duration"], 1'500'000'000);
  EXPECT_EQ(last["eval_duration"], 250'500'000);
  EXPECT_EQ(last["total_duration"], 1'750'500'000);
}

TEST(OllamaWriter, LinesOfAGeneration) {
  const auto writer = make_ollama_writer(start_of(), false);
  const auto events = play(*writer, {text("Hello"), ending("length")});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].second["response"], "Hello");
  EXPECT_FALSE(events[0].second.contains("message"));
  EXPECT_EQ(events[1].second["done_reason"], "length");
  EXPECT_EQ(writer->fail(ApiError::of(503, "gone", "x")).front().data, "{\"error\":\"gone\"}");
}

}  // namespace
}  // namespace hearth::coordinator::http
