#include "coordinator/http/dialects/answer_writer.h"

#include <utility>

namespace hearth::coordinator::http {

std::unique_ptr<AnswerWriter> make_answer_writer(Dialect dialect, AnswerStart start) {
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
  // An answer that was cut off inside a call: what there is of it is not lost.
  return {{"arguments", arguments}};
}

}  // namespace hearth::coordinator::http
