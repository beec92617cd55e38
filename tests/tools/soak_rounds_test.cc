// The soak finds nothing in the kernels as they are, and one wrong bit where there is one.
#include "tests/tools/soak_rounds.h"

#include <gtest/gtest.h>

#include <atomic>

#include "model/synthetic.h"

namespace hearth::cli {
namespace {

SoakOptions small() {
  SoakOptions options;
  options.tokens = 300;
  options.seed = 5;
  options.workers = 2;
  use_soak_tables(options);
  return options;
}

TEST(Soak, FindsNothingAndSaysTheSameAgain) {
  SoakOptions options = small();
  const SoakResult result = soak(options).value();
  EXPECT_GE(result.count.compared, options.tokens);
  EXPECT_GT(result.count.sampled, 0U);
  EXPECT_LT(result.count.sampled, result.count.compared);
  EXPECT_EQ(result.count.unequal, 0U) << result.count.first;
  EXPECT_FALSE(result.interrupted);
  options.workers = 1;
  const SoakResult again = soak(options).value();
  EXPECT_EQ(again.count.compared, result.count.compared);
  EXPECT_EQ(again.count.sampled, result.count.sampled);
  EXPECT_EQ(again.rounds, result.rounds);
  options.tables = options.model_tables;
  options.seed = 6;
  EXPECT_NE(soak(options).value().count.compared, result.count.compared);
}

TEST(Soak, TakesGivenModelsInTurn) {
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  SoakOptions options = small();
  options.tokens = 1;  // a round, and theirs is the first
  options.models.push_back({"mine", model::GgufFile::parse(bytes, "mine").value()});
  EXPECT_EQ(soak(options).value().count.unequal, 0U);
  kernels::Kernels wrong = *options.model_tables.crowd.back();
  wrong.rope = [](float*, std::uint32_t, std::uint32_t, kernels::RopeStyle, const float*) {};
  options.model_tables.crowd.push_back(&wrong);
  const SoakCount found = soak(options).value().count;
  EXPECT_GT(found.unequal, 0U);
  EXPECT_EQ(found.first.rfind("round 0, mine, sequence ", 0), 0U) << found.first;
}

// The lowest bit of one number of one row of one step: what `wrong` leaves in the crowd's table.
std::atomic<int> calls_left{0};

bool wrong_residual(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  const bool fine = kernels::available_kernels().back()->residual_round(x, bits, n, shift);
  if (calls_left.fetch_sub(1) == 1) {
    bits[n - 1] ^= 1;
    kernels::available_kernels().back()->residual_expand(bits, x, n, shift);
  }
  return fine;
}

bool wrong_kv(const kernels::KvLayout& layout, std::byte* page, std::uint32_t slot, const float* k,
              const float* v) {
  std::vector<float> other(k, k + std::size_t{layout.kv_heads} * layout.head_dim);
  if (calls_left.fetch_sub(1) == 1) other[0] = -other[0];
  return kernels::available_kernels().back()->kv_write(layout, page, slot, other.data(), v);
}

SoakResult soak_with(const kernels::Kernels& wrong) {
  SoakOptions options = small();
  options.workers = 1;
  options.tokens = 400;
  options.tables = {{kernels::available_kernels().back()}, {&wrong}};
  return soak(options).value();
}

TEST(Soak, FindsOneWrongBitOfOneRow) {
  kernels::Kernels wrong = *kernels::available_kernels().back();
  wrong.residual_round = wrong_residual;
  calls_left = 0;
  EXPECT_EQ(soak_with(wrong).count.unequal, 0U);
  calls_left = 10;
  const SoakCount found = soak_with(wrong).count;
  EXPECT_GT(found.unequal, 0U);
  EXPECT_NE(found.first.find("round 0, llama F32, sequence "), std::string::npos) << found.first;
}

// The key of one position in one layer: no hash of its own row shows it, those of later rows do.
TEST(Soak, FindsOneWrongKey) {
  kernels::Kernels wrong = *kernels::available_kernels().back();
  wrong.kv_write = wrong_kv;
  calls_left = 0;
  EXPECT_EQ(soak_with(wrong).count.unequal, 0U);
  calls_left = 10;
  EXPECT_GT(soak_with(wrong).count.unequal, 0U);
}

TEST(Soak, StopsWhenAsked) {
  SoakOptions options = small();
  options.tokens = 1'000'000'000;
  options.tables = options.model_tables;  // the fast ones
  std::atomic<int> rounds{0};
  options.on_progress = [&](const SoakCount&) { ++rounds; };
  options.stop = [&] { return rounds.load() >= 2; };
  const SoakResult result = soak(options).value();
  EXPECT_TRUE(result.interrupted);
  EXPECT_GE(result.rounds, 2U);
  EXPECT_EQ(result.count.unequal, 0U);
}

}  // namespace
}  // namespace hearth::cli
