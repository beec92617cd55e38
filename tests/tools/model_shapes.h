// The shapes of published models, for models with random weights (model/synthetic.h).
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/synthetic.h"

namespace hearth::model {

// "tiny" (the defaults), "demo" (SmolLM2-135M's shape and types), "8b" and "70b" (those of
// Llama 3.1, Q4_0), "8x7b" (Mixtral's), "a2.7b" (Qwen 1.5 MoE's), "30b-a3b" (Qwen 3's, as all with
// experts Q4_0), "gpt-oss-20b" and "gpt-oss-120b" (MXFP4_MOE), "106b-a12b" (GLM 4.5 Air's),
// "glm-4.7-flash", "80b-a3b" (Qwen 3 Next's) and "35b-a3b" (Qwen 3.5's, Q4_0).
Result<SyntheticOptions> synthetic_preset(std::string_view name);

}  // namespace hearth::model
