#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/model/rendered.h"

namespace hearth::model {
namespace {

// Results are those of Jinja 3.1 itself.
constexpr JinjaRow kArithmetic[] = {
    {"7 // 2", "3"},
    {"-7 // 2", "-4"},
    {"7 // -2", "-4"},
    {"-7 // -2", "3"},
    {"7 % 3", "1"},
    {"-7 % 3", "2"},
    {"7 % -3", "-2"},
    {"-7 % -3", "-1"},
    {"6 // -1", "-6"},
    {"6 % -1", "0"},
    {"7.5 // 2", "3.0"},
    {"-7.5 // 2", "-4.0"},
    {"7.5 % -2", "-0.5"},
    {"-7.5 % 2", "0.5"},
    {"-0.5 % 1.0", "0.5"},
    {"1.0 // 0.1", "9.0"},
    {"1.0 % 0.1", "0.09999999999999995"},
    {"-1.0 // 0.1", "-10.0"},
    {"3 // 0.1", "29.0"},
    {"6 % -2.0", "-0.0"},
    {"-6 % 2.0", "0.0"},
    {"1e308 // 1e-10", "inf"},
    {"5 / 2", "2.5"},
    {"4 / 2", "2.0"},
    {"-4 / 2", "-2.0"},
    {"1 / 3", "0.3333333333333333"},
    {"2 ** 10", "1024"},
    {"2 ** -1", "0.5"},
    {"2 ** 0.5", "1.4142135623730951"},
    {"0 ** 0", "1"},
    {"-2 ** 2", "4"},
    {"2 ** 3 ** 2", "64"},
    {"(-2) ** 63", "-9223372036854775808"},
    {"(-1) ** 9", "-1"},
    {"2 + 3 * 4 - 1", "13"},
    {"(2 + 3) * 4", "20"},
    {"10 - 4 - 3", "3"},
    {"100 / 10 / 5", "2.0"},
    {"true + true", "2"},
    {"true * 3", "3"},
    {"-true", "-1"},
    {"+3", "3"},
    {"- -3", "3"},
    {"not 3 + 1", "False"},
    {"1 + 2.5", "3.5"},
    {"0.1 + 0.2", "0.30000000000000004"},
    {"1e16", "1e+16"},
    {"1e15 + 0.5", "1000000000000000.5"},
    {"1e-5", "1e-05"},
    {"0.0001", "0.0001"},
    {"-0.0", "-0.0"},
    {"1e22", "1e+22"},
    {"123456789.125", "123456789.125"},
    {"1.0", "1.0"},
    {"100 * 1.0", "100.0"},
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775807 - 1", "-9223372036854775808"},
    {"'ab' * 3", "ababab"},
    {"3 * 'ab'", "ababab"},
    {"'ab' * 0", ""},
    {"'ab' * -1", ""},
    {"[1, 2] * 2", "[1, 2, 1, 2]"},
    {"(1,) * 3", "(1, 1, 1)"},
    {"[1] + [2, 3]", "[1, 2, 3]"},
    {"(1, 2) + (3,)", "(1, 2, 3)"},
    {"'a' + 'b' + 'c'", "abc"},
    {"1 ~ 2", "12"},
    {"'a' ~ none ~ true", "aNoneTrue"},
    {"2 * 3 ~ 4", "64"},
    {"[1] ~ (2,)", "[1](2,)"},
    {"'x' ~ 1.50", "x1.5"},
};

TEST(JinjaOperators, ReckonAsInPython) { expect_rows(kArithmetic); }

constexpr JinjaRow kComparisons[] = {
    {"1 == 1.0", "True"},
    {"1 == true", "True"},
    {"0 == false", "True"},
    {"'1' == 1", "False"},
    {"none == none", "True"},
    {"none == false", "False"},
    {"[1, 2] == [1, 2]", "True"},
    {"[1, 2] == (1, 2)", "False"},
    {"{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "True"},
    {"{'a': 1} == {'a': 2}", "False"},
    {"1 != 2", "True"},
    {"'a' != 'b'", "True"},
    {"1 < 2 < 3", "True"},
    {"1 < 3 < 2", "False"},
    {"3 > 2 > 1", "True"},
    {"1 < 2 > 1", "True"},
    {"1 == 1 == 1", "True"},
    {"1 < 2 == 2", "True"},
    {"'a' < 'b'", "True"},
    {"'Z' < 'a'", "True"},
    {"'a' < 'aa'", "True"},
    {"'' < 'a'", "True"},
    {"'\\u00e9' > 'z'", "True"},
    {"[1, 2] < [1, 3]", "True"},
    {"[1] < [1, 0]", "True"},
    {"[] < [0]", "True"},
    {"(1, 'a') < (1, 'b')", "True"},
    {"1.5 >= 1.5", "True"},
    {"true > false", "True"},
    {"'b' in 'abc'", "True"},
    {"'' in 'abc'", "True"},
    {"'ac' in 'abc'", "False"},
    {"2 in [1, 2]", "True"},
    {"2.0 in [1, 2]", "True"},
    {"'a' in {'a': 1}", "True"},
    {"1 in {'a': 1}", "False"},
    {"3 not in [1, 2]", "True"},
    {"not 3 in [3]", "False"},
    {"'a' in missing", "False"},
    {"not ''", "True"},
    {"not []", "True"},
    {"not 0.0", "True"},
    {"not none", "True"},
    {"not 'a'", "False"},
    {"1 and 'x'", "x"},
    {"0 or 'x'", "x"},
    {"'' and 1", ""},
    {"none or 0", "0"},
    {"0 or none or []", "[]"},
    {"1 if 2 > 1 else 3", "1"},
    {"('x' if false)", ""},
    {"not true or true", "True"},
    {"1 or 1 / 0", "1"},
};

TEST(JinjaOperators, CompareAndChooseAsInPython) { expect_rows(kComparisons); }

constexpr JinjaRow kSlices[] = {
    {"'abcdef'[1:3]", "bc"},
    {"'abcdef'[:-1]", "abcde"},
    {"'abcdef'[-3:]", "def"},
    {"'abcdef'[::2]", "ace"},
    {"'abcdef'[::-1]", "fedcba"},
    {"'abcdef'[4:1:-1]", "edc"},
    {"'abcdef'[4:1]", ""},
    {"'abcdef'[10:]", ""},
    {"'abcdef'[-10:2]", "ab"},
    {"'abcdef'[:99]", "abcdef"},
    {"'abcdef'[1::-1]", "ba"},
    {"'abcdef'[::100]", "a"},
    {"'abcdef'[::-100]", "f"},
    {"'abcdef'[-1:-4:-2]", "fd"},
    {"''[1:]", ""},
    {"''[::-1]", ""},
    {"'h\\u00e9llo\\u4e16'[1:2]", "\303\251"},
    {"'h\\u00e9llo\\u4e16'[-1:]", "\344\270\226"},
    {"'h\\u00e9llo\\u4e16'[::-2]", "\344\270\226l\303\251"},
    {"'h\\u00e9llo'[1]", "\303\251"},
    {"'abc'[-1]", "c"},
    {"'abc'[5]", ""},
    {"[1, 2, 3][1:]", "[2, 3]"},
    {"[1, 2, 3][::-1]", "[3, 2, 1]"},
    {"[1, 2, 3][-2:-1]", "[2]"},
    {"(1, 2, 3)[:2]", "(1, 2)"},
    {"[1, 2, 3][true:]", "[2, 3]"},
    {"[1, 2, 3][none:2]", "[1, 2]"},
    {"[1, 2, 3][-1]", "3"},
    {"[1, 2, 3][7]", ""},
    {"{'a': 5}['a']", "5"},
    {"{'a': 5}.a", "5"},
    {"{'a': 5}.b", ""},
    {"{'a': {'b': [7]}}.a.b[0]", "7"},
    {"{1: 'x'}[1]", "x"},
    {"{1: 'x'}[1.0]", "x"},
    {"{1: 'x'}[true]", "x"},
};

TEST(JinjaOperators, CutAsInPython) { expect_rows(kSlices); }

// What Python answers with an exception is refused here, and never answered with a number.
TEST(JinjaOperators, RefuseWhatPythonRefuses) {
  for (const std::string_view expression : {"1 / 0",
                                            "1 // 0",
                                            "1 % 0",
                                            "1.5 / 0",
                                            "1.5 // 0.0",
                                            "1.5 % 0",
                                            "0 ** -1",
                                            "0.0 ** -1",
                                            "(-8) ** 0.5",
                                            "1e300 ** 2",
                                            "9223372036854775807 + 1",
                                            "-9223372036854775807 - 2",
                                            "9223372036854775807 * 2",
                                            "(-9223372036854775807 - 1) // -1",
                                            "2 ** 63",
                                            "10 ** 19",
                                            "-(-9223372036854775807 - 1)",
                                            "1 + 'a'",
                                            "'a' + 1",
                                            "'a' - 'b'",
                                            "[1] + (1,)",
                                            "{} + {}",
                                            "'a' * 1.5",
                                            "'a' * 'b'",
                                            "none + 1",
                                            "-'a'",
                                            "missing + 1",
                                            "1 < 'a'",
                                            "[1] < (1,)",
                                            "none < 1",
                                            "{} < {}",
                                            "1 in 5",
                                            "1 in 'a'",
                                            "'abc'[::0]",
                                            "'abc'['a':]",
                                            "[1][1.5:]"}) {
    EXPECT_TRUE(rendered(expression).starts_with("error: "))
        << expression << " gives " << rendered(expression);
  }
}

// Slices of every start, stop and step against the rule itself: clip, then walk.
TEST(JinjaOperators, EverySliceOfAShortTextTakesTheRightCharacters) {
  const std::string text = "abcd";
  const int size = 4;
  for (int start = -6; start <= 6; ++start) {
    for (int stop = -6; stop <= 6; ++stop) {
      for (const int step : {-5, -3, -2, -1, 1, 2, 3, 5}) {
        std::string expected;
        const auto place = [&](int at) { return at < 0 ? at + size : at; };
        for (int at = 0; at < size; ++at) {  // is `at` reached from the clipped start?
          const int first = step > 0 ? std::max(place(start), 0) : std::min(place(start), size - 1);
          const bool inside = step > 0 ? at >= first && at < place(stop)
                                       : at <= first && at > std::max(place(stop), -1);
          if (!inside || (at - first) % step != 0) continue;
          expected.insert(step > 0 ? expected.end() : expected.begin(), text[at]);
        }
        const std::string slice = "[" + std::to_string(start) + ":" + std::to_string(stop) + ":" +
                                  std::to_string(step) + "]";
        EXPECT_EQ(rendered("'abcd'" + slice), expected) << slice;
        EXPECT_EQ(rendered("['a', 'b', 'c', 'd']" + slice + " | join"), expected) << slice;
      }
    }
  }
}

// (a // b) * b + a % b == a, and the remainder lies between zero and the divisor.
TEST(JinjaOperators, QuotientAndRemainderBelongTogether) {
  for (int a = -9; a <= 9; ++a) {
    for (int b = -4; b <= 4; ++b) {
      if (b == 0) continue;
      const std::string x = "(" + std::to_string(a) + ")";
      const std::string y = "(" + std::to_string(b) + ")";
      EXPECT_EQ(rendered(x + " // " + y + " * " + y + " + " + x + " % " + y), std::to_string(a));
      const int rest = std::stoi(rendered(x + " % " + y));
      EXPECT_TRUE(b > 0 ? rest >= 0 && rest < b : rest <= 0 && rest > b) << a << " % " << b;
    }
  }
}

}  // namespace
}  // namespace hearth::model
