#include "cli/chat.h"

#include <gtest/gtest.h>

#include "cli/progress.h"

namespace hearth::cli {
namespace {

TEST(SetParameter, ChangesWhatItNames) {
  RunOptions options;
  EXPECT_TRUE(set_parameter(options, "temperature", "0.25").ok());
  EXPECT_TRUE(set_parameter(options, "top_k", "7").ok());
  EXPECT_TRUE(set_parameter(options, "seed", "-3").ok());
  EXPECT_TRUE(set_parameter(options, "num_predict", "12").ok());
  EXPECT_TRUE(set_parameter(options, "stop", "END").ok());
  EXPECT_EQ(options.temperature, 0.25F);
  EXPECT_EQ(options.top_k, 7U);
  EXPECT_EQ(options.seed, -3);
  EXPECT_EQ(options.max_tokens, 12U);
  EXPECT_EQ(options.stop, std::vector<std::string>{"END"});
}

TEST(SetParameter, RefusesWithASentence) {
  RunOptions options;
  const RunOptions before = options;
  for (const auto& [name, value] : {std::pair{"temperature", "hot"},
                                    {"top_k", "-1"},
                                    {"top_k", "1e12"},
                                    {"seed", "1e30"},
                                    {"warmth", "1"},
                                    {"top_p", ""},
                                    {"num_predict", "nan"}}) {
    const auto status = set_parameter(options, name, value);
    ASSERT_FALSE(status.ok()) << name << " " << value;
    EXPECT_FALSE(status.error().message.empty());
  }
  EXPECT_EQ(options.top_k, before.top_k);
  EXPECT_EQ(options.temperature, before.temperature);
}

TEST(FormatBytes, DecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1'500), "1.5 kB");
  EXPECT_EQ(format_bytes(98'362'432), "98.4 MB");
  EXPECT_EQ(format_bytes(150'000'000'000), "150 GB");
}

}  // namespace
}  // namespace hearth::cli
