#include "node/engine/prompt_embedder.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace hearth::node {

Result<PromptEmbedder> PromptEmbedder::load(const model::GgufFile& file,
                                            const model::ModelSpec& spec) {
  TRY(const model::TensorInfo* tensor,
      model::require_tensor(file, "output_norm.weight", {spec.hidden}));
  const ByteSpan bytes = file.tensor_bytes(*tensor);
  std::vector<float> norm(spec.hidden);
  REQUIRE(bytes.size() == norm.size() * sizeof(float), "tensor 'output_norm.weight' has ",
          bytes.size(), " bytes; ", spec.hidden, " values of F32 are served");
  std::memcpy(norm.data(), bytes.data(), bytes.size());
  return PromptEmbedder(std::move(norm), spec.rms_epsilon, spec.family->residual_shift);
}

std::optional<std::vector<float>> PromptEmbedder::embed(const kernels::Kernels& kernels,
                                                        ByteSpan residual, std::uint32_t values) {
  INVARIANT(residual.size() == bits_.size() * sizeof(std::uint16_t),
            "the residual of a row is as wide as the model");
  INVARIANT(values > 0 && values <= norm_.size(), "a checked open asks for no more than there is");
  std::memcpy(bits_.data(), residual.data(), residual.size());
  const auto hidden = static_cast<std::uint32_t>(norm_.size());
  std::vector<float> out(hidden);
  kernels.residual_expand(bits_.data(), out.data(), hidden, shift_);
  if (!kernels.rms_norm(out.data(), norm_.data(), epsilon_, hidden, out.data())) return {};
  if (!kernels::unit_length(out.data(), values, out.data())) return {};
  out.resize(values);
  return out;
}

}  // namespace hearth::node
