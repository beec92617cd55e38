#include "cli/command/values.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/limits.h"
#include "cli/command/network_values.h"
#include "proto/step.h"

namespace hearth::cli {
namespace {

bool takes(const CLI::Validator& check, const std::string& text) { return check(text).empty(); }

TEST(WholeNumber, TakesItsRangeAndNothingElse) {
  const auto check = whole_number(-2, 512);
  for (const char* text : {"-2", "0", "7", "512"}) EXPECT_TRUE(takes(check, text)) << text;
  for (const char* text :
       {"-3", "513", "", "1.0", "1e2", " 1", "1 ", "0x10", "ten", "99999999999999999999", "+1"}) {
    EXPECT_EQ(check(std::string(text)), "'" + std::string(text) +
                                            "' is refused; it must be a whole number from -2 to "
                                            "512");
  }
}

TEST(Number, TakesItsRangeAndNothingElse) {
  const auto closed = number(0, 1);
  for (const char* text : {"0", "1", "0.5", "1e-3", ".25"}) EXPECT_TRUE(takes(closed, text));
  for (const char* text : {"-0.001", "1.001", "nan", "inf", "-inf", "", "hot", "1x"}) {
    EXPECT_NE(closed(std::string(text)).find("from 0 to 1"), std::string::npos) << text;
  }
  const auto open = number(0, 1, Low::kExcluded);
  EXPECT_FALSE(takes(open, "0"));
  EXPECT_FALSE(takes(open, "1e-60"));  // zero as a float
  EXPECT_TRUE(takes(open, "1e-6"));
}

TEST(Duration, BecomesSeconds) {
  const auto check = duration(1, 86'400);
  const std::vector<std::pair<std::string, std::string>> good = {
      {"1", "1"}, {"90s", "90"}, {"30m", "1800"}, {"24h", "86400"}, {"1d", "86400"}};
  for (const auto& [given, seconds] : good) {
    std::string text = given;
    EXPECT_EQ(check(text), "");
    EXPECT_EQ(text, seconds);
  }
  for (const char* given : {"", "0", "0h", "h", "-1", "1w", "1hh", "1 h", "25h", "2d", "1.5h",
                            "18446744073709551615d", "99999999999999999999"}) {
    std::string text = given;
    EXPECT_NE(check(text), "") << given;
  }
}

// The flags and the wire must agree: what a flag takes, a worker takes.
TEST(Number, AgreesWithTheSamplersOwnLimits) {
  struct Field {
    float SamplingParams::*value;
    CLI::Validator check;
  };
  const std::vector<Field> fields = {
      {&SamplingParams::temperature, number(0, 100)},
      {&SamplingParams::top_p, number(0, 1, Low::kExcluded)},
      {&SamplingParams::min_p, number(0, 1)},
      {&SamplingParams::repetition_penalty, number(0, 100, Low::kExcluded)},
      {&SamplingParams::presence_penalty, number(-100, 100)},
      {&SamplingParams::frequency_penalty, number(-100, 100)}};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    for (const char* text : {"-101", "-100", "-0.5", "0", "0.5", "1", "1.5", "100", "101", "nan"}) {
      SamplingParams params;
      params.max_tokens = 1;
      params.*fields[i].value = std::strtof(text, nullptr);
      EXPECT_EQ(validate(params, 100).ok(), takes(fields[i].check, text)) << i << " " << text;
    }
  }
}

TEST(MemorySize, BecomesBytes) {
  const auto change = memory_size(1, 1 << 30);
  for (const auto& [text, bytes] :
       {std::pair{"512MB", "536870912"}, {"1kb", "1024"}, {"1 GiB", "1073741824"}, {"77", "77"}}) {
    std::string value = text;
    EXPECT_EQ(change(value), "") << text;
    EXPECT_EQ(value, bytes) << text;
  }
  for (const char* text : {"0", "-1", "2GB", "1XB", "", "MB", "99999999999999999999GB"}) {
    std::string value = text;
    EXPECT_NE(change(value).find("1 to 1073741824 bytes"), std::string::npos) << text;
  }
}

TEST(Texts, AreChecked) {
  EXPECT_TRUE(takes(log_level(), "warn"));
  EXPECT_FALSE(takes(log_level(), "loud"));
  EXPECT_TRUE(takes(sha256_text(), std::string(64, 'a')));
  EXPECT_FALSE(takes(sha256_text(), std::string(63, 'a')));
  EXPECT_FALSE(takes(sha256_text(), std::string(64, 'A')));
  EXPECT_TRUE(takes(model_name_text(), "qwen3-4b"));
  EXPECT_FALSE(takes(model_name_text(), "../x"));
  EXPECT_TRUE(takes(stop_string(), std::string(limits::kStopStringBytes, 'x')));
  EXPECT_FALSE(takes(stop_string(), std::string(limits::kStopStringBytes + 1, 'x')));
  EXPECT_FALSE(takes(stop_string(), ""));
  EXPECT_TRUE(takes(link_address(), "127.0.0.1:0"));
  EXPECT_TRUE(takes(link_address(), "192.0.2.1:1"));
  for (const char* text : {"den:1", "192.0.2.1", "0.0.0.0:1", "[::]:1", ""}) {
    EXPECT_FALSE(takes(link_address(), text)) << text;
  }
  for (const char* host : {"192.0.2.1", "::1", "2001:db8::7"})
    EXPECT_TRUE(takes(numeric_host(), host)) << host;
  for (const char* host : {"", "den", "192.0.2.1:1", "0.0.0.0", "::", "[::1]", "1.2.3"}) {
    EXPECT_FALSE(takes(numeric_host(), host)) << host;
  }
  EXPECT_TRUE(takes(api_host(), "localhost:1"));
  EXPECT_TRUE(takes(api_host(), "den.local:1"));
  EXPECT_FALSE(takes(api_host(), "a b"));
  EXPECT_TRUE(takes(listen_host(), "0.0.0.0:1"));
  EXPECT_TRUE(takes(listen_host(), "localhost"));
  EXPECT_FALSE(takes(listen_host(), "den.local:1"));
  EXPECT_TRUE(takes(api_key_text(), "hk1.0123456789abcdef.x"));
  EXPECT_FALSE(takes(api_key_text(), "a b"));
  EXPECT_FALSE(takes(api_key_text(), "a\r\nHost: b"));
  EXPECT_TRUE(takes(seconds(), "0.5"));
  EXPECT_FALSE(takes(seconds(), "-1"));
}

}  // namespace
}  // namespace hearth::cli
