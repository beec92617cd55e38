// Messages of Anthropic: thinking, text and tool_use blocks, one open at a time.
#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/check.h"
#include "coordinator/http/dialects/answer_writer.h"

namespace hearth::coordinator::http {
namespace {

enum class Block : std::uint8_t { kNone, kThinking, kText, kTool };

const char* stop_reason(const ChoicePart& part) {
  if (part.finish_reason == "length") return "max_tokens";
  if (part.finish_reason == "tool_calls") return "tool_use";
  return part.stop_string.empty() ? "end_turn" : "stop_sequence";
}

OrderedJson stop_string(const ChoicePart& part) {
  return part.stop_string.empty() ? OrderedJson() : OrderedJson(part.stop_string);
}

// Cached tokens are not among the input_tokens here.
OrderedJson usage_of(std::uint64_t input, std::uint64_t cached, std::uint64_t output) {
  INVARIANT(cached <= input, "only the prompt's tokens are cached");
  return {{"input_tokens", input - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", output},
          // Strict clients want these, too.
          {"output_tokens_details", nullptr},
          {"cache_creation", nullptr},
          {"server_tool_use", nullptr},
          {"inference_geo", nullptr},
          {"service_tier", nullptr}};
}

class AnthropicWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;
  Dialect dialect() const override { return Dialect::kAnthropic; }

  StreamEvents begin(const ChoicePart&) override {
    OrderedJson message = message_head();
    message["content"] = OrderedJson::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = usage_of(start().prompt_tokens, 0, 0);  // what was cached is not known yet
    return {event("message_start", {{"message", std::move(message)}}), event("ping", {})};
  }

  StreamEvents add(const ChoicePart& part) override {
    StreamEvents out;
    if (!part.reasoning.empty()) {
      open(out, Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      delta(out, {{"type", "thinking_delta"}, {"thinking", part.reasoning}});
    }
    if (!part.text.empty()) {
      open(out, Block::kText, {{"type", "text"}, {"text", ""}});
      delta(out, {{"type", "text_delta"}, {"text", part.text}});
    }
    for (const ToolCallPart& call : part.tool_calls) add_call(out, call);
    return out;
  }

  StreamEvents end(const ChoicePart& part, const OrderedJson&) override {
    StreamEvents out = add(part);
    // Clients read content[0].
    if (next_ == 0) open(out, Block::kText, {{"type", "text"}, {"text", ""}});
    close_block(out);
    ended_ = {{"stop_reason", stop_reason(part)}, {"stop_sequence", stop_string(part)}};
    return out;
  }

  // An event that clients of this dialect ignore at any place.
  StreamEvents tell_loading(const OrderedJson& loading) override {
    return {event("ping", {{"hearth", {{"loading", loading}}}})};
  }
  StreamEvents tell_hearth(const OrderedJson&) override { return {}; }

  StreamEvents close(const AnswerEnd& end) override {
    INVARIANT(open_ == Block::kNone, "a message ends after its last block");
    return {
        event("message_delta", {{"delta", std::move(ended_)},
                                {"usage", usage_of(start().prompt_tokens, end.usage.cached_tokens,
                                                   end.usage.completion_tokens)},
                                {"hearth", end.hearth}}),
        event("message_stop", {})};
  }

  StreamEvents fail(const ApiError& error) override {
    return {{"error", error_body(error, Dialect::kAnthropic)}};
  }

  std::string whole(const std::vector<ChoicePart>& parts, const AnswerEnd& end) const override {
    INVARIANT(parts.size() == 1, "a message is one choice");
    const ChoicePart& part = parts.front();
    OrderedJson content = OrderedJson::array();
    if (!part.reasoning.empty()) {
      content.push_back({{"type", "thinking"}, {"thinking", part.reasoning}, {"signature", ""}});
    }
    if (!part.text.empty() || (part.reasoning.empty() && part.tool_calls.empty())) {
      content.push_back({{"type", "text"}, {"text", part.text}, {"citations", nullptr}});
    }
    for (const ToolCallPart& call : part.tool_calls) {
      content.push_back(tool_use(call, arguments_object(call.arguments)));
    }
    OrderedJson out = message_head();
    out["content"] = std::move(content);
    out["stop_reason"] = stop_reason(part);
    out["stop_sequence"] = stop_string(part);
    out["usage"] =
        usage_of(end.usage.prompt_tokens, end.usage.cached_tokens, end.usage.completion_tokens);
    out["hearth"] = end.hearth;
    return dump(out);
  }

 private:
  OrderedJson message_head() const {
    return {{"id", fmt::format("msg_{}", number())},
            {"type", "message"},
            {"role", "assistant"},
            {"model", head().model},
            {"container", nullptr},
            {"stop_details", nullptr}};
  }

  // The caller is always the model itself, because no code on a server makes calls.
  static OrderedJson tool_use(const ToolCallPart& call, OrderedJson input) {
    return {{"type", "tool_use"},
            {"id", call.id},
            {"name", call.name},
            {"input", std::move(input)},
            {"caller", {{"type", "direct"}}}};
  }

  static StreamEvent event(const char* type, OrderedJson fields) {
    OrderedJson out = {{"type", type}};
    for (auto& [key, value] : fields.items()) out[key] = std::move(value);
    return {type, dump(out)};
  }

  void open(StreamEvents& out, Block kind, OrderedJson block) {
    if (open_ == kind && kind != Block::kTool) return;
    close_block(out);
    open_ = kind;
    out.push_back(
        event("content_block_start", {{"index", next_++}, {"content_block", std::move(block)}}));
  }

  void delta(StreamEvents& out, OrderedJson change) const {
    INVARIANT(next_ > 0, "a delta is of an open block");
    out.push_back(
        event("content_block_delta", {{"index", next_ - 1}, {"delta", std::move(change)}}));
  }

  void close_block(StreamEvents& out) {
    if (open_ == Block::kNone) return;
    if (open_ == Block::kThinking) delta(out, {{"type", "signature_delta"}, {"signature", ""}});
    open_ = Block::kNone;
    out.push_back(event("content_block_stop", {{"index", next_ - 1}}));
  }

  void add_call(StreamEvents& out, const ToolCallPart& call) {
    if (open_ != Block::kTool || call_ != call.index) {
      call_ = call.index;
      open(out, Block::kTool, tool_use(call, OrderedJson::object()));
    }
    if (call.arguments.empty()) return;
    delta(out, {{"type", "input_json_delta"}, {"partial_json", call.arguments}});
  }

  Block open_ = Block::kNone;
  std::uint32_t next_ = 0;  // index of the next block
  std::uint32_t call_ = 0;  // index of the open call
  OrderedJson ended_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_anthropic_writer(AnswerStart start) {
  return std::make_unique<AnthropicWriter>(std::move(start));
}

}  // namespace hearth::coordinator::http
