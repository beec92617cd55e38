// Lines of Ollama's /api/chat and /api/generate.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "coordinator/http/dialects/answer_writer.h"

namespace hearth::coordinator::http {
namespace {

std::int64_t nanoseconds(double ms) {
  constexpr double kPerMillisecond = 1e6;
  return std::llround(std::max(ms, 0.0) * kPerMillisecond);
}

class OllamaWriter final : public AnswerWriter {
 public:
  OllamaWriter(AnswerStart start, bool chat) : AnswerWriter(std::move(start)), chat_(chat) {}
  Dialect dialect() const override { return chat_ ? Dialect::kOllama : Dialect::kOllamaGenerate; }
  StreamForm form() const override { return {.lines = true}; }

  StreamEvents begin(const ChoicePart&) override { return {}; }

  StreamEvents add(const ChoicePart& part) override {
    collect(calls_, part);
    if (part.text.empty() && part.reasoning.empty()) return {};
    OrderedJson out = line(part.text, part.reasoning, {});
    out["done"] = false;
    return {{{}, dump(out)}};
  }

  StreamEvents end(const ChoicePart& part, const OrderedJson&) override {
    StreamEvents out = add(part);
    reason_ = done_reason(part);
    // Ollama tells a call whole.
    if (!calls_.empty()) {
      OrderedJson told = line("", "", calls_);
      told["done"] = false;
      out.push_back({{}, dump(told)});
    }
    return out;
  }

  // A line without text.
  StreamEvents tell_loading(const OrderedJson& loading) override {
    OrderedJson out = line("", "", {});
    out["done"] = false;
    out["hearth"] = {{"loading", loading}};
    return {{{}, dump(out)}};
  }
  StreamEvents tell_hearth(const OrderedJson&) override { return {}; }

  StreamEvents close(const AnswerEnd& end) override {
    INVARIANT(!reason_.empty(), "the only choice has ended");
    OrderedJson out = line("", "", {});
    finish(out, reason_, end);
    return {{{}, dump(out)}};
  }

  StreamEvents fail(const ApiError& error) override {
    return {{{}, error_body(error, Dialect::kOllama)}};
  }

  std::string whole(const std::vector<ChoicePart>& parts, const AnswerEnd& end) const override {
    INVARIANT(parts.size() == 1, "an answer of Ollama is one choice");
    const ChoicePart& part = parts.front();
    std::vector<ToolCallPart> calls;
    collect(calls, part);
    OrderedJson out = line(part.text, part.reasoning, calls);
    finish(out, done_reason(part), end);
    return dump(out);
  }

 private:
  static std::string done_reason(const ChoicePart& part) {
    return part.finish_reason == "length" ? "length" : "stop";
  }

  static void collect(std::vector<ToolCallPart>& calls, const ChoicePart& part) {
    for (const ToolCallPart& call : part.tool_calls) {
      if (calls.empty() || calls.back().index != call.index) {
        calls.push_back(call);
      } else {
        calls.back().arguments += call.arguments;
      }
    }
  }

  OrderedJson line(const std::string& text, const std::string& thinking,
                   const std::vector<ToolCallPart>& calls) const {
    OrderedJson out = {{"model", head().model}, {"created_at", rfc3339(head().created)}};
    OrderedJson& said = chat_ ? out["message"] : out;
    if (chat_) said["role"] = "assistant";
    said[chat_ ? "content" : "response"] = text;
    if (!thinking.empty()) said["thinking"] = thinking;
    for (const ToolCallPart& call : calls) {
      said["tool_calls"].push_back({{"id", call.id},
                                    {"function",
                                     {{"index", call.index},
                                      {"name", call.name},
                                      {"arguments", arguments_object(call.arguments)}}}});
    }
    return out;
  }

  static void finish(OrderedJson& out, const std::string& reason, const AnswerEnd& end) {
    const std::int64_t prompt = nanoseconds(end.timings.prompt_ms);
    const std::int64_t answer = nanoseconds(end.timings.predicted_ms);
    out.update({{"done", true},
                {"done_reason", reason},
                {"total_duration", prompt + answer},
                {"load_duration", 0},
                {"prompt_eval_count", end.usage.prompt_tokens},
                {"prompt_eval_duration", prompt},
                {"eval_count", end.usage.completion_tokens},
                {"eval_duration", answer},
                {"hearth", end.hearth}});
  }

  const bool chat_;
  std::string reason_;
  std::vector<ToolCallPart> calls_;
};

}  // namespace

std::string rfc3339(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  char text[40];
  if (gmtime_r(&time, &utc) == nullptr) return "1970-01-01T00:00:00Z";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::unique_ptr<AnswerWriter> make_ollama_writer(AnswerStart start, bool chat) {
  return std::make_unique<OllamaWriter>(std::move(start), chat);
}

}  // namespace hearth::coordinator::http
