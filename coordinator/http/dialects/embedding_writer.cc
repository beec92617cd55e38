// Bodies of /v1/embeddings, and of Ollama's /api/embed and /api/embeddings. They are always sent
// whole.
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crypto.h"
#include "coordinator/http/dialects/answer_writer.h"

namespace hearth::coordinator::http {
namespace {

// The shortest decimal numbers that parse to the same fp32 values.
void append_numbers(std::string& out, std::span<const float> values) {
  out += '[';
  for (const float value : values) {
    if (out.back() != '[') out += ',';
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
  out += ']';
}

void append_base64(std::string& out, std::span<const float> values) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const float value : values) writer.write(value);
  out += '"' + base64(bytes) + '"';
}

class EmbeddingWriter final : public WholeWriter {
 public:
  using WholeWriter::WholeWriter;

  // The vectors are by far the largest part of a body, so they are written directly as text.
  std::string whole(const std::vector<ChoicePart>& parts, const AnswerEnd& end) const override {
    INVARIANT(!parts.empty(), "an answer has an embedding for each of its prompts");
    const EmbeddingForm& form = *start().embedding;
    std::string list;
    for (const ChoicePart& part : parts) {
      if (!list.empty()) list += ',';
      append(list, part);
    }
    if (form.one) return "{\"embedding\":" + list + "}";
    if (dialect() == Dialect::kOpenAi) {
      const OrderedJson usage = {{"prompt_tokens", end.usage.prompt_tokens},
                                 {"total_tokens", end.usage.prompt_tokens}};
      return with_list({{"object", "list"}}, "data", list,
                       {{"model", head().model}, {"usage", usage}, {"hearth", end.hearth}});
    }
    constexpr double kNanoseconds = 1e6;  // of a millisecond
    const auto prompt = std::llround(std::max(end.timings.prompt_ms, 0.0) * kNanoseconds);
    return with_list({{"model", head().model}}, "embeddings", list,
                     {{"total_duration", prompt},
                      {"load_duration", 0},
                      {"prompt_eval_count", end.usage.prompt_tokens}});
  }

 private:
  void append(std::string& out, const ChoicePart& part) const {
    INVARIANT(part.embedding != nullptr, "the coordinator refuses an end without an embedding");
    const bool in_object = dialect() == Dialect::kOpenAi;
    if (in_object) out += R"({"object":"embedding","embedding":)";
    if (start().embedding->base64) {
      append_base64(out, *part.embedding);
    } else {
      append_numbers(out, *part.embedding);
    }
    if (in_object) out += fmt::format(",\"index\":{}}}", part.index);
  }

  // {before, "name": [list], after}
  static std::string with_list(const OrderedJson& before, const char* name, const std::string& list,
                               const OrderedJson& after) {
    const std::string first = dump(before);
    const std::string last = dump(after);
    return first.substr(0, first.size() - 1) + fmt::format(",\"{}\":[", name) + list + "]," +
           last.substr(1);
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_embedding_writer(Dialect dialect, AnswerStart start) {
  return std::make_unique<EmbeddingWriter>(dialect, std::move(start));
}

}  // namespace hearth::coordinator::http
