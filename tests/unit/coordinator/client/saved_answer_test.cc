#include "coordinator/client/saved_answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hearth::client {
namespace {

using Json = nlohmann::json;

const std::string kName(28, 'a');
const std::string kAnswerSalt = "5a" + std::string(62, '0');
const Json kRequest = {{"model", "m"}, {"messages", Json::array()}};

Json hearth() {
  return {{"seed", -3}, {"receipt", kName}, {"salt", kAnswerSalt}, {"max_tokens", 40}};
}
Json answer() {
  return {{"created", 1'700'000'000},
          {"choices", Json::array({{{"index", 0},
                                    {"message", {{"content", "Hi"}}},
                                    {"finish_reason", "stop"},
                                    {"token_ids", {7, 2}}}})},
          {"hearth", hearth()}};
}

std::string why_not(const Json& changed, const std::string& request = kRequest.dump()) {
  const auto read = read_saved_answer(changed.dump(), request);
  EXPECT_FALSE(read.ok());
  return read.ok() ? "" : read.error().message;
}

TEST(SavedAnswer, TheBodiesOfAClient) {
  const auto read = read_saved_answer(answer().dump(), kRequest.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->request, kRequest.dump());
  EXPECT_EQ(read->receipt, kName);
  EXPECT_EQ(read->salt.hex(), kAnswerSalt);
  EXPECT_EQ(static_cast<std::int64_t>(read->seed), -3);
  EXPECT_EQ(read->max_tokens, 40U);
  EXPECT_EQ(read->created, 1'700'000'000);
  ASSERT_EQ(read->choices.size(), 1U);
  const SavedChoice& choice = read->choices.at(0);
  EXPECT_EQ(choice.text, "Hi");
  EXPECT_EQ(choice.finish_reason, "stop");
  EXPECT_EQ(choice.token_ids, (std::vector<TokenId>{7, 2}));
  EXPECT_FALSE(read->says_verified);
  Json says = answer();
  says["hearth"]["verified"] = {{"state", "verified"}};
  EXPECT_TRUE(read_saved_answer(says.dump(), kRequest.dump())->says_verified);
}

TEST(SavedAnswer, AStreamAsItCame) {
  const std::string text =
      ": ping\n\nid: 1\ndata: "
      "{\"created\":5,\"choices\":[{\"index\":1,\"delta\":{\"content\":\"H\"},"
      "\"token_ids\":[7]}]}\r\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"i\"},"
      "\"finish_reason\":\"length\",\"token_ids\":[8]}],\"hearth\":" +
      hearth().dump() + "}\n\ndata: [DONE]";
  const auto read = read_saved_answer(text, kRequest.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  const SavedChoice& choice = read->choices.at(1);
  EXPECT_EQ(choice.text, "Hi");
  EXPECT_EQ(choice.finish_reason, "length");
  EXPECT_EQ(choice.token_ids, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(read->created, 5);
}

TEST(SavedAnswer, TheFileOfRunIsReadAgain) {
  const Json head = {{"created", 9}, {"hearth", hearth()}};
  for (const Json& request : {kRequest, Json{{"model", "m"}, {"prompt", "a"}}}) {
    const std::string file = write_saved_answer(request, head, "text", {1, 2, 3}, "length");
    const auto read = read_saved_answer(file, "");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->request, request.dump());
    EXPECT_EQ(read->choices.at(0).text, "text");
    EXPECT_EQ(read->choices.at(0).token_ids, (std::vector<TokenId>{1, 2, 3}));
    EXPECT_EQ(read->created, 9);
  }
}

// The order of members is what templates show and schemas ask for.
TEST(SavedAnswer, TheRequestIsAsItWasSent) {
  const std::string sent =
      R"({"prompt": "\"request\": {\\", "response_format": {"z": 1, "a": {"request": 2}},
          "model":"m"} )";
  const auto beside = read_saved_answer(answer().dump(), sent);
  ASSERT_TRUE(beside.ok()) << beside.error().message;
  EXPECT_EQ(beside->request, sent);
  const auto inside = read_saved_answer(
      "{\"b\":[{\"request\":1}],\"request\":" + sent + ",\"answer\":" + answer().dump() + "}", "");
  ASSERT_TRUE(inside.ok()) << inside.error().message;
  EXPECT_EQ(inside->request, sent);
  for (const char* none : {"7", "null", "[1]", "\"a\""}) {
    const std::string file =
        std::string("{\"request\":") + none + ",\"answer\":" + answer().dump() + "}";
    EXPECT_FALSE(read_saved_answer(file, "").ok()) << none;
  }
  using namespace std::string_literals;
  (void)read_saved_answer("{\"request\":{},\"answer\":{}}\0\"\\"s, "");
}

TEST(SavedAnswer, CallsAndReasoningOfBothForms) {
  const Json call = {{"id", "c1"},
                     {"type", "function"},
                     {"function", {{"name", "find"}, {"arguments", "{\"a\":1}"}}}};
  Json whole = answer();
  whole["choices"][0]["message"] = {
      {"content", nullptr}, {"reasoning_content", "Hm."}, {"tool_calls", {call, call}}};
  Json streamed = call;
  streamed["index"] = 1;
  const auto event = [](const Json& delta) {
    return "data: " + Json{{"choices", {{{"index", 0}, {"delta", delta}}}}}.dump() + "\n\n";
  };
  Json first = call;
  first["index"] = 0;
  const std::string stream =
      event({{"reasoning_content", "H"}}) + event({{"reasoning_content", "m."}}) +
      event({{"tool_calls", {first}}}) + event({{"tool_calls", {streamed}}}) +
      "data: {\"hearth\":" + hearth().dump() + "}\n\n";
  for (const std::string& file : {whole.dump(), stream}) {
    const auto read = read_saved_answer(file, kRequest.dump());
    ASSERT_TRUE(read.ok()) << read.error().message;
    const SavedChoice& choice = read->choices.at(0);
    EXPECT_EQ(choice.text, "");
    EXPECT_EQ(choice.reasoning, "Hm.");
    ASSERT_EQ(choice.calls.size(), 2U);
    for (const SavedCall& one : choice.calls) {
      EXPECT_EQ(one.name, "find");
      EXPECT_EQ(one.arguments, "{\"a\":1}");
    }
  }
  EXPECT_FALSE(read_saved_answer(answer().dump(), kRequest.dump())->choices.at(0).reasoning);
  streamed["index"] = 1'000'000'000;
  EXPECT_FALSE(
      read_saved_answer(event({{"tool_calls", {streamed}}}) + stream, kRequest.dump()).ok());
}

TEST(SavedAnswer, HashesAreReadByStageAndPosition) {
  Json with = answer();
  with["hearth"]["hashes"] = {{{"choice", 0}, {"step", 4}, {"stage", 1}, {"out", kAnswerSalt}}};
  const auto read = read_saved_answer(with.dump(), kRequest.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->choices.at(0).hashes.at(1).at(4).hex(), kAnswerSalt);
}

TEST(SavedAnswer, WhatIsMissingIsSaid) {
  EXPECT_NE(why_not(answer(), "").find("--request"), std::string::npos);
  EXPECT_NE(why_not(answer(), "[]").find("not a JSON object"), std::string::npos);
  Json no = answer();
  no["hearth"].erase("receipt");
  EXPECT_NE(why_not(no).find("hearth.receipt"), std::string::npos);
  no = answer();
  no["hearth"].erase("salt");
  EXPECT_NE(why_not(no).find("hearth.salt"), std::string::npos);
  no = answer();
  no["hearth"]["salt"] = "5A";
  EXPECT_NE(why_not(no).find("64 hex digits"), std::string::npos);
  no = answer();
  no["choices"][0]["token_ids"][1] = -1;
  EXPECT_NE(why_not(no).find("token_ids"), std::string::npos);
  no = answer();
  no["choices"][0]["index"] = kSavedChoices;
  EXPECT_NE(why_not(no).find("choices[].index"), std::string::npos);
  no = answer();
  no["choices"] = Json::array();
  EXPECT_NE(why_not(no).find("no choices"), std::string::npos);
  EXPECT_NE(why_not({{"error", {{"message", "no"}}}}).find("an error"), std::string::npos);
  EXPECT_FALSE(read_saved_answer("{", kRequest.dump()).ok());
}

TEST(SavedAnswer, WhatIsNoAnswerAtAllIsSaid) {
  const auto why = [](std::string_view file) {
    const auto read = read_saved_answer(file, kRequest.dump());
    return read.ok() ? "" : read.error().message;
  };
  for (const std::string_view file : {"", " \n\t"}) {
    EXPECT_NE(why(file).find("it is empty"), std::string::npos) << why(file);
  }
  for (const std::string_view file : {"[[[[",
                                      "\x7f"
                                      "ELF\xff\x01",
                                      "[]", "7", ": ping\n\n"}) {
    EXPECT_NE(why(file).find("neither a JSON object nor a saved stream"), std::string::npos)
        << why(file);
  }
  EXPECT_NE(why("data: [DONE]\n").find("was not saved to the end"), std::string::npos);
}

}  // namespace
}  // namespace hearth::client
