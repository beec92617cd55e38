#include <gtest/gtest.h>

#include "cli/run/run.h"

namespace hearth::cli {
namespace {

TEST(SetParameter, ChangesWhatItNames) {
  RunOptions options;
  EXPECT_TRUE(set_parameter(options, "temperature", "0.25").ok());
  EXPECT_TRUE(set_parameter(options, "top_k", "7").ok());
  EXPECT_TRUE(set_parameter(options, "top-p", "0.5").ok());
  EXPECT_TRUE(set_parameter(options, "min_p", "0.125").ok());
  EXPECT_TRUE(set_parameter(options, "repeat_penalty", "1.5").ok());
  EXPECT_TRUE(set_parameter(options, "presence_penalty", "-2").ok());
  EXPECT_TRUE(set_parameter(options, "frequency-penalty", "2").ok());
  EXPECT_TRUE(set_parameter(options, "seed", "-3").ok());
  EXPECT_TRUE(set_parameter(options, "num_predict", "12").ok());
  EXPECT_TRUE(set_parameter(options, "stop", "END").ok());
  EXPECT_EQ(options.sampling.temperature, 0.25F);
  EXPECT_EQ(options.sampling.top_k, 7U);
  EXPECT_EQ(options.sampling.top_p, 0.5F);
  EXPECT_EQ(options.sampling.min_p, 0.125F);
  EXPECT_EQ(options.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(options.sampling.presence_penalty, -2.0F);
  EXPECT_EQ(options.sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(options.seed, -3);
  EXPECT_EQ(options.sampling.max_tokens, 12U);
  EXPECT_EQ(options.stop, std::vector<std::string>{"END"});
}

TEST(SetParameter, KnowsTheNamesOfTheFlags) {
  RunOptions options;
  EXPECT_TRUE(set_parameter(options, "temp", "0").ok());
  EXPECT_EQ(options.sampling.temperature, 0.0F);
  for (const char* name : {"n", "predict", "max-tokens"}) {
    options.sampling.max_tokens = 0;
    EXPECT_TRUE(set_parameter(options, name, "5").ok()) << name;
    EXPECT_EQ(options.sampling.max_tokens, 5U) << name;
  }
}

TEST(SetParameter, RefusesWithASentenceThatNamesTheParameter) {
  RunOptions options;
  const RunOptions before = options;
  for (const auto& [name, value] : {std::pair{"temperature", "hot"},
                                    {"temperature", "101"},
                                    {"temperature", "-0.1"},
                                    {"top_k", "-1"},
                                    {"top_k", "1e12"},
                                    {"top_p", "0"},
                                    {"top_p", "2"},
                                    {"top_p", ""},
                                    {"min_p", "nan"},
                                    {"repeat_penalty", "0"},
                                    {"presence_penalty", "-101"},
                                    {"frequency_penalty", "inf"},
                                    {"seed", "1e30"},
                                    {"seed", "9223372036854775808"},
                                    {"num_predict", "nan"},
                                    {"num_predict", "1.5"}}) {
    const auto status = set_parameter(options, name, value);
    ASSERT_FALSE(status.ok()) << name << " " << value;
    EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;
  }
  EXPECT_EQ(parameter_lines(options), parameter_lines(before));
}

TEST(SetParameter, AnUnknownNameGetsTheNearest) {
  RunOptions options;
  const auto status = set_parameter(options, "temprature", "1");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "unknown parameter 'temprature'; did you mean 'temperature'?");
}

TEST(SetParameter, StopStringsAreCollectedAndForgotten) {
  RunOptions options;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(set_parameter(options, "stop", "x").ok());
  EXPECT_FALSE(set_parameter(options, "stop", "x").ok());
  EXPECT_FALSE(set_parameter(options, "stop", std::string(513, 'x')).ok());
  EXPECT_EQ(options.stop.size(), 16U);
  EXPECT_TRUE(set_parameter(options, "stop", "").ok());
  EXPECT_TRUE(options.stop.empty());
}

TEST(ParameterLines, ShowEveryNameWithItsValue) {
  RunOptions options;
  ASSERT_TRUE(set_parameter(options, "seed", "42").ok());
  const auto lines = parameter_lines(options);
  const auto names = parameter_names();
  ASSERT_EQ(lines.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_TRUE(lines[i].starts_with(names[i]));
  EXPECT_EQ(lines[0], "temperature        0.8  (from 0 to 100)");
  EXPECT_EQ(lines[7], "seed               42  (a whole number)");
}

}  // namespace
}  // namespace hearth::cli
