// Expressions: the form of every source before automata are made of it. An expression is a set of
// texts over code points. Rules have names, so that they may contain themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/grammar/automaton.h"
#include "model/grammar/grammar.h"

namespace hearth::model {

using ExpressionId = std::uint32_t;

class Expressions {
 public:
  using Id = ExpressionId;
  using Rule = std::uint32_t;

  Id nothing() { return alternatives({}); }  // no text at all
  Id set(SymbolSet points);                  // one code point of these
  Id literal(std::u32string_view text);
  Id literal(std::string_view ascii);
  Id sequence(std::vector<Id> parts);
  Id alternatives(std::vector<Id> parts);
  Id repeat(Id part, std::uint32_t min, std::uint32_t max);  // Grammar::kNoLimit: any number
  Id optional(Id part) { return repeat(part, 0, 1); }
  // The texts that lead from state 0 to a final state.
  struct Graph {
    struct Edge {
      std::uint32_t from = 0;
      Id on = 0;
      std::uint32_t to = 0;
    };
    std::vector<bool> final;  // by state
    std::vector<Edge> edges;
  };
  Id graph(Graph graph);
  // The words of an automaton over code points, as they are or as the inside of a JSON string: each
  // code point as itself where JSON allows it, or by its short escape, or by \u00XX where it is a
  // control character.
  Id words(Dfa dfa);
  Id json_words(Dfa dfa);
  Id call(Rule rule);
  // These bytes, which need not be code points; at least one.
  Id bytes(std::string bytes);

  Rule add_rule();  // of no text until it is defined
  void define(Rule rule, Id body);
  std::size_t rules() const { return rules_.size(); }

  // Over code points; the expression calls no rule.
  Result<Dfa> automaton_of(Id id, Budget& budget) const;
  // Over bytes, of all rules that the first one reaches. Once.
  Result<std::shared_ptr<const Grammar>> assemble(Rule root, Budget& budget);

 private:
  enum class Kind : std::uint8_t {
    kSet,
    kSequence,
    kAlternatives,
    kRepeat,
    kGraph,
    kWords,
    kJsonWords,
    kCall,
    kBytes,
  };
  struct Node {
    Kind kind = Kind::kSet;
    SymbolSet points;
    std::vector<Id> parts;
    std::uint32_t min = 1;
    std::uint32_t max = 1;
    std::uint32_t index = 0;  // of an automaton, a graph, a rule or a text of bytes
  };
  struct Call {
    Rule rule = 0;
    std::uint32_t min = 1;
    std::uint32_t max = 1;
    friend auto operator<=>(const Call&, const Call&) = default;
  };
  struct Lowering;

  Id add(Node node);
  Status lower(Lowering& out, Id id, std::uint32_t from, std::uint32_t to) const;
  Status lower_repeat(Lowering& out, const Node& node, std::uint32_t from, std::uint32_t to) const;
  Status lower_words(Lowering& out, const Node& node, std::uint32_t from, std::uint32_t to) const;
  std::uint64_t cost(Id id, std::uint64_t most) const;
  bool nullable(Id id) const;
  void find_nullable();
  Result<Bytes> form_of(Rule root, Budget& budget);
  // Repeats that are too large to be written out become calls of rules of their own.
  void extract_counts();

  std::vector<Node> nodes_;
  std::vector<Graph> graphs_;
  std::vector<Dfa> automata_;
  std::vector<std::string> bytes_;
  std::vector<Id> rules_;
  std::vector<bool> nullable_;  // by rule
  // One code point past ASCII: where free names call it, for a smaller form.
  std::optional<Rule> beyond_ascii_;
};

}  // namespace hearth::model
