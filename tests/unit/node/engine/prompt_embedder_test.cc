#include "node/engine/prompt_embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/synthetic.h"

namespace hearth::node {
namespace {

struct PromptEmbedderTest : ::testing::Test {
  PromptEmbedderTest() {
    bytes = model::synthetic_model_bytes({}).value();
    file = model::GgufFile::parse(bytes, "tiny").value();
    spec = model::ModelSpec::read(*file).value();
  }
  static ByteSpan as_span(const std::vector<std::uint16_t>& bits) {
    return {reinterpret_cast<const std::byte*>(bits.data()), bits.size() * sizeof(bits[0])};
  }
  // Of -2 to 2 times 2^shift.
  std::vector<std::uint16_t> residual() const {
    SeededRandom random(5);
    std::vector<std::uint16_t> bits(spec.hidden);
    constexpr std::uint16_t kBelowTwo = 0x3fff;
    for (std::uint16_t& each : bits) {
      each = static_cast<std::uint16_t>(random.next() % (kBelowTwo + 1));
      if (random.next() % 2 == 0) each |= 0x8000;
    }
    return bits;
  }
  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
  model::ModelSpec spec;
};

TEST_F(PromptEmbedderTest, IsTheFinalNormAtLengthOne) {
  auto embedder = PromptEmbedder::load(*file, spec).value();
  const std::vector<std::uint16_t> bits = residual();
  std::vector<float> norm(spec.hidden);
  const auto* tensor = file->find_tensor("output_norm.weight");
  std::memcpy(norm.data(), file->tensor_bytes(*tensor).data(), norm.size() * sizeof(float));
  std::vector<float> x(spec.hidden);
  const kernels::Kernels& scalar = *kernels::available_kernels().front();
  scalar.residual_expand(bits.data(), x.data(), spec.hidden, spec.family->residual_shift);
  ASSERT_TRUE(scalar.rms_norm(x.data(), norm.data(), spec.rms_epsilon, spec.hidden, x.data()));
  for (const std::uint32_t values : {1U, 33U, spec.hidden}) {
    std::vector<float> expected(values);
    ASSERT_TRUE(kernels::unit_length(x.data(), values, expected.data()));
    for (const kernels::Kernels* table : kernels::available_kernels()) {
      EXPECT_EQ(embedder.embed(*table, as_span(bits), values), expected) << table->name;
    }
  }
}

TEST_F(PromptEmbedderTest, ARowWithoutALengthHasNone) {
  auto embedder = PromptEmbedder::load(*file, spec).value();
  const kernels::Kernels& table = *kernels::available_kernels().back();
  std::vector<std::uint16_t> bits(spec.hidden);
  EXPECT_FALSE(embedder.embed(table, as_span(bits), spec.hidden)) << "all zero";
  bits = residual();
  bits[3] = 0x7c00;
  EXPECT_FALSE(embedder.embed(table, as_span(bits), spec.hidden)) << "an infinity";
}

TEST_F(PromptEmbedderTest, AFileWithoutTheNormIsRefused) {
  spec.hidden += 32;
  EXPECT_EQ(PromptEmbedder::load(*file, spec).error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace hearth::node
