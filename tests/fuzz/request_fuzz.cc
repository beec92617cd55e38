// Any bytes as the body of every endpoint that takes one: parsed and checked, never an exception,
// and whatever is accepted lies within the sampler's own ranges.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {
namespace {

constexpr ModelBounds kBounds{1000, 2048, 64};

void check(const GenerationRequest& request) {
  INVARIANT(request.n >= 1 && request.n <= limits::kChoices, "n is in range");
  INVARIANT(request.stop.size() <= limits::kStopStrings, "stop strings are bounded");
  for (const std::string& stop : request.stop) {
    INVARIANT(!stop.empty() && stop.size() <= limits::kStopStringBytes, "stop strings fit");
  }
  INVARIANT(!request.asked.verify || *request.asked.verify <= Verify::kFull, "a way to verify");
  INVARIANT(!request.asked.min_level || *request.asked.min_level <= ledger::Level::kVeteran,
            "a level");
  INVARIANT(!request.max_tokens || *request.max_tokens >= 1, "something is generated");
  INVARIANT(request.chat ? !request.messages.empty() : !request.prompts.empty(), "a prompt");
  for (const Prompt& prompt : request.prompts) {
    const auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
    if (ids == nullptr) continue;
    for (const TokenId id : *ids) INVARIANT(id >= 0 && id < 1000, "ids are in the vocabulary");
  }
  if (request.embedding) {
    INVARIANT(request.embedding->values >= 1 && request.embedding->values <= kBounds.hidden,
              "an embedding has values, and no more than the model");
    INVARIANT(request.prompts.size() <= limits::kHttpSequences, "inputs are bounded");
  }
  SamplingParams params = request.sampling;
  params.max_tokens = 1;
  INVARIANT(validate(params, kBounds.vocabulary).ok(), "what the API accepts, the sampler takes");
}

}  // namespace
}  // namespace hearth::coordinator::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::coordinator::http;
  auto json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) {
    INVARIANT(!error_body(json.error()).empty(), "every refusal has a body");
    return 0;
  }
  for (auto* parse : {parse_chat_request, parse_completion_request, parse_embedding_request}) {
    auto request = parse(*json, kBounds);
    if (request.ok()) {
      check(*request);
    } else {
      INVARIANT(request.error().status == 400 && !error_body(request.error()).empty(),
                "every refusal has a body");
    }
  }
  return 0;
}
