#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "kernels/kernels.h"

namespace hearth::kernels {
namespace {

struct SelectTest : ::testing::Test {
  void SetUp() override {
    const char* given = std::getenv("HEARTH_ISA");
    had_ = given != nullptr;
    if (had_) before_ = given;
  }
  void TearDown() override {
    had_ ? setenv("HEARTH_ISA", before_.c_str(), 1) : unsetenv("HEARTH_ISA");
  }

 private:
  bool had_ = false;
  std::string before_;
};

TEST_F(SelectTest, EveryAvailableTableIsFoundByItsNameAndIsWhole) {
  std::set<std::string> names;
  const auto tables = available_kernels();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables.front()->name, "scalar");
  for (const Kernels* table : tables) {
    EXPECT_TRUE(names.insert(std::string(table->name)).second);
    EXPECT_EQ(kernels_named(table->name).value(), table);
    EXPECT_TRUE(table->matmul != nullptr && table->matmul_partial != nullptr &&
                table->quantize != nullptr && table->rms_norm_quantize != nullptr &&
                table->swiglu_quantize != nullptr && table->clamped_swiglu_quantize != nullptr &&
                table->rope != nullptr && table->kv_write != nullptr &&
                table->attention != nullptr && table->add != nullptr &&
                table->residual_round != nullptr && table->residual_expand != nullptr &&
                table->dequantize_row != nullptr)
        << table->name;
  }
}

TEST_F(SelectTest, TheEnvironmentChoosesAndOtherwiseTheBest) {
  unsetenv("HEARTH_ISA");
  EXPECT_EQ(select_kernels().value(), available_kernels().back());
  setenv("HEARTH_ISA", "", 1);
  EXPECT_EQ(select_kernels().value(), available_kernels().back());
  for (const Kernels* table : available_kernels()) {
    setenv("HEARTH_ISA", std::string(table->name).c_str(), 1);
    EXPECT_EQ(select_kernels().value(), table);
  }
}

// tests/arm64/run says which table the processor that it emulates must get.
TEST_F(SelectTest, AnEmulatedProcessorGetsItsBest) {
  const char* expected = std::getenv("HEARTH_EXPECTED_ISA");
  if (expected == nullptr) GTEST_SKIP() << "the processor is not emulated";
  unsetenv("HEARTH_ISA");
  EXPECT_EQ(select_kernels().value()->name, expected);
}

TEST_F(SelectTest, AnUnknownNameIsRefusedWithTheChoices) {
  for (const char* name : {"avx1024", "Scalar", "scalar ", " scalar", "scala"}) {
    setenv("HEARTH_ISA", name, 1);
    const auto refused = select_kernels();
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find(name), std::string::npos);
    for (const Kernels* table : available_kernels()) {
      EXPECT_NE(refused.error().message.find(table->name), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace hearth::kernels
