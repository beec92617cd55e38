#include <gtest/gtest.h>

#include "cli/run/answer.h"
#include "tests/unit/coordinator/client/web_server.h"

namespace hearth::cli {
namespace {

using client::reply;
using client::WebServer;

Result<Answer> ask(const std::string& events) {
  WebServer server([&](const std::string& head) {
    return reply("200 OK", "Content-Type: text/event-stream\r\n", events, head);
  });
  RunOptions options;
  options.model = "m";
  options.api_base = server.address();
  options.no_resume = true;
  Question question;
  question.messages = {{"user", "Hello"}};
  return swarm_answerer()->ask(options, question, [](std::string_view) {});
}

TEST(SwarmAnswer, TextAndReasonComeFromTheChunks) {
  const auto answer =
      ask("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n"
          "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
          "data: [DONE]\n\n");
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->text, "Hi");
  EXPECT_EQ(answer->finish_reason, "stop");
}

// Proxies send errors of any shape.
TEST(SwarmAnswer, AnErrorOfAnyShapeIsReported) {
  for (const auto& [error, shown] : std::vector<std::pair<std::string, std::string>>{
           {R"({"message":"no room"})", "no room"},
           {R"({"message":null})", R"({"message":null})"},
           {R"({"message":{"text":1}})", R"({"message":{"text":1}})"},
           {"{}", "{}"},
           {"null", "null"},
           {R"("busy")", "\"busy\""}}) {
    const auto answer = ask("data: {\"error\":" + error + "}\n\n");
    ASSERT_FALSE(answer.ok()) << error;
    EXPECT_EQ(answer.error().message, "the answer was cut off: " + shown);
  }
}

TEST(SwarmAnswer, FieldsOfAnotherKindAreRefused) {
  for (const char* chunk : {R"({"choices":1})", R"({"choices":[{"delta":{},"token_ids":["a"]}]})",
                            R"({"choices":[],"hearth":{"receipt":1}})",
                            R"({"choices":[],"usage":{"prompt_tokens":""}})",
                            R"({"choices":[],"hearth":{"verified":{}}})", "[]", "no JSON"}) {
    const auto answer = ask("data: " + std::string(chunk) + "\n\n");
    ASSERT_FALSE(answer.ok()) << chunk;
    EXPECT_EQ(answer.error().code, ErrorCode::kInvalidInput) << answer.error().message;
  }
}

// As the port for workers does, which speaks another protocol.
TEST(SwarmAnswer, WhatSpeaksNoHttpIsNamedAfterAFewConnections) {
  WebServer other([](const std::string&) { return std::string(); });
  RunOptions options;
  options.api_base = other.address();
  Question question;
  question.messages = {{"user", "Hello"}};
  const auto answer = swarm_answerer()->ask(options, question, [](std::string_view) {});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(answer.error().message.find("--host 127.0.0.1:11500"), std::string::npos)
      << answer.error().message;
  EXPECT_LT(other.heads().size(), 10U);
}

// Copying or printing them would recurse to the end of the stack.
TEST(SwarmAnswer, ChunksThatNestDeepAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const std::string name : {"error", "hearth", "choices"}) {
    const auto answer = ask("data: {\"" + name + "\":" + deep + "}\n\n");
    ASSERT_FALSE(answer.ok()) << name;
    EXPECT_EQ(answer.error().code, ErrorCode::kInvalidInput) << answer.error().message;
  }
}

}  // namespace
}  // namespace hearth::cli
