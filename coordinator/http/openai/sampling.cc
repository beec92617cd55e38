#include "coordinator/http/openai/sampling.h"

#include "base/check.h"

namespace hearth::coordinator::http {

SamplingParams sampling_params(const GenerationRequest& request, std::uint64_t seed,
                               std::uint32_t choice, std::uint32_t max_tokens,
                               const model::Tokenizer& tokenizer) {
  INVARIANT(request.n > 0, "a request has a choice of each prompt");
  SamplingParams out = request.sampling;
  out.max_tokens = max_tokens;
  out.seed = request.seed.value_or(seed) + choice % request.n;
  if (!request.ignore_eos) out.stop_tokens = tokenizer.end_tokens();
  return out;
}

}  // namespace hearth::coordinator::http
