#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/model/rendered.h"

namespace hearth::model {
namespace {

// Results are those of Jinja 3.1 itself.
constexpr JinjaRow kFilters[] = {
    {"'42' | int", "42"},
    {"' 42 ' | int", "42"},
    {"'4.7' | int", "4"},
    {"'x' | int", "0"},
    {"'x' | int(7)", "7"},
    {"4.9 | int", "4"},
    {"-4.9 | int", "-4"},
    {"true | int", "1"},
    {"'1e3' | int", "1000"},
    {"'+5' | int", "5"},
    {"'-5' | int", "-5"},
    {"'' | int", "0"},
    {"'2.5' | float", "2.5"},
    {"'+2.5' | float", "2.5"},
    {"'+1e-5' | float", "1e-05"},
    {"'-1e+5' | float", "-100000.0"},
    {"'.5' | float", "0.5"},
    {"'x' | float", "0.0"},
    {"'x' | float(1.5)", "1.5"},
    {"3 | float", "3.0"},
    {"'--1' | float", "0.0"},
    {"'+-1' | int", "0"},
    {"'+-1' | float", "0.0"},
    {"2.5 | round", "2.0"},
    {"3.5 | round", "4.0"},
    {"-2.5 | round", "-2.0"},
    {"2.675 | round(2)", "2.67"},
    {"2.1 | round(0, 'ceil')", "3.0"},
    {"-2.1 | round(0, 'floor')", "-3.0"},
    {"2.123 | round(2, 'ceil')", "2.13"},
    {"-5 | abs", "5"},
    {"-5.5 | abs", "5.5"},
    {"'a b' | title", "A B"},
    {"'they\\'re (here) foo-bar' | title", "They're (Here) Foo-Bar"},
    {"'aBC' | capitalize", "Abc"},
    {"'aBc' | upper", "ABC"},
    {"'ABC' | lower", "abc"},
    {"'  x ' | trim", "x"},
    {"'xax' | trim('x')", "a"},
    {"'aaa' | replace('a', 'b', 2)", "bba"},
    {"5 | string ~ 1", "51"},
    {"'<a href=\"x\">&\\'' | e", "&lt;a href=&#34;x&#34;&gt;&amp;&#39;"},
    {"'a\\nb\\n\\nc' | indent(2)", "a\n  b\n\n  c"},
    {"'a\\nb\\n\\nc' | indent(2, true)", "  a\n  b\n\n  c"},
    {"'a\\nb\\n\\nc' | indent(2, true, true)", "  a\n  b\n  \n  c"},
    {"'a\\nb' | indent('> ')", "a\n> b"},
    {"'a\\n' | indent", "a\n"},
    {"'' | indent(3, true)", "   "},
    {"'a' | length", "1"},
    {"'h\\u00e9' | length", "2"},
    {"[1, [2, 3]] | length", "2"},
    {"{'a': 1} | length", "1"},
    {"'abc' | first", "a"},
    {"'abc' | last", "c"},
    {"[] | first", ""},
    {"'cba' | sort", "['a', 'b', 'c']"},
    {"[3, 1, 2] | sort", "[1, 2, 3]"},
    {"[3, 1, 2] | sort(reverse=true)", "[3, 2, 1]"},
    {"['b', 'A', 'c'] | sort", "['A', 'b', 'c']"},
    {"[1, 2, 3] | sum", "6"},
    {"[1, 2, 3] | max", "3"},
    {"[1, 2, 3] | min", "1"},
    {"'abc' | reverse", "cba"},
    {"[1, 2] | reverse | list", "[2, 1]"},
    {"[1, 2, 1] | unique | list", "[1, 2]"},
    {"[1, 2, 3] | join", "123"},
    {"[1, 2, 3] | join(', ')", "1, 2, 3"},
    {"'abc' | join('-')", "a-b-c"},
    {"missing | default('d')", "d"},
    {"'' | default('d')", ""},
    {"'' | default('d', true)", "d"},
    {"none | default('d')", "None"},
    {"0 | default(1, true)", "1"},
    {"[{'a': 1}, {'a': 2}] | map(attribute='a') | list", "[1, 2]"},
    {"['a', 'b'] | map('upper') | list", "['A', 'B']"},
    {"[1, 2, 3, 4] | select('even') | list", "[2, 4]"},
    {"[1, 2, 3] | reject('odd') | list", "[2]"},
    {"[{'a': 1}, {'a': 0}] | selectattr('a') | list", "[{'a': 1}]"},
    {"{'b': 1, 'a': 2} | dictsort", "[('a', 2), ('b', 1)]"},
    {"'abc' | list", "['a', 'b', 'c']"},
    {"[1, 2, 3] | batch(2) | list", "[[1, 2], [3]]"},
    {"[1, 2, 3] | batch(2, 'x') | list", "[[1, 2], [3, 'x']]"},
    {"[1, 2, 3, 4, 5] | slice(3) | list", "[[1, 2], [3, 4], [5]]"},
    {"[1, 2, 3, 4, 5] | slice(3, 'x') | list", "[[1, 2], [3, 4], [5, 'x']]"},
    {"'foo bar baz qux' | truncate(9)", "foo..."},
    {"'foo bar baz qux' | truncate(9, true)", "foo ba..."},
    {"'foo bar baz qux' | truncate(11)", "foo bar baz qux"},
    {"'ab c/\u00f1?&' | urlencode", "ab%20c/%C3%B1%3F%26"},
    {"{'a b': 'c/d', 'e': 1} | urlencode", "a+b=c%2Fd&e=1"},
    {"'%s, %d%% %r' | format('a', 1, 'b')", "a, 1% 'b'"},
    {"'%(x)s' | format(x=2)", "2"},
    // A capital sigma at the end of a word is written another way.
    {"'\u0391\u03a3 \u03a3\u0391' | lower", "\u03b1\u03c2 \u03c3\u03b1"},
    {"'\u0391\u03a3'.title()", "\u0391\u03c2"},
    {"'\u0391\u03a3' | title", "\u0391\u03c3"},
    {"'\u0391\u03a3' | capitalize", "\u0391\u03c2"},
    {"\"\u0391\u03a3'\u03a3\" | lower", "\u03b1\u03c3'\u03c2"},
};

TEST(JinjaFilters, DoAsInJinja) { expect_rows(kFilters); }

TEST(JinjaFilters, RefuseWhatTheyCannotDo) {
  for (const std::string_view expression : {"missing | int",       "missing | float",
                                            "'a' | abs",           "none | abs",
                                            "'a' | round",         "1.5 | round(1, 'up')",
                                            "1.5 | round(16)",     "'a' | replace('a')",
                                            "'a' | trim(1)",       "'a' | indent(2000)",
                                            "5 | length",          "5 | first",
                                            "[1, 'a'] | sort",     "'a' | upper(1)",
                                            "[1] | batch(0)",      "[1] | batch(100001, 'x')",
                                            "[1] | slice(0)",      "[1] | slice(100001)",
                                            "'abc' | truncate(2)", "[1] | urlencode",
                                            "'%s' | format",       "'%s' | format(1, 2)",
                                            "'%d' | format('x')",  "'%(x)s' | format(y=1)",
                                            "'%' | format(1)"}) {
    EXPECT_TRUE(rendered(expression).starts_with("error: "))
        << expression << " gives " << rendered(expression);
  }
}

}  // namespace
}  // namespace hearth::model
