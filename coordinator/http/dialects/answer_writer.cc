#include "coordinator/http/dialects/answer_writer.h"

#include <utility>

namespace hearth::coordinator::http {
namespace {

// An answer that is known in advance and is sent when its sequence has ended, as a whole body.
class FixedWriter final : public WholeWriter {
 public:
  using WholeWriter::WholeWriter;
  std::string whole(const std::vector<ChoicePart>&, const AnswerEnd&) const override {
    return start().fixed;
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_fixed_writer(Dialect dialect, AnswerStart start) {
  return std::make_unique<FixedWriter>(dialect, std::move(start));
}

std::unique_ptr<AnswerWriter> make_answer_writer(Dialect dialect, AnswerStart start) {
  if (!start.fixed.empty()) return make_fixed_writer(dialect, std::move(start));
  if (start.embedding) return make_embedding_writer(dialect, std::move(start));
  switch (dialect) {
    case Dialect::kResponses: return make_responses_writer(std::move(start));
    case Dialect::kAnthropic: return make_anthropic_writer(std::move(start));
    case Dialect::kOllama: return make_ollama_writer(std::move(start), true);
    case Dialect::kOllamaGenerate: return make_ollama_writer(std::move(start), false);
    case Dialect::kOpenAi: break;
  }
  return make_openai_writer(std::move(start));
}

OrderedJson arguments_object(const std::string& arguments) {
  OrderedJson value = OrderedJson::parse(arguments, nullptr, false);
  if (value.is_object()) return value;
  if (arguments.empty()) return OrderedJson::object();
  // If an answer was cut off inside a call, its partial text is sent as well.
  return {{"arguments", arguments}};
}

}  // namespace hearth::coordinator::http
