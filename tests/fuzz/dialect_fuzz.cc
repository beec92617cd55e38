// Any bytes as the body of every dialect: translated and checked, never an exception, and what is
// accepted is a request; and any text of an answer as the events of every dialect.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/http/dialects/answer_writer.h"
#include "coordinator/http/dialects/translate.h"

namespace hearth::coordinator::http {
namespace {

constexpr ModelBounds kBounds{1000, 2048, 64};

void check(const TranslatedRequest& translated, Dialect dialect) {
  const GenerationRequest& request = translated.request;
  INVARIANT(translated.only_loads || request.n == 1, "a dialect has one choice");
  INVARIANT(request.stop.size() <= limits::kStopStrings, "stop strings are bounded");
  INVARIANT(translated.only_loads || !request.messages.empty() || !request.prompts.empty(),
            "there is a prompt");
  AnswerStart start;
  start.head.id = "chatcmpl-1";
  start.frame = translated.frame;
  const auto writer = make_answer_writer(dialect, std::move(start));
  ChoicePart part;
  part.text = request.model;
  part.finish_reason = "stop";
  writer->begin(part);
  INVARIANT(!writer->end(part, {}).empty() || part.text.empty(), "what is said is told");
  INVARIANT(!writer->close({}).empty(), "a stream has an end");
  INVARIANT(!writer->whole({part}, {}).empty(), "an answer has a body");
}

void check_embed(const Json& body, bool one) {
  auto translated = translate_ollama_embed(body, one, kBounds);
  if (!translated.ok()) {
    INVARIANT(translated.error().status == 400, "what is wrong is the body");
    return;
  }
  if (translated->only_loads) return;
  INVARIANT(translated->request.embedding && translated->request.embedding->one == one &&
                !translated->request.prompts.empty(),
            "what is embedded has texts");
  AnswerStart start;
  start.embedding = translated->request.embedding;
  ChoicePart part;
  part.embedding = std::make_shared<const std::vector<float>>(2, 0.5F);
  INVARIANT(!make_answer_writer(Dialect::kOllama, std::move(start))->whole({part}, {}).empty(),
            "an answer has a body");
}

}  // namespace
}  // namespace hearth::coordinator::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::coordinator::http;
  auto json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  for (const Dialect dialect :
       {Dialect::kAnthropic, Dialect::kResponses, Dialect::kOllama, Dialect::kOllamaGenerate}) {
    auto request = translate_request(dialect, *json, kBounds);
    if (request.ok()) {
      check(*request, dialect);
    } else {
      INVARIANT(request.error().status == 400 && !error_body(request.error(), dialect).empty(),
                "every refusal has a body");
    }
  }
  for (const bool one : {false, true}) check_embed(*json, one);
  return 0;
}
