// What a stage fetches (model/gguf/manifest.h) is what its weights are made of: no tensor more,
// none less.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/gguf/manifest.h"
#include "model/synthetic.h"
#include "node/engine/weights.h"

namespace hearth::node {
namespace {

using model::GgufFile;
using model::Manifest;

// Every value of such a tensor is a NaN, or a block's scale is: it is refused by who reads it.
void poison(Bytes& bytes, const model::ManifestTensor& tensor) {
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.bytes,
              std::byte{0xFF});
}

bool loads(const Bytes& bytes, LayerRange layers) {
  const auto file = GgufFile::parse(bytes, "poisoned");
  if (!file.ok()) return false;
  const auto spec = model::ModelSpec::read(**file);
  return spec.ok() && StageWeights::load(**file, *spec, layers).ok();
}

class ModelFetchWeightsTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ModelFetchWeightsTest, AStageReadsItsTensorsAndNoOther) {
  for (const bool tied : {true, false}) {
    model::SyntheticOptions options;
    options.family = GetParam();
    options.layers = 3;
    options.tied_output = tied;
    options.rope_factors = GetParam() == "llama";
    const auto made = model::synthetic_model_bytes(options);
    if (!made.ok()) continue;  // a family that is always tied
    const Bytes whole = *made;
    const Manifest manifest = make_manifest(**GgufFile::parse(whole, "whole"), {}).value();
    for (const LayerRange layers : {LayerRange{0, 3}, {0, 1}, {1, 2}, {2, 3}, {0, 2}, {1, 3}}) {
      const std::vector<std::size_t> wanted = *stage_tensors(manifest, layers);
      Bytes others = whole;
      for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
        const bool mine = std::find(wanted.begin(), wanted.end(), i) != wanted.end();
        if (!mine) poison(others, manifest.tensors[i]);
      }
      EXPECT_TRUE(loads(others, layers)) << layers.begin << "-" << layers.end << " reads more";
      for (const std::size_t index : wanted) {
        Bytes one = whole;
        poison(one, manifest.tensors[index]);
        EXPECT_FALSE(loads(one, layers)) << layers.begin << "-" << layers.end << " does not read "
                                         << manifest.tensors[index].name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelFetchWeightsTest,
                         ::testing::ValuesIn(model::known_families()));

}  // namespace
}  // namespace hearth::node
