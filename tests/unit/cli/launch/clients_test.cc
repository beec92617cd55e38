#include "cli/launch/clients.h"

#include <gtest/gtest.h>

#include <map>

namespace hearth::cli {
namespace {

const LaunchServer kServer{"http://127.0.0.1:11500", "hk1abc", "tiny"};

std::map<std::string, std::string> variables_of(const char* client) {
  auto plan = launch_plan(client, kServer, "/cache");
  if (!plan.ok()) return {};
  return {plan->variables.begin(), plan->variables.end()};
}

TEST(LaunchPlan, EveryClientGetsTheServerTheKeyAndTheModel) {
  for (const char* client :
       {"claude", "codex", "opencode", "aider", "goose", "llm", "open-webui"}) {
    auto plan = launch_plan(client, kServer, "/cache");
    ASSERT_TRUE(plan.ok()) << client;
    const std::string all = plan_text(*plan) + plan->text;
    EXPECT_NE(all.find("http://127.0.0.1:11500"), std::string::npos) << client;
    EXPECT_NE(all.find("hk1abc"), std::string::npos) << client;
    EXPECT_NE(all.find("tiny"), std::string::npos) << client;
    EXPECT_EQ(plan->command.front(), client);
  }
}

TEST(LaunchPlan, AnthropicsClientGetsTheRootAndOthersTheVersion) {
  EXPECT_EQ(variables_of("claude")["ANTHROPIC_BASE_URL"], "http://127.0.0.1:11500");
  EXPECT_EQ(variables_of("claude")["ANTHROPIC_MODEL"], "tiny");
  EXPECT_EQ(variables_of("aider")["OPENAI_API_BASE"], "http://127.0.0.1:11500/v1");
  EXPECT_EQ(variables_of("open-webui")["OPENAI_API_BASE_URL"], "http://127.0.0.1:11500/v1");
}

TEST(LaunchPlan, AnUnknownClientIsToldWhatThereIs) {
  auto plan = launch_plan("emacs", kServer, "/cache");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kNotFound);
  EXPECT_NE(plan.error().message.find(known_clients()), std::string::npos);
  EXPECT_EQ(known_clients(), "claude, codex, opencode, aider, goose, llm, open-webui");
}

TEST(LaunchPlan, AShellReadsItsText) {
  LaunchPlan plan;
  plan.variables = {{"A", "it's"}};
  plan.command = {"run", "a b"};
  EXPECT_EQ(plan_text(plan), "export A='it'\\''s'\n'run' 'a b'");
}

}  // namespace
}  // namespace hearth::cli
