#include "model/grammar/schema.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "model/grammar/encoding.h"
#include "model/grammar/numbers.h"
#include "model/grammar/schema_reader.h"

namespace hearth::model {
namespace {

using Graph = Expressions::Graph;

constexpr std::size_t kPatterns = 4;  // of names in one object: each splits the rest in two
constexpr std::size_t kPlaces = 16'384;

class SchemaEmitter {
 public:
  SchemaEmitter(SchemaReader& reader, Expressions& out, Budget& budget)
      : reader_(reader), out_(out), budget_(budget) {
    space_ = out_.optional(out_.literal(" "));
    comma_ = out_.sequence({out_.literal(","), space_});
  }

  Result<ExpressionId> emit(const SchemaKey& root) {
    const ExpressionId call = call_of(root);
    while (!open_.empty()) {
      const SchemaKey key = open_.back();
      open_.pop_back();
      REQUIRE_SUPPORTED(rules_.size() <= limits::kGrammarRules, "JSON schema: more than ",
                        limits::kGrammarRules, " different schemas");
      TRY(const SchemaValue* value, reader_.value_of(key));
      TRY(const ExpressionId body, value_expression(*value));
      out_.define(rules_.at(key), body);
    }
    return call;
  }

 private:
  ExpressionId call_of(const SchemaKey& key) {
    const auto [found, added] = rules_.try_emplace(key);
    if (added) {
      found->second = out_.add_rule();
      open_.push_back(key);
    }
    return out_.call(found->second);
  }
  ExpressionId separated(bool first, ExpressionId part) {
    return first ? part : out_.sequence({comma_, part});
  }
  ExpressionId member(ExpressionId name, const SchemaKey& key) {
    return out_.sequence({out_.literal("\""), name, out_.literal("\":"), space_, call_of(key)});
  }
  ExpressionId character();
  ExpressionId any_string();
  ExpressionId any_number();
  Result<ExpressionId> value_expression(const SchemaValue& value);
  Result<ExpressionId> string_expression(const StringShape& shape);
  Result<ExpressionId> array_expression(const ArrayShape& shape);
  Result<ExpressionId> counted_array(const ArrayShape& shape);
  Result<ExpressionId> object_expression(const ObjectShape& shape);
  Result<std::optional<Dfa>> allowed_names(const ObjectShape& shape);
  Result<std::vector<ExpressionId>> other_members(const ObjectShape& shape,
                                                  const std::vector<std::string>& declared,
                                                  const std::optional<Dfa>& allowed);

  SchemaReader& reader_;
  Expressions& out_;
  Budget& budget_;
  ExpressionId space_ = 0;
  ExpressionId comma_ = 0;
  std::map<SchemaKey, Expressions::Rule> rules_;
  std::vector<SchemaKey> open_;
  std::optional<Expressions::Rule> character_;
  std::optional<Expressions::Rule> string_;
  std::optional<Expressions::Rule> number_;
};

// One code point of a string: as itself, by a short escape, or by \u, of surrogates both halves.
ExpressionId SchemaEmitter::character() {
  if (!character_) {
    character_ = out_.add_rule();
    const SymbolSet hex{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    const ExpressionId digit = out_.set(hex);
    const auto first = [&](SymbolSet set) { return out_.set(std::move(set)); };
    const ExpressionId plain = out_.alternatives(
        {out_.sequence({first({{'0', '9'}, {'A', 'C'}, {'a', 'c'}, {'E', 'F'}, {'e', 'f'}}), digit,
                        digit, digit}),
         out_.sequence({first({{'D', 'D'}, {'d', 'd'}}), first({{'0', '7'}}), digit, digit})});
    const ExpressionId pair =
        out_.sequence({first({{'D', 'D'}, {'d', 'd'}}), first({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}),
                       digit, digit, out_.literal("\\u"), first({{'D', 'D'}, {'d', 'd'}}),
                       first({{'C', 'F'}, {'c', 'f'}}), digit, digit});
    const ExpressionId escape = out_.sequence(
        {out_.literal("\\"),
         out_.alternatives(
             {out_.set({{'"', '"'},
                        {'\\', '\\'},
                        {'/', '/'},
                        {'b', 'b'},
                        {'f', 'f'},
                        {'n', 'n'},
                        {'r', 'r'},
                        {'t', 't'}}),
              out_.sequence({out_.literal("u"), out_.alternatives({plain, pair})})})});
    const ExpressionId raw = out_.set(inverted({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
    out_.define(*character_, out_.alternatives({raw, escape}));
  }
  return out_.call(*character_);
}

ExpressionId SchemaEmitter::any_string() {
  if (!string_) {
    string_ = out_.add_rule();
    const ExpressionId quote = out_.literal("\"");
    out_.define(*string_,
                out_.sequence({quote, out_.repeat(character(), 0, Grammar::kNoLimit), quote}));
  }
  return out_.call(*string_);
}

ExpressionId SchemaEmitter::any_number() {
  if (!number_) {
    number_ = out_.add_rule();
    const ExpressionId digit = out_.set({{'0', '9'}});
    const ExpressionId digits = out_.repeat(digit, 1, Grammar::kNoLimit);
    const ExpressionId whole = out_.alternatives(
        {out_.literal("0"),
         out_.sequence({out_.set({{'1', '9'}}), out_.repeat(digit, 0, Grammar::kNoLimit)})});
    const ExpressionId sign = out_.optional(out_.set({{'+', '+'}, {'-', '-'}}));
    out_.define(
        *number_,
        out_.sequence(
            {out_.optional(out_.literal("-")), whole,
             out_.optional(out_.sequence({out_.literal("."), digits})),
             out_.optional(out_.sequence({out_.set({{'E', 'E'}, {'e', 'e'}}), sign, digits}))}));
  }
  return out_.call(*number_);
}

Result<ExpressionId> SchemaEmitter::value_expression(const SchemaValue& value) {
  std::vector<ExpressionId> parts;
  if (value.null) parts.push_back(out_.literal("null"));
  if (value.no) parts.push_back(out_.literal("false"));
  if (value.yes) parts.push_back(out_.literal("true"));
  if (value.any_number) {
    parts.push_back(any_number());
  } else if (!value.numbers.empty()) {
    TRY(Dfa texts, with_zeros(value.numbers, budget_));
    parts.push_back(out_.words(std::move(texts)));
  }
  for (const StringShape& shape : value.strings) {
    TRY(const ExpressionId id, string_expression(shape));
    parts.push_back(id);
  }
  for (const ArrayShape& shape : value.arrays) {
    TRY(const ExpressionId id, array_expression(shape));
    parts.push_back(id);
  }
  for (const ObjectShape& shape : value.objects) {
    TRY(const ExpressionId id, object_expression(shape));
    parts.push_back(id);
  }
  return out_.alternatives(std::move(parts));
}

Result<ExpressionId> SchemaEmitter::string_expression(const StringShape& shape) {
  const ExpressionId quote = out_.literal("\"");
  if (!shape.any) return out_.sequence({quote, out_.json_words(shape.words), quote});
  if (shape.min == 0 && shape.max == kUnbounded) return any_string();
  const std::uint32_t most = std::min(shape.max, limits::kGrammarRepeat);
  REQUIRE_SUPPORTED(shape.min <= limits::kGrammarRepeat, "JSON schema: minLength of ", shape.min,
                    "; the limit is ", limits::kGrammarRepeat);
  const std::uint32_t max = shape.max == kUnbounded ? Grammar::kNoLimit : most;
  return out_.sequence({quote, out_.repeat(character(), shape.min, max), quote});
}

Result<ExpressionId> SchemaEmitter::array_expression(const ArrayShape& shape) {
  if (shape.unique != nullptr && shape.max > 1) {
    return reader_.error_at(
        shape.unique, "uniqueItems",
        Error::of(ErrorCode::kUnsupported, "is supported only for arrays of at most one element"));
  }
  if (shape.contains) return counted_array(shape);
  const auto places = static_cast<std::uint32_t>(shape.prefix.size());
  Graph graph;
  graph.final.assign(places + 2, false);
  const auto end = places + 1;
  for (std::uint32_t i = 0; i < places && i < shape.max; ++i) {
    graph.edges.push_back({i, separated(i == 0, call_of(shape.prefix[i])), i + 1});
  }
  for (std::uint32_t i = 0; i <= std::min(places, shape.max); ++i) graph.final[i] = i >= shape.min;
  if (shape.max > places) {
    const std::uint32_t min = shape.min > places ? shape.min - places : 0;
    const std::uint32_t max = shape.max == kUnbounded
                                  ? Grammar::kNoLimit
                                  : std::min(shape.max - places, limits::kGrammarRepeat);
    REQUIRE_SUPPORTED(min <= limits::kGrammarRepeat, "JSON schema: minItems of ", shape.min,
                      "; the limit is ", limits::kGrammarRepeat);
    const ExpressionId rest = call_of(shape.rest);
    const ExpressionId more = out_.sequence({comma_, rest});
    if (places > 0) {
      graph.edges.push_back({places, out_.repeat(more, min, max), end});
    } else {
      const std::uint32_t others = max == Grammar::kNoLimit ? max : max - 1;
      graph.edges.push_back(
          {0, out_.sequence({rest, out_.repeat(more, min > 0 ? min - 1 : 0, others)}), end});
    }
    graph.final[end] = true;
  }
  return out_.sequence({out_.literal("["), out_.graph(std::move(graph)), out_.literal("]")});
}

// States count the elements and those that match `contains`, each only as far as it matters.
Result<ExpressionId> SchemaEmitter::counted_array(const ArrayShape& shape) {
  const bool bounded = shape.max != kUnbounded;
  const std::uint64_t elements =
      bounded ? shape.max : std::max<std::uint64_t>({shape.min, shape.prefix.size(), 1});
  const bool most = shape.contains_max != kUnbounded;
  const std::uint64_t matches = most ? shape.contains_max : shape.contains_min;
  REQUIRE_SUPPORTED((elements + 1) * (matches + 1) <= kPlaces && shape.contained.size() <= 1,
                    "JSON schema: contains with counts of more than ", kPlaces, " places");
  Graph graph;
  graph.final.assign(static_cast<std::size_t>((elements + 1) * (matches + 1)), false);
  const auto place = [&](std::uint64_t n, std::uint64_t c) {
    return static_cast<std::uint32_t>(std::min(n, elements) * (matches + 1) + std::min(c, matches));
  };
  SchemaKey other;
  if (!shape.contained.empty()) {
    other = shape.contained;
    other[0].negated = !other[0].negated;
  }
  for (std::uint64_t n = 0; n <= elements; ++n) {
    for (std::uint64_t c = 0; c <= matches; ++c) {
      const std::uint32_t from = place(n, c);
      graph.final[from] = n >= shape.min && c >= shape.contains_min;
      if (bounded && n == elements) continue;
      const SchemaKey& element = shape.at(n);
      const bool counts = !most || c < matches;
      if (counts) {
        graph.edges.push_back({from, separated(n == 0, call_of(joined(element, shape.contained))),
                               place(n + 1, c + 1)});
      }
      // Without a maximum, an element that is not counted may match as well.
      if (!most) {
        graph.edges.push_back({from, separated(n == 0, call_of(element)), place(n + 1, c)});
      } else if (!shape.contained.empty()) {
        graph.edges.push_back(
            {from, separated(n == 0, call_of(joined(element, other))), place(n + 1, c)});
      }
    }
  }
  return out_.sequence({out_.literal("["), out_.graph(std::move(graph)), out_.literal("]")});
}

// The names that propertyNames allows; nothing: any name.
Result<std::optional<Dfa>> SchemaEmitter::allowed_names(const ObjectShape& shape) {
  std::optional<Dfa> allowed;
  for (const SchemaKey& key : shape.names) {
    TRY(const SchemaValue* value, reader_.value_of(key));
    Dfa words;
    for (const StringShape& one : value->strings) {
      TRY(const Dfa more, words_of(one, budget_));
      TRY(words, combine(words, more, SetOperation::kEither, budget_));
    }
    if (allowed) {
      TRY(words, combine(*allowed, words, SetOperation::kBoth, budget_));
    }
    allowed = std::move(words);
  }
  return allowed;
}

// Members that no schema names: for each set of patterns that a name may match, its rules.
Result<std::vector<ExpressionId>> SchemaEmitter::other_members(
    const ObjectShape& shape, const std::vector<std::string>& declared,
    const std::optional<Dfa>& allowed) {
  struct Region {
    Dfa names;
    SchemaKey key;
  };
  Nfa taken;
  const std::uint32_t start = taken.add();
  for (const std::string& name : declared) {
    std::uint32_t at = start;
    for (const char32_t point : code_points_of(name)) {
      const std::uint32_t next = taken.add();
      taken.edge(at, {point, point}, next);
      at = next;
    }
    taken.set_final(at);
  }
  TRY(const Dfa names, taken.determinise(start, budget_));
  Region all;
  TRY(all.names,
      combine(allowed ? *allowed : all_words(), names, SetOperation::kOnlyFirst, budget_));
  std::vector<Region> regions{std::move(all)};
  std::size_t patterns = 0;
  for (const MemberRules& rules : shape.rules) patterns += rules.patterns.size();
  REQUIRE_SUPPORTED(patterns <= kPatterns, "JSON schema: patternProperties: more than ", kPatterns,
                    " patterns for one object");
  for (const MemberRules& rules : shape.rules) {
    std::vector<std::pair<Region, bool>> split;
    for (Region& region : regions) split.emplace_back(std::move(region), false);
    for (const auto& [pattern, key] : rules.patterns) {
      std::vector<std::pair<Region, bool>> next;
      for (const auto& [region, matched] : split) {
        TRY(Dfa in, combine(region.names, pattern, SetOperation::kBoth, budget_));
        TRY(Dfa without, combine(region.names, pattern, SetOperation::kOnlyFirst, budget_));
        if (!in.empty()) next.push_back({{std::move(in), joined(region.key, key)}, true});
        if (!without.empty()) next.push_back({{std::move(without), region.key}, matched});
      }
      split = std::move(next);
    }
    regions.clear();
    for (auto& [region, matched] : split) {
      if (!matched) region.key = joined(region.key, rules.others);
      regions.push_back(std::move(region));
    }
  }
  std::vector<ExpressionId> out;
  for (Region& region : regions) {
    if (region.names.empty() || forbids(region.key)) continue;
    out.push_back(member(out_.json_words(std::move(region.names)), region.key));
  }
  return out;
}

Result<ExpressionId> SchemaEmitter::object_expression(const ObjectShape& shape) {
  std::vector<std::string> declared;
  const auto declare = [&](const std::string& name) {
    if (std::ranges::find(declared, name) == declared.end()) declared.push_back(name);
  };
  for (const MemberRules& rules : shape.rules) {
    TRY_VOID(budget_.spend(rules.names.size() * (1 + declared.size() / 8)));
    for (const auto& [name, key] : rules.names) declare(name);
  }
  for (const std::string& name : shape.required) declare(name);
  TRY(const std::optional<Dfa> allowed, allowed_names(shape));
  TRY(const std::vector<ExpressionId> others, other_members(shape, declared, allowed));

  const auto needed = static_cast<std::uint32_t>(shape.required.size());
  const bool bounded = shape.max != kUnbounded;
  if (!others.empty() && shape.min > needed + 1) {
    return reader_.error_at(shape.from, "minProperties",
                            Error::of(ErrorCode::kUnsupported,
                                      "is supported only if it needs at most one member whose "
                                      "name the schema does not give"));
  }
  // States count the declared members so far and, as far as it matters, the written members.
  const std::uint64_t count = declared.size();
  const std::uint64_t most =
      bounded ? std::min<std::uint64_t>(shape.max, others.empty() ? count : shape.max)
              : std::max<std::uint64_t>(shape.min, 1);
  REQUIRE_SUPPORTED((count + 1) * (most + 1) <= kPlaces, "JSON schema: an object of more than ",
                    kPlaces, " places");
  Graph graph;
  graph.final.assign(static_cast<std::size_t>((count + 1) * (most + 1)), false);
  const auto place = [&](std::uint64_t i, std::uint64_t written) {
    return static_cast<std::uint32_t>(i * (most + 1) + std::min(written, most));
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string& name = declared[i];
    const SchemaKey key = shape.member(name);
    const bool required = std::ranges::find(shape.required, name) != shape.required.end();
    const bool out = forbids(key) || (allowed && !accepts(*allowed, code_points_of(name)));
    const ExpressionId one = out ? 0 : member(out_.json_words(word(code_points_of(name))), key);
    for (std::uint64_t written = 0; written <= std::min(i, most); ++written) {
      TRY_VOID(budget_.spend(1));
      if (!required)
        graph.edges.push_back({place(i, written), out_.sequence({}), place(i + 1, written)});
      if (out || (bounded && written == most)) continue;
      graph.edges.push_back(
          {place(i, written), separated(written == 0, one), place(i + 1, written + 1)});
    }
  }
  const ExpressionId other = others.empty() ? 0 : out_.alternatives(others);
  for (std::uint64_t written = 0; written <= most; ++written) {
    graph.final[place(count, written)] = written >= shape.min;
    if (others.empty() || (bounded && written == most)) continue;
    graph.edges.push_back(
        {place(count, written), separated(written == 0, other), place(count, written + 1)});
  }
  return out_.sequence({out_.literal("{"), out_.graph(std::move(graph)), out_.literal("}")});
}

}  // namespace

Result<ExpressionId> schema_expression(std::string_view schema, Expressions& out, Budget& budget) {
  auto root = parse_json(schema);
  if (!root.ok()) return Error::of(root.error().code, "JSON schema: ", root.error().message);
  REQUIRE(root->is_bool() || root->is(Json::Kind::kObject),
          "JSON schema: must be an object or a boolean");
  SchemaReader reader(*root, budget);
  TRY_VOID(reader.check_root());
  return SchemaEmitter(reader, out, budget).emit(reader.root_key());
}

Result<ExpressionId> any_object_expression(Expressions& out, Budget& budget) {
  return schema_expression("{\"type\": \"object\"}", out, budget);
}

}  // namespace hearth::model
