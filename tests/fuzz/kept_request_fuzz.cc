// Any bytes as what the store has of a request and of its tokens: refused, or within every bound.
// The first byte says how many of the rest are the request.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/http/generation/kept_request.h"

namespace {

using namespace hearth;
using namespace hearth::coordinator::http;

constexpr StepShape kShape{8, 1000, 512, false};

void check(const KeptRequest& request, const Bytes& bytes) {
  INVARIANT(encode(request) == bytes, "one encoding");
  INVARIANT(request.n >= 1 && request.n <= limits::kChoices, "n is in range");
  INVARIANT(
      !request.prompts.empty() && request.prompts.size() * request.n <= limits::kHttpSequences,
      "few sequences");
  for (const SubmitMessage& prompt : request.prompts) {
    INVARIANT(validate(prompt.open, kShape).ok(), "the coordinator takes it");
    INVARIANT(prompt.prompt.size() == prompt.open.prompt_tokens, "a prompt and no answer");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::size_t first = std::min<std::size_t>(size - 1, data[0]);
  const Bytes request(begin + 1, begin + 1 + first);
  const auto read = decode_kept_request(request, kShape, "fp");
  if (read.ok()) check(*read, request);
  const auto fingerprint = kept_fingerprint(request);
  INVARIANT(!read.ok() || (fingerprint.ok() && *fingerprint == "fp"), "it is the same model's");
  const Bytes row(begin + 1 + first, begin + size);
  for (const auto& answer : read_answers({row, row}, {3, 5}, kShape)) {
    INVARIANT(answer.size() <= kShape.context, "no longer than the context");
  }
  return 0;
}
