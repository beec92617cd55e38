#include "cli/launch/clients.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <nlohmann/json.hpp>

namespace hearth::cli {
namespace {

using LaunchJson = nlohmann::ordered_json;

std::string v1(const LaunchServer& server) { return server.base + "/v1"; }
// A JSON string, which YAML and TOML read as well.
std::string quoted(const std::string& text) { return LaunchJson(text).dump(); }

// https://docs.claude.com/en/docs/claude-code/settings
LaunchPlan plan_claude(const LaunchServer& server, const std::string&) {
  LaunchPlan plan;
  plan.variables = {{"ANTHROPIC_BASE_URL", server.base}, {"ANTHROPIC_AUTH_TOKEN", server.key}};
  // Emptied, because the client would otherwise also send the key of another service.
  plan.variables.emplace_back("ANTHROPIC_API_KEY", "");
  for (const char* name : {"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
                           "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
                           "ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"}) {
    plan.variables.emplace_back(name, server.model);
  }
  plan.variables.emplace_back("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
  plan.command = {"claude"};
  return plan;
}

// https://github.com/openai/codex/blob/main/docs/config.md
LaunchPlan plan_codex(const LaunchServer& server, const std::string&) {
  LaunchPlan plan;
  plan.variables = {{"HEARTH_API_KEY", server.key}};
  plan.command = {"codex", "-m", server.model};
  for (const std::string& setting :
       {std::string("model_provider=\"hearth\""),
        std::string("model_providers.hearth.name=\"Hearth\""),
        "model_providers.hearth.base_url=" + quoted(v1(server)),
        std::string("model_providers.hearth.wire_api=\"responses\""),
        std::string("model_providers.hearth.env_key=\"HEARTH_API_KEY\""),
        std::string("web_search=\"disabled\"")}) {
    plan.command.insert(plan.command.end(), {"-c", setting});
  }
  return plan;
}

// https://opencode.ai/docs/config
LaunchPlan plan_opencode(const LaunchServer& server, const std::string&) {
  const LaunchJson config = {{"provider",
                              {{"hearth",
                                {{"npm", "@ai-sdk/openai-compatible"},
                                 {"name", "Hearth"},
                                 {"options", {{"baseURL", v1(server)}, {"apiKey", server.key}}},
                                 {"models", {{server.model, {{"name", server.model}}}}}}}}},
                             {"model", "hearth/" + server.model}};
  LaunchPlan plan;
  plan.variables = {{"OPENCODE_CONFIG_CONTENT", config.dump()}};
  plan.command = {"opencode"};
  return plan;
}

// https://aider.chat/docs/llms/openai-compat.html
LaunchPlan plan_aider(const LaunchServer& server, const std::string&) {
  LaunchPlan plan;
  plan.variables = {{"OPENAI_API_BASE", v1(server)},
                    {"OPENAI_API_KEY", server.key},
                    {"AIDER_MODEL", "openai/" + server.model}};
  plan.command = {"aider"};
  return plan;
}

// https://block.github.io/goose/docs/guides/environment-variables
LaunchPlan plan_goose(const LaunchServer& server, const std::string&) {
  LaunchPlan plan;
  plan.variables = {{"GOOSE_PROVIDER", "openai"},
                    {"GOOSE_MODEL", server.model},
                    {"OPENAI_HOST", server.base},
                    {"OPENAI_API_KEY", server.key}};
  plan.command = {"goose"};
  return plan;
}

// https://llm.datasette.io/en/stable/other-models.html
LaunchPlan plan_llm(const LaunchServer& server, const std::string& folder) {
  LaunchPlan plan;
  plan.variables = {{"LLM_USER_PATH", folder + "/llm"},
                    {"LLM_MODEL", server.model},
                    {"OPENAI_API_KEY", server.key}};
  plan.command = {"llm"};
  plan.file = "llm/extra-openai-models.yaml";
  plan.text = fmt::format("- model_id: {0}\n  model_name: {0}\n  api_base: {1}\n",
                          quoted(server.model), quoted(v1(server)));
  return plan;
}

// https://docs.openwebui.com/getting-started/env-configuration
LaunchPlan plan_open_webui(const LaunchServer& server, const std::string&) {
  LaunchPlan plan;
  plan.variables = {{"OPENAI_API_BASE_URL", v1(server)},
                    {"OPENAI_API_KEY", server.key},
                    {"DEFAULT_MODELS", server.model},
                    {"ENABLE_OLLAMA_API", "false"}};
  plan.command = {"open-webui", "serve"};
  return plan;
}

struct Client {
  std::string_view name;
  LaunchPlan (*plan)(const LaunchServer& server, const std::string& folder);
};

constexpr std::array kClients = {
    Client{"claude", plan_claude},         Client{"codex", plan_codex},
    Client{"opencode", plan_opencode},     Client{"aider", plan_aider},
    Client{"goose", plan_goose},           Client{"llm", plan_llm},
    Client{"open-webui", plan_open_webui},
};

// As one word of a shell.
std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string known_clients() {
  std::string out;
  for (const Client& each : kClients) {
    out += (out.empty() ? "" : ", ") + std::string(each.name);
  }
  return out;
}

Result<LaunchPlan> launch_plan(const std::string& client, const LaunchServer& server,
                               const std::string& folder) {
  for (const Client& each : kClients) {
    if (each.name == client) return each.plan(server, folder);
  }
  return Error{ErrorCode::kNotFound,
               client.empty() ? "no client given: pass one of " + known_clients()
                              : fmt::format("hearth launch does not know the client '{}'; pass one "
                                            "of {}, or set its base URL to {}/v1 yourself",
                                            client, known_clients(), server.base)};
}

std::string plan_text(const LaunchPlan& plan) {
  std::string out;
  for (const auto& [name, value] : plan.variables) {
    out += fmt::format("export {}={}\n", name, shell_word(value));
  }
  for (const std::string& word : plan.command) {
    out += (&word == &plan.command.front() ? "" : " ") + shell_word(word);
  }
  return out;
}

}  // namespace hearth::cli
