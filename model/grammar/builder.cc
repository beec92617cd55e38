#include <optional>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "model/grammar/encoding.h"
#include "model/grammar/expression.h"
#include "model/grammar/gbnf.h"
#include "model/grammar/grammar.h"
#include "model/grammar/json_text.h"
#include "model/grammar/regex.h"
#include "model/grammar/schema.h"

namespace hearth::model {
namespace {

Result<std::u32string> checked_points(std::string_view text) {
  std::u32string points;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    REQUIRE(c.valid, "a literal has bytes that are not UTF-8, from byte ", at, " on");
    points.push_back(c.point);
    at += c.bytes;
  }
  return points;
}

Result<ExpressionId> choice_expression(std::string_view text, Expressions& out) {
  auto list = parse_json(text);
  if (!list.ok()) return Error::of(list.error().code, "choice: ", list.error().message);
  REQUIRE(list->is(Json::Kind::kArray) && !list->items.empty(),
          "choice: must be a list of strings that is not empty");
  std::vector<ExpressionId> parts;
  for (const Json& item : list->items) {
    REQUIRE(item.is(Json::Kind::kString), "choice: must be a list of strings");
    TRY(const std::u32string points, checked_points(item.text));
    parts.push_back(out.literal(points));
  }
  return out.alternatives(std::move(parts));
}

Result<ExpressionId> source_expression(const GrammarSource& source, Expressions& out,
                                       Budget& budget) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonSchema: return schema_expression(source.text, out, budget);
    case GrammarSource::Kind::kJsonObject: return any_object_expression(out, budget);
    case GrammarSource::Kind::kGbnf: return parse_gbnf(source.text, out);
    case GrammarSource::Kind::kChoice: return choice_expression(source.text, out);
    case GrammarSource::Kind::kRegex: {
      TRY(Dfa dfa, regex_automaton(source.text, RegexMatch::kWhole, budget));
      REQUIRE(!dfa.empty(), "regular expression: no text matches it");
      return out.words(std::move(dfa));
    }
  }
  INVARIANT(false, "every kind of source is read");
}

}  // namespace

struct GrammarBuilder::Parts {
  Expressions expressions;
  Budget budget;
  std::optional<Error> error;

  // For a failure, returns a placeholder that is never built.
  Part keep(Result<ExpressionId> made, std::string_view name = {}) {
    if (made.ok()) return *made;
    if (!error) {
      error = made.error();
      if (!name.empty()) error->message = std::string(name) + ": " + error->message;
    }
    return expressions.nothing();
  }
  Result<Dfa> holds(std::string_view text) {
    TRY(const std::u32string points, checked_points(text));
    REQUIRE(!points.empty(), "a text that ends a part must not be empty");
    const ExpressionId any =
        expressions.repeat(expressions.set(all_code_points()), 0, Grammar::kNoLimit);
    return expressions.automaton_of(expressions.sequence({any, expressions.literal(points), any}),
                                    budget);
  }
  Result<ExpressionId> until(std::string_view end) {
    TRY(const std::u32string points, checked_points(end));
    TRY(const Dfa held, holds(end));
    // Words that end with it and do not contain it earlier.
    const ExpressionId any =
        expressions.repeat(expressions.set(all_code_points()), 0, Grammar::kNoLimit);
    const ExpressionId more = expressions.set(all_code_points());
    TRY(const Dfa ends,
        expressions.automaton_of(expressions.sequence({any, expressions.literal(points)}), budget));
    TRY(const Dfa longer,
        expressions.automaton_of(expressions.sequence({expressions.words(held), more}), budget));
    TRY(Dfa first, combine(ends, longer, SetOperation::kOnlyFirst, budget));
    return expressions.words(std::move(first));
  }
  Result<ExpressionId> without(const std::vector<std::string>& literals) {
    Dfa left = all_words();
    for (const std::string& literal : literals) {
      TRY(const Dfa held, holds(literal));
      TRY(left, combine(left, held, SetOperation::kOnlyFirst, budget));
    }
    return expressions.words(std::move(left));
  }
};

GrammarBuilder::GrammarBuilder() : parts_(std::make_unique<Parts>()) {}
GrammarBuilder::~GrammarBuilder() = default;

GrammarBuilder::Part GrammarBuilder::literal(std::string_view text) {
  const auto points = checked_points(text);
  if (!points.ok()) return parts_->keep(points.error());
  return parts_->expressions.literal(*points);
}

GrammarBuilder::Part GrammarBuilder::control(TokenId token) {
  return parts_->expressions.bytes(control_token_bytes(token));
}

GrammarBuilder::Part GrammarBuilder::source(const GrammarSource& source, std::string_view name) {
  if (parts_->error) return parts_->expressions.nothing();
  return parts_->keep(source_expression(source, parts_->expressions, parts_->budget), name);
}

GrammarBuilder::Part GrammarBuilder::sequence(const std::vector<Part>& parts) {
  return parts_->expressions.sequence(parts);
}

GrammarBuilder::Part GrammarBuilder::alternatives(const std::vector<Part>& parts) {
  if (parts.empty()) return parts_->keep(Error::invalid("alternatives: there are none"));
  return parts_->expressions.alternatives(parts);
}

GrammarBuilder::Part GrammarBuilder::repeat(Part part, std::uint32_t min, std::uint32_t max) {
  const bool fits = min <= limits::kGrammarRepeat && min <= max &&
                    (max == Grammar::kNoLimit || max <= limits::kGrammarRepeat);
  if (!fits) return parts_->keep(Error::invalid("repeat: from ", min, " to ", max, " times"));
  return parts_->expressions.repeat(part, min, max);
}

GrammarBuilder::Part GrammarBuilder::until(std::string_view end) {
  return parts_->keep(parts_->until(end));
}

GrammarBuilder::Part GrammarBuilder::text_without(const std::vector<std::string>& literals) {
  return parts_->keep(parts_->without(literals));
}

Result<std::shared_ptr<const Grammar>> GrammarBuilder::build(Part root) {
  if (parts_->error) return *parts_->error;
  const Expressions::Rule rule = parts_->expressions.add_rule();
  parts_->expressions.define(rule, root);
  return parts_->expressions.assemble(rule, parts_->budget);
}

Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSource& source) {
  GrammarBuilder builder;
  const GrammarBuilder::Part root = builder.source(source);
  return builder.build(root);
}

}  // namespace hearth::model
