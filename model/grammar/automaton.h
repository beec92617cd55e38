// Finite automata over symbols, with set operations. Strings, numbers and the rules of a grammar
// are made of them. Symbols are code points or bytes, and above them calls of rules.
//
// Every operation spends from a budget, so that no source takes unbounded time or memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::model {

using Symbol = std::uint32_t;
inline constexpr Symbol kLastCodePoint = 0x10FFFF;
inline constexpr Symbol kFirstCall = 0x200000;

struct SymbolRange {
  Symbol low = 0;  // both ends belong to it
  Symbol high = 0;
  friend auto operator<=>(const SymbolRange&, const SymbolRange&) = default;
};
// Sorted, without overlap and without neighbours that touch.
using SymbolSet = std::vector<SymbolRange>;
SymbolSet normalised(SymbolSet set);
// The code points that are not in the set; surrogates are in neither.
SymbolSet inverted(const SymbolSet& set);
const SymbolSet& all_code_points();

// Steps of one compilation.
class Budget {
 public:
  Budget();
  // kUnsupported when the limit is passed: limits::kGrammarSteps.
  Status spend(std::uint64_t steps);
  // Steps that may still be spent.
  std::uint64_t left() const { return left_; }

 private:
  std::uint64_t left_ = 0;
};

// State 0 is the start. Missing edges lead nowhere.
struct Dfa {
  struct Edge {
    SymbolRange on;
    std::uint32_t next = 0;
  };
  struct State {
    std::vector<Edge> edges;  // ascending, disjoint
    bool final = false;
  };
  std::vector<State> states{1};

  // For automata that an operation below returned.
  bool empty() const { return states.size() == 1 && !states[0].final && states[0].edges.empty(); }
};

// An automaton with choices, built piece by piece.
class Nfa {
 public:
  std::uint32_t add();
  void edge(std::uint32_t from, SymbolRange on, std::uint32_t to);
  void skip(std::uint32_t from, std::uint32_t to);  // without a symbol
  void set_final(std::uint32_t state) { states_[state].final = true; }
  std::size_t size() const { return states_.size(); }

  // From state `start`, minimised.
  Result<Dfa> determinise(std::uint32_t start, Budget& budget) const;

 private:
  struct State {
    std::vector<Dfa::Edge> edges;
    std::vector<std::uint32_t> skips;
    bool final = false;
  };
  struct Marks;
  Status close(std::vector<std::uint32_t>& set, Marks& in, Budget& budget) const;
  std::vector<State> states_;
};

enum class SetOperation : std::uint8_t { kBoth, kEither, kOnlyFirst };

Result<Dfa> combine(const Dfa& a, const Dfa& b, SetOperation operation, Budget& budget);
// The complement within all words over code points.
Result<Dfa> complement(const Dfa& a, Budget& budget);
Dfa minimise(const Dfa& a, Budget& budget);
// All words over code points, and one word.
Dfa all_words();
Dfa word(std::u32string_view text);
// The code points of a UTF-8 text; broken bytes become U+FFFD.
std::u32string code_points_of(std::string_view text);
bool accepts(const Dfa& a, std::u32string_view text);
// Words of `min` to `max` code points. `max` is at most limits::kGrammarStates.
Result<Dfa> words_of_length(std::uint32_t min, std::uint32_t max, bool bounded, Budget& budget);

}  // namespace hearth::model
