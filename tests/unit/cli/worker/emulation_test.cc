#include "cli/worker/emulation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "model/gguf/gguf.h"
#include "model/spec.h"

namespace hearth::cli {
namespace {

class EmulationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "emulation." + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    ::setenv("HEARTH_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HEARTH_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }
  std::string folder_;
};

TEST_F(EmulationTest, AShapeIsThatOfTheCatalogue) {
  for (const auto& [shape, quant] : {std::pair{"mixtral-8x7b", ""}, {"gpt-oss-20b", "mxfp4"}}) {
    const auto path = write_shape(shape, quant);
    ASSERT_TRUE(path.ok()) << path.error().message;
    const auto file = model::GgufFile::open(*path).value();
    const auto spec = model::ModelSpec::read(*file);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_TRUE(spec->shape_only);
    EXPECT_TRUE(spec->name.starts_with("EMULATED ")) << spec->name;
    EXPECT_EQ(spec->layers, std::string(shape) == "gpt-oss-20b" ? 24U : 32U);
    EXPECT_EQ(file->fingerprint(),
              model::GgufFile::open(*write_shape(shape, quant)).value()->fingerprint())
        << "workers write the file that the coordinator has";
  }
}

TEST_F(EmulationTest, RefusesUnknownNames) {
  EXPECT_NE(write_shape("llama-70b", "").error().message.find("--shape"), std::string::npos);
  EXPECT_NE(write_shape("llama3-8b", "q9").error().message.find("--quant"), std::string::npos);
  EXPECT_NE(open_emulated_device("rtx4091").error().message.find("rtx4090"), std::string::npos);
  EXPECT_NE(open_emulated_device("/no/card.json").error().message.find("cannot read"),
            std::string::npos);
}

TEST_F(EmulationTest, FiguresMayComeFromAFile) {
  const std::string path = folder_ + "/card.json";
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  write(R"({"memory_gb": 8, "memory_gb_per_second": 25, "fp16_tflops": 1})");
  const auto device = open_emulated_device(path);
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_TRUE((*device)->name().starts_with("EMULATED GPU of ")) << (*device)->name();
  write(R"({"memory_gb": 8, "memory_gb_per_second": 26, "fp16_tflops": 1})");
  EXPECT_NE((*open_emulated_device(path))->name(), (*device)->name())
      << "measurements of one are not those of the other";
}

}  // namespace
}  // namespace hearth::cli
