#include "model/chat/kept_grammars.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth::model {
namespace {

AnswerConstraint of_schema(std::string schema) {
  return {.content = GrammarSource{GrammarSource::Kind::kJsonSchema, std::move(schema)}};
}

// Everything that an answer's grammar depends on, each value different from `plain`.
std::vector<AnswerConstraint> variants(const AnswerConstraint& plain) {
  std::vector<AnswerConstraint> out(9, plain);
  out[0].content->text = R"({"type": "boolean"})";
  out[1].content->kind = GrammarSource::Kind::kRegex;
  out[2].tools.front().name = "other";
  out[3].tools.front().parameters = R"({"type": "object", "properties": {"b": {}}})";
  out[4].tools.pop_back();
  out[5].calls_required = true;
  out[6].parallel_calls = false;
  out[7].prompt_tail = "<think>";
  out[8].tools.front().strict = true;
  return out;
}

TEST(KeptGrammars, GivesTheSameGrammarAgain) {
  KeptGrammars kept;
  const ChatSyntax syntax;
  const auto first = kept.get("key", syntax, of_schema(R"({"type": "integer"})"));
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto again = kept.get("key", syntax, of_schema(R"({"type": "integer"})"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(first->get(), again->get());
}

TEST(KeptGrammars, AnotherOwnerDoesNotFindIt) {
  KeptGrammars kept;
  const ChatSyntax syntax;
  const auto mine = kept.get("mine", syntax, of_schema(R"({"type": "integer"})"));
  const auto theirs = kept.get("theirs", syntax, of_schema(R"({"type": "integer"})"));
  ASSERT_TRUE(mine.ok() && theirs.ok());
  EXPECT_NE(mine->get(), theirs->get());
  EXPECT_EQ((*mine)->hash(), (*theirs)->hash());
}

TEST(KeptGrammars, EveryPartOfTheConstraintCounts) {
  KeptGrammars kept;
  ChatSyntax syntax;
  syntax.form = CallForm::kNamed;
  syntax.call_begin = "<call>";
  syntax.call_end = "</call>";
  AnswerConstraint plain = of_schema(R"({"type": "integer"})");
  for (const char* name : {"one", "two"}) {
    ChatTool tool;
    tool.name = name;
    tool.parameters = "{}";
    plain.tools.push_back(tool);
  }
  const auto first = kept.get("key", syntax, plain);
  ASSERT_TRUE(first.ok()) << first.error().message;
  for (const AnswerConstraint& changed : variants(plain)) {
    const auto other = kept.get("key", syntax, changed);
    EXPECT_FALSE(other.ok() && other->get() == first->get());
    EXPECT_EQ(kept.get("key", syntax, plain)->get(), first->get());
  }
}

TEST(KeptGrammars, ForgetsTheOneThatWasNotUsedLongest) {
  KeptGrammars kept;
  const ChatSyntax syntax;
  const auto number = [](std::size_t i) {
    return of_schema("{\"const\": " + std::to_string(i) + "}");
  };
  const auto first = kept.get("key", syntax, number(0));
  const auto second = kept.get("key", syntax, number(1));
  ASSERT_TRUE(first.ok() && second.ok());
  for (std::size_t i = 2; i <= limits::kKeptGrammars; ++i) {
    ASSERT_TRUE(kept.get("key", syntax, number(i)).ok());
    ASSERT_EQ(kept.get("key", syntax, number(0))->get(), first->get());
  }
  EXPECT_NE(kept.get("key", syntax, number(1))->get(), second->get());
}

TEST(KeptGrammars, AnErrorIsNotKept) {
  KeptGrammars kept;
  const ChatSyntax syntax;
  for (int i = 0; i < 2; ++i) {
    const auto wrong = kept.get("key", syntax, of_schema("{"));
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidInput);
  }
}

}  // namespace
}  // namespace hearth::model
