#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/model/rendered.h"

namespace hearth::model {
namespace {

// Results are those of Jinja 3.1 itself.
constexpr JinjaRow kTextMethods[] = {
    {"' a b '.split()", "['a', 'b']"},
    {"' a b '.split(' ')", "['', 'a', 'b', '']"},
    {"'a,b,,c'.split(',')", "['a', 'b', '', 'c']"},
    {"''.split()", "[]"},
    {"''.split(',')", "['']"},
    {"'a b c d'.split(none, 2)", "['a', 'b', 'c d']"},
    {"'  a  b '.split(none, 0)", "['a  b ']"},
    {"'a,b,c'.split(',', 1)", "['a', 'b,c']"},
    {"'a,b'.split(',', 0)", "['a,b']"},
    {"'a--b'.split('--')", "['a', 'b']"},
    {"'aaa'.split('aa')", "['', 'a']"},
    {"'\\u2003a\\u00a0b'.split()", "['a', 'b']"},
    {"'a\\nb\\r\\nc\\rd'.splitlines()", "['a', 'b', 'c', 'd']"},
    {"'a\\n\\nb\\n'.splitlines()", "['a', '', 'b']"},
    {"''.splitlines()", "[]"},
    {"'\\n'.splitlines()", "['']"},
    {"'a\\u2028b\\x0bc'.splitlines()", "['a', 'b', 'c']"},
    {"'  x '.strip()", "x"},
    {"'xxaxx'.strip('x')", "a"},
    {"'abcba'.strip('ab')", "c"},
    {"'abc'.lstrip('ba')", "c"},
    {"'abc'.rstrip('bc')", "a"},
    {"'aaa'.strip('a')", ""},
    {"' a '.lstrip()", "a "},
    {"' a '.rstrip()", " a"},
    {"'hello'.startswith('he')", "True"},
    {"'hello'.startswith('')", "True"},
    {"''.startswith('a')", "False"},
    {"'hello'.startswith(('x', 'he'))", "True"},
    {"'hello'.endswith('lo')", "True"},
    {"'hello'.endswith(('lo', 'x'))", "True"},
    {"'hello'.endswith('hello world')", "False"},
    {"'abc'.removeprefix('ab')", "c"},
    {"'abc'.removeprefix('bc')", "abc"},
    {"'abc'.removesuffix('bc')", "a"},
    {"'abc'.removesuffix('')", "abc"},
    {"'banana'.replace('a', 'o')", "bonono"},
    {"'banana'.replace('a', 'o', 2)", "bonona"},
    {"'banana'.replace('a', 'o', 0)", "banana"},
    {"'abc'.replace('', '-')", "-a-b-c-"},
    {"'abc'.replace('', '-', 2)", "-a-bc"},
    {"''.replace('', 'x')", "x"},
    {"'aaa'.replace('aa', 'b')", "ba"},
    {"'abc'.replace('abc', '')", ""},
    {"'h\\u00e9'.replace('', '.')", ".h.\303\251."},
    {"'banana'.find('an')", "1"},
    {"'banana'.find('x')", "-1"},
    {"'\\u4e16\\u754ca'.find('a')", "2"},
    {"''.find('')", "0"},
    {"'banana'.count('an')", "2"},
    {"'aaaa'.count('aa')", "2"},
    {"'abc'.count('')", "4"},
    {"'h\\u00e9'.count('')", "3"},
    {"'-'.join(['a', 'b'])", "a-b"},
    {"''.join([])", ""},
    {"'-'.join('abc')", "a-b-c"},
    {"', '.join(('x',))", "x"},
    {"'123'.isdigit()", "True"},
    {"''.isdigit()", "False"},
    {"'1a'.isdigit()", "False"},
    {"'they\\'re bill\\'s'.title()", "They'Re Bill'S"},
    {"'hELLO wORLD'.title()", "Hello World"},
    {"'a1b c-d'.title()", "A1B C-D"},
    {"'hELLO'.capitalize()", "Hello"},
    {"''.capitalize()", ""},
    {"'stra\\u00dfe'.upper()", "STRASSE"},
    {"'\\u00c9COLE'.lower()", "\303\251cole"},
    {"'1ab'.capitalize()", "1ab"},
    {"'{} {}'.format(1, 'b')", "1 b"},
    {"'{1} {0}'.format('a', 'b')", "b a"},
    {"'{x}-{x}'.format(x=2)", "2-2"},
    {"'{{}}'.format()", "{}"},
    {"'{{{}}}'.format(1)", "{1}"},
};

TEST(JinjaMethods, OfTextsDoAsInPython) { expect_rows(kTextMethods); }

constexpr JinjaRow kOtherMethods[] = {
    {"{'a': 1}.get('a')", "1"},
    {"{'a': 1}.get('b')", "None"},
    {"{'a': 1}.get('b', 2)", "2"},
    {"{'a': 1, 'b': 2}.items() | list", "[('a', 1), ('b', 2)]"},
    {"{'a': 1, 'b': 2}.keys() | list", "['a', 'b']"},
    {"{'a': 1, 'b': 2}.values() | list", "[1, 2]"},
    {"{'a': 1, 'a': 2}", "{'a': 2}"},
    {"[1, 2, 1].count(1)", "2"},
    {"[1, 2, 1].index(2)", "1"},
    {"[1, 1.0, true].count(1)", "3"},
    {"[none, 'x', 1.5, true]", "[None, 'x', 1.5, True]"},
    {"{'a': [1, {'b': none}]}", "{'a': [1, {'b': None}]}"},
    {"(1,)", "(1,)"},
    {"()", "()"},
    {"[]", "[]"},
    {"{}", "{}"},
    {"['it\\'s']", "[\"it's\"]"},
    {"['\"']", "['\"']"},
    {"['\\'\"']", "['\\'\"']"},
    {"['\\n\\t\\\\']", "['\\n\\t\\\\']"},
    {"['\\x7f\\u00e9']", "['\\x7f\303\251']"},
};

TEST(JinjaMethods, OfListsAndDictsAndTheirReprDoAsInPython) { expect_rows(kOtherMethods); }

TEST(JinjaMethods, RefuseWhatTheyCannotDo) {
  for (const std::string_view expression : {"'a'.split('')",
                                            "'a'.split(1)",
                                            "'a'.startswith(1)",
                                            "'a'.startswith(['a'])",
                                            "'a'.removeprefix(('a',))",
                                            "'a'.replace('a')",
                                            "','.join([1])",
                                            "','.join(5)",
                                            "'{}'.format()",
                                            "'{1}'.format(0)",
                                            "'{x}'.format(1)",
                                            "'{'.format(1)",
                                            "'}'.format(1)",
                                            "'{:>5}'.format(1)",
                                            "'{0.x}'.format(1)",
                                            "[1].index(2)",
                                            "{}.get()",
                                            "'a'.find()",
                                            "'a'.nosuch()",
                                            "[].append(1)",
                                            "{}.pop('a')",
                                            "5.upper()",
                                            "'a'.strip(1)",
                                            "{[1]: 2}",
                                            "{missing: 2}",
                                            "'a'.upper(1)",
                                            "'{99999}'.format(1)"}) {
    EXPECT_TRUE(rendered(expression).starts_with("error: "))
        << expression << " gives " << rendered(expression);
  }
}

// Everything that makes a text of the texts v and c.
constexpr std::string_view kOperations[] = {"v",
                                            "v.strip()",
                                            "v.strip('t')",
                                            "v.lstrip('tu')",
                                            "v.rstrip('u')",
                                            "v.upper()",
                                            "v.lower()",
                                            "v.title()",
                                            "v.capitalize()",
                                            "v.replace('u', 'tt')",
                                            "v.replace('t', c)",
                                            "v.replace('', '-')",
                                            "v.replace('tu', 'ut', 1)",
                                            "v.removeprefix('t')",
                                            "v.removesuffix('t')",
                                            "v.split('t') | join('T')",
                                            "v.split() | join",
                                            "v.splitlines() | join",
                                            "v.join(['t', 't'])",
                                            "'t'.join([v, c])",
                                            "'{}t{}'.format(v, c)",
                                            "(v ~ '{}').format(c)",
                                            "v[1:]",
                                            "v[::-1]",
                                            "v[::2]",
                                            "v[0]",
                                            "v * 3",
                                            "v + c + v",
                                            "v ~ c",
                                            "v | trim",
                                            "v | upper",
                                            "v | lower",
                                            "v | title",
                                            "v | capitalize",
                                            "v | replace('u', 't')",
                                            "v | e",
                                            "v | indent(3, true, true)",
                                            "v | indent(c)",
                                            "v | string",
                                            "v | list | join('t')",
                                            "v | reverse",
                                            "v | first",
                                            "v | last",
                                            "[v, c] | join(c)",
                                            "[v]",
                                            "{v: c}",
                                            "(v, (c,))",
                                            "v | tojson",
                                            "{'t': v} | tojson(indent=2)",
                                            "[v, v] | unique | join",
                                            "[v, c] | sort | join",
                                            "v if v else c",
                                            "[c, v] | map('upper') | join",
                                            "[{'k': v}] | map(attribute='k') | join",
                                            "{'t': v}.t",
                                            "{'t': v}.items() | list",
                                            "dict(t=v).get('t')",
                                            "namespace(t=v).t",
                                            "v | default('t')",
                                            "missing | default(v)",
                                            "[v, c] | max",
                                            "v.split('u', 1) | last"};

// Every method and filter that makes a text of a text, over contents in which each user character
// is alone between characters of the template: not one of the user's letters may lose its mark,
// and not one of the template's may gain it.
TEST(JinjaMethods, NoLetterOfTheUserLosesItsMarkAndNoneOfTheTemplateGainsOne) {
  // U and u are the user's; everything else that is a letter is the template's.
  for (const std::string content : {"u", "uu", "U u", "u\nu", "u\"u'", "<u>", " u "}) {
    ChatTemplateInput input;
    input.messages = {{"user", content}};
    for (const std::string_view operation : kOperations) {
      if (operation == "v | e" && content == "<u>") continue;  // "&lt;" has a t of its own
      const auto parsed = ChatTemplate::parse(
          "{% set c = messages[0].content %}{% set v = 't' ~ c ~ ' t ' ~ c ~ 't' "
          "%}{{ " +
          std::string(operation) + " }}");
      ASSERT_TRUE(parsed.ok()) << operation << ": " << parsed.error().message;
      const auto pieces = parsed.value()->render(input);
      ASSERT_TRUE(pieces.ok()) << operation << ": " << pieces.error().message;
      const bool writes_u = operation.find("'ut'") != std::string_view::npos;
      std::size_t seen = 0;
      for (const PromptPiece& piece : *pieces) {
        EXPECT_FALSE(piece.text.empty()) << operation;
        const std::string_view theirs = piece.from_user ? "tT" : "uU";
        seen += piece.text.find_first_of("uUtT") != std::string::npos ? 1 : 0;
        if (!writes_u) {
          EXPECT_EQ(piece.text.find_first_of(theirs), std::string::npos)
              << operation << " of " << content << ": " << piece.text;
        }
        if (!writes_u && !piece.from_user) {  // nor what only the user wrote
          EXPECT_EQ(content.find('<') != content.npos && piece.text.find('<') != std::string::npos,
                    false)
              << operation << ": " << piece.text;
        }
      }
      EXPECT_GT(seen, 0U) << operation;
    }
  }
}

}  // namespace
}  // namespace hearth::model
