// PromptEmbedder: the embedding of a prompt from the residual behind the last layer
// (kernels/CANONICAL.md, 10b). For a last stage on any device. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"

namespace hearth::node {

class PromptEmbedder {
 public:
  // Reads the final norm, which the file of a last stage has.
  static Result<PromptEmbedder> load(const model::GgufFile& file, const model::ModelSpec& spec);

  // `residual`: (hidden) of 16 bits, as a stage sends it. `values`: 1 to hidden. Nothing when the
  // row left the numeric range.
  std::optional<std::vector<float>> embed(const kernels::Kernels& kernels, ByteSpan residual,
                                          std::uint32_t values);

 private:
  PromptEmbedder(std::vector<float> norm, float epsilon, int shift)
      : norm_(std::move(norm)), epsilon_(epsilon), shift_(shift), bits_(norm_.size()) {}

  std::vector<float> norm_;
  float epsilon_;
  int shift_;
  std::vector<std::uint16_t> bits_;
};

}  // namespace hearth::node
