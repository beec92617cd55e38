// OpenAI's Responses: reasoning, message and function_call items, one open at a time.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/http/dialects/answer_writer.h"

namespace hearth::coordinator::http {
namespace {

enum class Item : std::uint8_t { kNone, kReasoning, kMessage, kCall };

const char* kind_name(Item kind) {
  if (kind == Item::kReasoning) return "reasoning";
  return kind == Item::kMessage ? "message" : "function_call";
}

const char* prefix_of(Item kind) {
  if (kind == Item::kReasoning) return "rs";
  return kind == Item::kMessage ? "msg" : "fc";
}

OrderedJson content_part(Item kind, const std::string& text, OrderedJson logprobs) {
  if (kind == Item::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", OrderedJson::array()},
          {"logprobs", std::move(logprobs)}};
}

class ResponsesWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;
  Dialect dialect() const override { return Dialect::kResponses; }

  StreamEvents begin(const ChoicePart&) override {
    const OrderedJson response = response_object("in_progress", {}, nullptr);
    StreamEvents out;
    if (!created_) out.push_back(event("response.created", {{"response", response}}));
    out.push_back(event("response.in_progress", {{"response", response}}));
    return out;
  }

  StreamEvents add(const ChoicePart& part) override {
    StreamEvents out;
    if (!part.reasoning.empty()) {
      open(out, Item::kReasoning);
      add_text(out, part.reasoning, OrderedJson::array());
    }
    if (!part.text.empty()) {
      open(out, Item::kMessage);
      add_text(out, part.text, logprobs_of(part));
    }
    for (const ToolCallPart& call : part.tool_calls) add_call(out, call);
    return out;
  }

  StreamEvents end(const ChoicePart& part, const OrderedJson&) override {
    StreamEvents out = add(part);
    if (output_.empty() && kind_ == Item::kNone) open(out, Item::kMessage);
    cut_ = part.finish_reason == "length";
    close_item(out, cut_ ? "incomplete" : "completed");
    return out;
  }

  StreamEvents tell_loading(const OrderedJson& loading) override {
    OrderedJson response = response_object("queued", {}, nullptr);
    StreamEvents out;
    if (!std::exchange(created_, true)) {
      out.push_back(event("response.created", {{"response", response}}));
    }
    response["hearth"] = {{"loading", loading}};
    out.push_back(event("response.queued", {{"response", std::move(response)}}));
    return out;
  }
  StreamEvents tell_hearth(const OrderedJson&) override { return {}; }

  StreamEvents close(const AnswerEnd& end) override {
    INVARIANT(kind_ == Item::kNone, "a response ends after its last item");
    return {event(cut_ ? "response.incomplete" : "response.completed",
                  {{"response", ended(output_, cut_, end)}})};
  }

  StreamEvents fail(const ApiError& error) override {
    const OrderedJson code = error.code ? OrderedJson(*error.code) : OrderedJson("server_error");
    OrderedJson failed = response_object("failed", output_, nullptr);
    failed["error"] = {{"code", code}, {"message", error.message}};
    return {event("error", {{"code", code},
                            {"message", error.message},
                            {"param", error.param ? OrderedJson(*error.param) : OrderedJson()}}),
            event("response.failed", {{"response", std::move(failed)}})};
  }

  std::string whole(const std::vector<ChoicePart>& parts, const AnswerEnd& end) const override {
    INVARIANT(parts.size() == 1, "a response is one choice");
    // The items of a stream, without its events.
    ResponsesWriter items(start());
    items.begin(parts.front());
    items.end(parts.front(), {});
    return dump(ended(items.output_, items.cut_, end));
  }

 private:
  // The fields of the response object, in the order of OpenAI's description.
  OrderedJson response_object(const char* status, OrderedJson output, OrderedJson usage) const {
    OrderedJson out = {{"id", fmt::format("resp_{}", number())},
                       {"object", "response"},
                       {"created_at", head().created},
                       {"completed_at", nullptr},
                       {"status", status},
                       {"error", nullptr},
                       {"incomplete_details", nullptr},
                       {"model", head().model}};
    out["output"] = output.is_null() ? OrderedJson::array() : std::move(output);
    for (const auto& [key, value] : start().frame.items()) out[key] = value;
    out["usage"] = std::move(usage);
    return out;
  }

  OrderedJson ended(const OrderedJson& output, bool cut, const AnswerEnd& end) const {
    const Usage& usage = end.usage;
    OrderedJson out =
        response_object(cut ? "incomplete" : "completed", output,
                        {{"input_tokens", usage.prompt_tokens},
                         {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                         {"output_tokens", usage.completion_tokens},
                         {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
                         {"total_tokens", usage.prompt_tokens + usage.completion_tokens}});
    if (cut) {
      out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
      // By the clock of the answer: when it began, and how long its tokens took.
      const double ms = end.timings.prompt_ms + end.timings.predicted_ms;
      out["completed_at"] = head().created + static_cast<std::int64_t>(std::max(ms, 0.0) / 1000);
    }
    out["hearth"] = end.hearth;
    return out;
  }

  OrderedJson logprobs_of(const ChoicePart& part) const {
    if (!part.with_logprobs) return OrderedJson::array();
    return chat_logprobs(part.logprobs, *start().tokenizer)["content"];
  }

  StreamEvent event(const char* type, OrderedJson fields) {
    OrderedJson out = {{"type", type}, {"sequence_number", sequence_++}};
    for (auto& [key, value] : fields.items()) out[key] = std::move(value);
    return {type, dump(out)};
  }

  std::string item_id() const {
    return fmt::format("{}_{}_{}", prefix_of(kind_), number(), output_.size());
  }

  // An event of the open item; `in_part`: of its only content part.
  StreamEvent item_event(const char* type, OrderedJson fields, bool in_part = true) {
    OrderedJson all = {{"item_id", item_id()}, {"output_index", output_.size()}};
    if (in_part) all["content_index"] = 0;
    for (auto& [key, value] : fields.items()) all[key] = std::move(value);
    return event(type, std::move(all));
  }

  OrderedJson item(const char* status) const {
    OrderedJson out = {{"id", item_id()}, {"type", kind_name(kind_)}, {"status", status}};
    const bool begun = std::string_view(status) == "in_progress";
    if (kind_ == Item::kCall) {
      out["call_id"] = call_.id;
      out["name"] = call_.name;
      out["arguments"] = begun ? "" : call_.arguments;
      return out;
    }
    if (kind_ == Item::kMessage) out["role"] = "assistant";
    if (kind_ == Item::kReasoning) out["summary"] = OrderedJson::array();
    out["content"] = OrderedJson::array();
    if (!begun) out["content"].push_back(content_part(kind_, text_, logprobs_));
    return out;
  }

  void open(StreamEvents& out, Item kind) {
    if (kind_ == kind && kind != Item::kCall) return;
    close_item(out, "completed");
    kind_ = kind;
    text_.clear();
    logprobs_ = OrderedJson::array();
    out.push_back(event("response.output_item.added",
                        {{"output_index", output_.size()}, {"item", item("in_progress")}}));
    if (kind == Item::kCall) return;
    out.push_back(item_event("response.content_part.added",
                             {{"part", content_part(kind, "", OrderedJson::array())}}));
  }

  void add_text(StreamEvents& out, const std::string& text, const OrderedJson& logprobs) {
    INVARIANT(kind_ == Item::kReasoning || kind_ == Item::kMessage, "text is of an open item");
    text_ += text;
    logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
    OrderedJson fields = {{"delta", text}};
    if (kind_ == Item::kMessage) fields["logprobs"] = logprobs;
    out.push_back(item_event(
        kind_ == Item::kMessage ? "response.output_text.delta" : "response.reasoning_text.delta",
        std::move(fields)));
  }

  void add_call(StreamEvents& out, const ToolCallPart& call) {
    if (kind_ != Item::kCall || call_.index != call.index) {
      close_item(out, "completed");
      call_ = {call.index, call.id, call.name, ""};
      open(out, Item::kCall);
    }
    if (call.arguments.empty()) return;
    call_.arguments += call.arguments;
    out.push_back(
        item_event("response.function_call_arguments.delta", {{"delta", call.arguments}}, false));
  }

  void close_item(StreamEvents& out, const char* status) {
    if (kind_ == Item::kNone) return;
    if (kind_ == Item::kCall) {
      out.push_back(item_event("response.function_call_arguments.done",
                               {{"name", call_.name}, {"arguments", call_.arguments}}, false));
    } else {
      OrderedJson done = {{"text", text_}};
      if (kind_ == Item::kMessage) done["logprobs"] = logprobs_;
      out.push_back(item_event(
          kind_ == Item::kMessage ? "response.output_text.done" : "response.reasoning_text.done",
          std::move(done)));
      out.push_back(item_event("response.content_part.done",
                               {{"part", content_part(kind_, text_, logprobs_)}}));
    }
    OrderedJson whole = item(status);
    out.push_back(
        event("response.output_item.done", {{"output_index", output_.size()}, {"item", whole}}));
    output_.push_back(std::move(whole));
    kind_ = Item::kNone;
  }

  Item kind_ = Item::kNone;  // of the open item
  std::string text_;         // of it, so far
  OrderedJson logprobs_ = OrderedJson::array();
  ToolCallPart call_;  // likewise
  OrderedJson output_ = OrderedJson::array();
  std::uint64_t sequence_ = 0;
  bool created_ = false;  // response.created was sent
  bool cut_ = false;      // the answer ended at its length
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(AnswerStart start) {
  return std::make_unique<ResponsesWriter>(std::move(start));
}

}  // namespace hearth::coordinator::http
