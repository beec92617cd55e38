// SamplingParams of one choice of a request: the one place where a request becomes what stages
// sample by. The server uses it, and `hearth verify --re-execute` to repeat an answer.
#pragma once

#include "coordinator/http/openai/requests.h"
#include "model/text/tokenizer.h"

namespace hearth::coordinator::http {

// `seed`: of the answer, for requests that name none. `choice`: its number in the whole answer, all
// prompts counted; the choices of one prompt have consecutive seeds.
SamplingParams sampling_params(const GenerationRequest& request, std::uint64_t seed,
                               std::uint32_t choice, std::uint32_t max_tokens,
                               const model::Tokenizer& tokenizer);

}  // namespace hearth::coordinator::http
