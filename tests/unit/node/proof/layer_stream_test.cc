#include "node/proof/layer_stream.h"

#include <gtest/gtest.h>

#include "model/grammar/grammar.h"
#include "model/synthetic.h"
#include "node/proof/recompute.h"
#include "tests/unit/model/family_name.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kStreamLayers = 7;  // of a family with local layers, one sees everything

struct LayerStreamTest : ::testing::TestWithParam<std::string> {
  // `layer_input`: values of each layer's own input, with which a model is not split.
  void load(const std::string& family, std::uint32_t layer_input = 0) {
    model::SyntheticOptions options;
    options.family = family;
    options.layers = kStreamLayers;
    options.tied_output = family != "llama";
    options.layer_input = layer_input;
    bytes = model::synthetic_model_bytes(options).value();
    file = model::GgufFile::parse(bytes, "streamed").value();
    spec.emplace(model::ModelSpec::read(*file).value());
    for (TokenId i = 0; i < 60; ++i) sequence.tokens.push_back(30 + (i * 37) % 300);
    sequence.prompt = 41;
    sequence.sampling.temperature = 0.9F;
    sequence.sampling.repetition_penalty = 1.2F;
    sequence.sampling.seed = 11;
    sequence.sampling.max_tokens = 40;
    sequence.sampling.grammar =
        (*model::compile_grammar({model::GrammarSource::Kind::kRegex, "[^]*"}))->bytes();
    options_.split = {{0, 1}, {1, 4}, {4, kStreamLayers}};
    options_.batch_rows = 16;
  }
  Result<FedRun> stream() const { return stream_layers(file, *spec, sequence, options_); }
  // As a whole model computes it.
  RecomputedRun whole() const {
    LocalOptions local;
    local.stages = static_cast<std::uint32_t>(options_.split.size());
    local.layers = options_.split;
    const auto runner = LocalRunner::load(file, local).value();
    const auto positions = static_cast<std::uint32_t>(sequence.tokens.size());
    return recompute(*runner, local.stages, {sequence, positions, true}, {}).value();
  }

  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
  std::optional<model::ModelSpec> spec;
  FedSequence sequence;
  StreamOptions options_;

  void expect_bits_of_the_whole_model();
};

void LayerStreamTest::expect_bits_of_the_whole_model() {
  const RecomputedRun expected = whole();
  for (const std::uint32_t rows : {7U, 16U, 256U}) {
    options_.batch_rows = rows;
    const auto run = stream();
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(run->boundaries, expected.boundaries);
    ASSERT_EQ(run->sampled.size(), 20U);
    ASSERT_EQ(expected.sampled.size(), 20U);
    for (std::size_t i = 0; i < run->sampled.size(); ++i) {
      EXPECT_EQ(run->sampled[i].position, expected.sampled[i].position);
      EXPECT_EQ(run->sampled[i].token, expected.sampled[i].token) << i;
    }
  }
}

TEST_P(LayerStreamTest, ItsBitsAreThoseOfTheWholeModel) {
  load(GetParam());
  expect_bits_of_the_whole_model();
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const std::string_view name : model::known_families()) names.emplace_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Families, LayerStreamTest, ::testing::ValuesIn(families()),
                         [](const auto& one) { return model::family_test_name(one.param); });

struct OneLayerStreamTest : LayerStreamTest {};

TEST_F(OneLayerStreamTest, OneLayerAfterTheOtherIsLoaded) {
  load("llama");
  std::vector<std::uint32_t> done;
  options_.progress = [&done](std::uint32_t layer, std::uint32_t of) {
    EXPECT_EQ(of, kStreamLayers);
    done.push_back(layer);
  };
  ASSERT_TRUE(stream().ok());
  EXPECT_EQ(done, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7}));
  done.clear();
  options_.stopped = [&done] { return done.size() == 2; };
  const auto stopped = stream();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(done.size(), 2U);
}

TEST_F(OneLayerStreamTest, AModelThatIsNotSplitIsLoadedAtOnce) {
  load("gemma4", 32);
  EXPECT_NE(stream().error().message.find("3 stages; one stage must hold every layer"),
            std::string::npos);
  options_.split = {{0, kStreamLayers}};
  std::vector<std::uint32_t> done;
  options_.progress = [&done](std::uint32_t layer, std::uint32_t) { done.push_back(layer); };
  expect_bits_of_the_whole_model();
  EXPECT_EQ(done, std::vector<std::uint32_t>(3, kStreamLayers));
}

TEST_F(OneLayerStreamTest, WhatDoesNotFitTheModelIsRefused) {
  load("llama");
  const auto refused = [this] {
    const auto run = stream();
    return !run.ok() && run.error().code == ErrorCode::kInvalidInput;
  };
  options_.split = {{0, 2}, {3, kStreamLayers}};
  EXPECT_TRUE(refused());
  options_.split = {{0, kStreamLayers + 1}};
  EXPECT_TRUE(refused());
  options_.split = {{0, kStreamLayers}};
  EXPECT_FALSE(refused());
  sequence.tokens[50] = 100'000;
  EXPECT_TRUE(refused());
  sequence.tokens[50] = 1;
  sequence.prompt = 0;
  EXPECT_TRUE(refused());
  sequence.prompt = 61;
  EXPECT_TRUE(refused());
  sequence.prompt = 41;
  sequence.tokens.resize(512, 1);
  EXPECT_TRUE(refused()) << "the context has no place for one more";
}

}  // namespace
}  // namespace hearth::node
