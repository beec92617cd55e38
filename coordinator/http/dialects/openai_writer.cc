// Chunks of chat completions and completions.
#include <utility>

#include "coordinator/http/dialects/answer_writer.h"

namespace hearth::coordinator::http {
namespace {

class OpenAiWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;
  Dialect dialect() const override { return Dialect::kOpenAi; }

  StreamEvents begin(const ChoicePart& part) override {
    if (!head().chat) return {};
    ChoicePart role;
    role.index = part.index;
    role.first = true;
    role.with_token_ids = part.with_token_ids;
    return chunk(role, {});
  }
  StreamEvents add(const ChoicePart& part) override { return chunk(part, {}); }
  StreamEvents end(const ChoicePart& part, const OrderedJson& closing) override {
    return chunk(part, closing);
  }
  // It has an empty choice, because many clients expect one in each chunk.
  StreamEvents tell_loading(const OrderedJson& loading) override {
    ChoicePart nothing;
    return chunk(nothing, {{"hearth", {{"loading", loading}}}});
  }
  StreamEvents tell_hearth(const OrderedJson& hearth) override {
    return {{{}, dump(hearth_chunk(head(), hearth))}};
  }
  StreamEvents close(const AnswerEnd& end) override {
    if (!head().include_usage) return {};
    return {{{}, dump(usage_chunk(head(), end.usage, end.timings))}};
  }
  StreamEvents mark() override { return {{{}, "[DONE]"}}; }
  StreamEvents fail(const ApiError& error) override { return {{{}, error_body(error)}}; }
  std::string whole(const std::vector<ChoicePart>& parts, const AnswerEnd& end) const override {
    return dump(
        answer_object(head(), parts, end.usage, end.timings, end.hearth, *start().tokenizer));
  }

 private:
  StreamEvents chunk(const ChoicePart& part, OrderedJson extra) const {
    return {{{}, dump(chunk_object(head(), part, std::move(extra), *start().tokenizer))}};
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_openai_writer(AnswerStart start) {
  return std::make_unique<OpenAiWriter>(std::move(start));
}

}  // namespace hearth::coordinator::http
