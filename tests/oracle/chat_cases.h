// What the cases of llama.cpp's tests/test-chat.cpp are written with, so that their text compiles
// without that program: each case is written to stdout as a line of JSON (chat_cases.py).
#pragma once

#include <cassert>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

struct common_chat_msg_content_part {
  std::string type;
  std::string text;
};

struct common_chat_tool_call {
  std::string name;
  std::string arguments;
  std::string id;
};

struct common_chat_msg {
  std::string role;
  std::string content;
  std::vector<common_chat_msg_content_part> content_parts;
  std::vector<common_chat_tool_call> tool_calls;
  std::string reasoning_content;
  std::string tool_name;
  std::string tool_call_id;
};

struct common_chat_tool {
  std::string name;
  std::string description;
  std::string parameters;
};

enum common_chat_tool_choice {
  COMMON_CHAT_TOOL_CHOICE_AUTO,
  COMMON_CHAT_TOOL_CHOICE_REQUIRED,
  COMMON_CHAT_TOOL_CHOICE_NONE,
};
enum common_reasoning_format {
  COMMON_REASONING_FORMAT_NONE,
  COMMON_REASONING_FORMAT_AUTO,
  COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY,
  COMMON_REASONING_FORMAT_DEEPSEEK,
};
enum common_chat_continuation {
  COMMON_CHAT_CONTINUATION_NONE,
  COMMON_CHAT_CONTINUATION_AUTO,
  COMMON_CHAT_CONTINUATION_REASONING,
  COMMON_CHAT_CONTINUATION_CONTENT,
};

// What stands between the cases, about prompts and errors of that program, does nothing.
struct common_chat_templates_inputs {
  std::vector<common_chat_msg> messages;
  std::vector<common_chat_tool> tools;
  bool add_generation_prompt = true;
  bool enable_thinking = true;
  bool use_jinja = true;
  common_reasoning_format reasoning_format = COMMON_REASONING_FORMAT_NONE;
};
struct common_chat_params {
  std::string prompt;
  std::string parser;
};
struct common_chat_parser_params {
  explicit common_chat_parser_params(const common_chat_params&) {}
  std::string generation_prompt = "-";
};
struct common_peg_arena {
  void load(const std::string&) {}
};
using common_chat_templates_ptr = std::unique_ptr<int>;
inline common_chat_templates_ptr read_templates(const std::string&) { return nullptr; }
inline std::string read_file(const std::string&) { return {}; }
inline common_chat_templates_ptr common_chat_templates_init(void*, const std::string&) {
  return nullptr;
}
inline common_chat_params common_chat_templates_apply(int*, const common_chat_templates_inputs&) {
  return {};
}
inline void common_chat_peg_parse(common_peg_arena&, const std::string&, bool,
                                  const common_chat_parser_params&) {}
inline bool string_ends_with(const std::string&, const std::string&) { return true; }
#define LOG_DBG(...)
#define LOG_INF(...)
#define LOG_ERR(...)
#define GGML_ASSERT(...)
#define throw \
  if (false) throw
static std::string g_template_filter;

inline nlohmann::ordered_json message_json(const common_chat_msg& from) {
  std::string content = from.content;
  for (const auto& part : from.content_parts) content += part.text;
  nlohmann::ordered_json out = {{"role", from.role},
                                {"content", content},
                                {"reasoning", from.reasoning_content},
                                {"name", from.tool_name},
                                {"tool_call_id", from.tool_call_id},
                                {"calls", nlohmann::ordered_json::array()}};
  for (const auto& call : from.tool_calls) {
    out["calls"].push_back({{"name", call.name}, {"arguments", call.arguments}, {"id", call.id}});
  }
  return out;
}

class peg_test_builder {
 public:
  peg_test_builder(std::string path, std::string input)
      : case_({{"template", std::move(path)},
               {"answer", std::move(input)},
               {"messages", nlohmann::ordered_json::array()},
               {"tools", nlohmann::ordered_json::array()}}) {}

  peg_test_builder& reasoning_format(common_reasoning_format form) {
    return set("separate_reasoning", form != COMMON_REASONING_FORMAT_NONE);
  }
  peg_test_builder& tools(const std::vector<common_chat_tool>& tools) {
    case_["tools"] = nlohmann::ordered_json::array();
    for (const auto& tool : tools) {
      case_["tools"].push_back(
          {{"type", "function"},
           {"function",
            {{"name", tool.name},
             {"description", tool.description},
             {"parameters", nlohmann::ordered_json::parse(tool.parameters)}}}});
    }
    return *this;
  }
  peg_test_builder& enable_thinking(bool on) { return set("enable_thinking", on); }
  peg_test_builder& parallel_tool_calls(bool on) { return set("parallel_calls", on); }
  peg_test_builder& add_generation_prompt(bool on) { return set("add_generation_prompt", on); }
  peg_test_builder& continue_final_message(common_chat_continuation how) {
    return set("continued", static_cast<int>(how));
  }
  peg_test_builder& json_schema(const std::string& schema) { return set("schema", schema); }
  peg_test_builder& is_partial(bool on) { return set("partial", on); }
  peg_test_builder& expect_reconstruction(bool on = true) { return set("reconstructs", on); }
  peg_test_builder& expect(const common_chat_msg& message) {
    expected_ = message;
    return *this;
  }
  peg_test_builder& expect_content(const std::string& content) {
    expected_.content = content;
    return *this;
  }
  peg_test_builder& expect_reasoning(const std::string& reasoning) {
    expected_.reasoning_content = reasoning;
    return *this;
  }
  peg_test_builder& expect_tool_calls(std::vector<common_chat_tool_call> calls) {
    expected_.tool_calls = std::move(calls);
    return *this;
  }
  peg_test_builder& tool_choice(common_chat_tool_choice choice) {
    return set("tool_choice", static_cast<int>(choice));
  }
  peg_test_builder& messages(const std::vector<common_chat_msg>& messages) {
    case_["messages"] = nlohmann::ordered_json::array();
    for (const auto& message : messages) case_["messages"].push_back(message_json(message));
    return *this;
  }
  void run() {
    case_["expected"] = message_json(expected_);
    std::cout << case_.dump() << '\n';
  }

 private:
  template <typename T>
  peg_test_builder& set(const char* key, const T& value) {
    case_[key] = value;
    return *this;
  }

  nlohmann::ordered_json case_;
  common_chat_msg expected_;
};

class peg_tester {
 public:
  explicit peg_tester(std::string path, bool = false) : path_(std::move(path)) {}
  peg_test_builder test(const std::string& input) { return {path_, input}; }

 private:
  std::string path_;
};
