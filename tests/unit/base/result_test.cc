#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace hearth {
namespace {

Result<int> parse_digit(char c) {
  REQUIRE(c >= '0' && c <= '9', std::string("digit: '") + c + "' is no digit");
  return c - '0';
}

Result<int> sum(const std::string& text) {
  int total = 0;
  for (const char c : text) {
    TRY(const int digit, parse_digit(c));
    total += digit;
  }
  return total;
}

Status all_digits(const std::string& text) {
  for (const char c : text) TRY_VOID(parse_digit(c));
  return ok_status();
}

TEST(Result, CarriesValuesAndErrors) {
  EXPECT_EQ(*sum("123"), 6);
  const auto bad = sum("1x3");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(bad.error().message, "digit: 'x' is no digit");
  EXPECT_TRUE(all_digits("42").ok());
  EXPECT_FALSE(all_digits("4 2").ok());
}

TEST(Result, MovesWhatCannotBeCopied) {
  auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  auto use = [&]() -> Result<int> {
    TRY(std::unique_ptr<int> pointer, make());
    return *pointer;
  };
  EXPECT_EQ(*use(), 5);
}

TEST(ResultDeathTest, TheWrongSideIsOurOwnMistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> error(Error::invalid("no"));
  EXPECT_DEATH((void)error.value(), "invariant broken");
}

TEST(ErrorCode, EveryCodeHasItsOwnName) {
  std::vector<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kNumeric); ++code) {
    const auto name = error_code_name(static_cast<ErrorCode>(code));
    EXPECT_NE(name, "unknown");
    for (const auto other : names) EXPECT_NE(name, other);
    names.push_back(name);
  }
}

}  // namespace
}  // namespace hearth
