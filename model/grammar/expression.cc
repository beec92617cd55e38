#include "model/grammar/expression.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/grammar/encoding.h"

namespace hearth::model {
namespace {

constexpr std::uint64_t kInlineCost = 96;  // states of a repeat that is written out
constexpr std::size_t kNfaStates = 512 * 1024;

constexpr SymbolRange kSingleByte{0, 0x7F};

// Whether this edge and the one behind it read every code point past ASCII and lead to one state.
bool reads_beyond_ascii(const std::vector<Dfa::Edge>& edges,
                        std::vector<Dfa::Edge>::const_iterator edge) {
  const auto next = edge + 1;
  return next != edges.end() && next->next == edge->next && edge->on.low <= 0x80 &&
         edge->on.high == 0xD7FF && next->on.low == 0xE000 && next->on.high == kLastCodePoint;
}

}  // namespace

struct Expressions::Lowering {
  Nfa nfa;
  bool bytes = false;
  Budget* budget = nullptr;
  std::map<Call, Symbol>* calls = nullptr;
  std::map<std::pair<SymbolRange, std::uint32_t>, std::uint32_t> ways;  // of before()

  Status check() const {
    if (nfa.size() <= kNfaStates) return budget->spend(1);
    return Error::of(ErrorCode::kUnsupported, "the grammar needs an automaton of more than ",
                     kNfaStates, " states with choices");
  }
  // The state that reads this and goes on in `to`. Equal byte sequences to the same state share
  // their states. Names need this: at each position they have all code points past ASCII and all
  // escapes, which lead to few states.
  std::uint32_t before(SymbolRange on, std::uint32_t to) {
    const auto [found, added] = ways.try_emplace({on, to});
    if (added) {
      found->second = nfa.add();
      nfa.edge(found->second, on, to);
    }
    return found->second;
  }
  void chain(std::uint32_t from, std::string_view text, std::uint32_t to) {
    INVARIANT(!text.empty(), "a chain has a first byte");
    const auto byte = [&](std::size_t i) -> SymbolRange {
      return {static_cast<unsigned char>(text[i]), static_cast<unsigned char>(text[i])};
    };
    for (std::size_t i = text.size() - 1; i > 0; --i) to = before(byte(i), to);
    nfa.edge(from, byte(0), to);
  }
  void call(const Call& called, std::uint32_t from, std::uint32_t to) {
    const auto symbol = static_cast<Symbol>(kFirstCall + calls->size());
    const Symbol on = calls->try_emplace(called, symbol).first->second;
    nfa.edge(from, {on, on}, to);
  }
  void points(std::uint32_t from, SymbolRange range, std::uint32_t to) {
    if (bytes) {
      utf8(from, range, to);
    } else {
      nfa.edge(from, range, to);
    }
  }
  void utf8(std::uint32_t from, SymbolRange range, std::uint32_t to);
  void control(std::uint32_t from, SymbolRange range, std::uint32_t to);
  void json(std::uint32_t from, SymbolRange range, std::uint32_t to);
};

// Splits the range until every part is a product of byte ranges.
void Expressions::Lowering::utf8(std::uint32_t from, SymbolRange range, std::uint32_t to) {
  static constexpr std::array<Symbol, 4> kLast{0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  for (const Symbol last : kLast) {
    if (range.low <= last && last < range.high) {
      utf8(from, {range.low, last}, to);
      return utf8(from, {last + 1, range.high}, to);
    }
  }
  if (range.high <= kSingleByte.high) return nfa.edge(from, range, to);
  const int tail = range.high <= kLast[1] ? 1 : range.high <= kLast[2] ? 2 : 3;
  for (int i = 1; i <= tail; ++i) {
    const Symbol mask = (Symbol{1} << (6 * i)) - 1;
    if ((range.low & ~mask) == (range.high & ~mask)) break;
    if ((range.low & mask) != 0) {
      utf8(from, {range.low, range.low | mask}, to);
      return utf8(from, {(range.low | mask) + 1, range.high}, to);
    }
    if ((range.high & mask) != mask) {
      utf8(from, {range.low, (range.high & ~mask) - 1}, to);
      return utf8(from, {range.high & ~mask, range.high}, to);
    }
  }
  static constexpr std::array<Symbol, 4> kLead{0, 0xC0, 0xE0, 0xF0};
  for (int i = 0; i < tail; ++i) {
    to = before({0x80 | (range.low >> (6 * i) & 0x3F), 0x80 | (range.high >> (6 * i) & 0x3F)}, to);
  }
  const Symbol lead = kLead[static_cast<std::size_t>(tail)];
  nfa.edge(from, {lead | range.low >> (6 * tail), lead | range.high >> (6 * tail)}, to);
}

// Control characters, by \u and four digits.
void Expressions::Lowering::control(std::uint32_t from, SymbolRange range, std::uint32_t to) {
  static constexpr std::array<std::pair<SymbolRange, char>, 3> kDigits{
      {{{0, 9}, '0'}, {{10, 15}, 'A'}, {{10, 15}, 'a'}}};
  for (const Symbol row : {Symbol{0x00}, Symbol{0x10}}) {
    for (const auto& [values, first] : kDigits) {
      const Symbol low = std::max(range.low, row + values.low);
      const Symbol high = std::min(range.high, row + values.high);
      if (low > high) continue;
      const Symbol digit = static_cast<unsigned char>(first) - row - values.low;
      chain(from, row == 0 ? "\\u000" : "\\u001", before({digit + low, digit + high}, to));
    }
  }
}

void Expressions::Lowering::json(std::uint32_t from, SymbolRange range, std::uint32_t to) {
  static constexpr std::array<SymbolRange, 3> kRaw{SymbolRange{0x20, 0x21}, SymbolRange{0x23, 0x5B},
                                                   SymbolRange{0x5D, kLastCodePoint}};
  for (const SymbolRange& raw : kRaw) {
    const SymbolRange both{std::max(raw.low, range.low), std::min(raw.high, range.high)};
    if (both.low <= both.high) utf8(from, both, to);
  }
  static constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";
  static constexpr std::string_view kLetters = "\"\\/bfnrt";
  for (std::size_t i = 0; i < kEscaped.size(); ++i) {
    const auto point = static_cast<Symbol>(kEscaped[i]);
    if (range.low > point || point > range.high) continue;
    chain(from, {std::array{'\\', kLetters[i]}.data(), 2}, to);
  }
  control(from, range, to);
}

Expressions::Id Expressions::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Id>(nodes_.size() - 1);
}

Expressions::Id Expressions::set(SymbolSet points) {
  Node node;
  node.points = normalised(std::move(points));
  return add(std::move(node));
}

Expressions::Id Expressions::literal(std::u32string_view text) {
  std::vector<Id> parts;
  for (const char32_t point : text) parts.push_back(set({{point, point}}));
  return sequence(std::move(parts));
}

Expressions::Id Expressions::literal(std::string_view ascii) {
  std::u32string text;
  for (const char c : ascii) {
    INVARIANT(static_cast<unsigned char>(c) < 0x80, "a literal of the program is ASCII");
    text.push_back(static_cast<char32_t>(c));
  }
  return literal(text);
}

Expressions::Id Expressions::sequence(std::vector<Id> parts) {
  if (parts.size() == 1) return parts[0];
  Node node;
  node.kind = Kind::kSequence;
  node.parts = std::move(parts);
  return add(std::move(node));
}

Expressions::Id Expressions::alternatives(std::vector<Id> parts) {
  if (parts.size() == 1) return parts[0];
  Node node;
  node.kind = Kind::kAlternatives;
  node.parts = std::move(parts);
  return add(std::move(node));
}

Expressions::Id Expressions::repeat(Id part, std::uint32_t min, std::uint32_t max) {
  INVARIANT(min <= max, "a count has an order");
  if (min == 1 && max == 1) return part;
  if (max == 0) return sequence({});
  Node node;
  node.kind = Kind::kRepeat;
  node.parts = {part};
  node.min = min;
  node.max = max;
  return add(std::move(node));
}

Expressions::Id Expressions::graph(Graph graph) {
  INVARIANT(graph.final.size() >= 1, "a graph has a start");
  Node node;
  node.kind = Kind::kGraph;
  node.index = static_cast<std::uint32_t>(graphs_.size());
  for (const Graph::Edge& edge : graph.edges) {
    INVARIANT(edge.from < graph.final.size() && edge.to < graph.final.size(), "edges join states");
    node.parts.push_back(edge.on);
  }
  graphs_.push_back(std::move(graph));
  return add(std::move(node));
}

Expressions::Id Expressions::words(Dfa dfa) {
  Node node;
  node.kind = Kind::kWords;
  node.index = static_cast<std::uint32_t>(automata_.size());
  automata_.push_back(std::move(dfa));
  return add(std::move(node));
}

Expressions::Id Expressions::json_words(Dfa dfa) {
  const Id id = words(std::move(dfa));
  nodes_[id].kind = Kind::kJsonWords;
  return id;
}

Expressions::Id Expressions::call(Rule rule) {
  INVARIANT(rule < rules_.size(), "a called rule exists");
  Node node;
  node.kind = Kind::kCall;
  node.index = rule;
  return add(std::move(node));
}

Expressions::Id Expressions::bytes(std::string bytes) {
  INVARIANT(!bytes.empty(), "bytes are at least one");
  Node node;
  node.kind = Kind::kBytes;
  node.index = static_cast<std::uint32_t>(bytes_.size());
  bytes_.push_back(std::move(bytes));
  return add(std::move(node));
}

Expressions::Rule Expressions::add_rule() {
  rules_.push_back(nothing());
  return static_cast<Rule>(rules_.size() - 1);
}

void Expressions::define(Rule rule, Id body) {
  INVARIANT(rule < rules_.size() && body < nodes_.size(), "a rule and its body exist");
  rules_[rule] = body;
}

// States that writing it out takes, or more than `most`.
std::uint64_t Expressions::cost(Id id, std::uint64_t most) const {
  const Node& node = nodes_[id];
  std::uint64_t sum = 1;
  switch (node.kind) {
    case Kind::kSet: return node.points.empty() || node.points.back().high <= 0x7F ? 1 : 6;
    case Kind::kWords:
    case Kind::kJsonWords: return 2 * automata_[node.index].states.size();
    case Kind::kCall: return 1;
    case Kind::kBytes: return bytes_[node.index].size();
    case Kind::kGraph:
    case Kind::kSequence:
    case Kind::kAlternatives:
      for (std::size_t i = 0; i < node.parts.size() && sum <= most; ++i) {
        sum += cost(node.parts[i], most);
      }
      return sum;
    case Kind::kRepeat: {
      const std::uint64_t times = node.max == Grammar::kNoLimit ? node.min + 1 : node.max;
      const std::uint64_t one = cost(node.parts[0], most);
      return times > most ? most + 1 : 1 + one * times;
    }
  }
  INVARIANT(false, "every kind has a cost");
}

bool Expressions::nullable(Id id) const {
  const Node& node = nodes_[id];
  switch (node.kind) {
    case Kind::kSet:
    case Kind::kBytes: return false;
    case Kind::kWords:
    case Kind::kJsonWords: return automata_[node.index].states[0].final;
    case Kind::kCall: return node.index < nullable_.size() && nullable_[node.index];
    case Kind::kSequence:
      return std::ranges::all_of(node.parts, [&](Id part) { return nullable(part); });
    case Kind::kAlternatives:
      return std::ranges::any_of(node.parts, [&](Id part) { return nullable(part); });
    case Kind::kRepeat: return node.min == 0 || nullable(node.parts[0]);
    case Kind::kGraph: return true;  // of a bracket's inside; no graph is repeated
  }
  INVARIANT(false, "every kind is nullable or not");
}

void Expressions::find_nullable() {
  nullable_.assign(rules_.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (nullable_[rule] || !nullable(rules_[rule])) continue;
      nullable_[rule] = changed = true;
    }
  }
}

void Expressions::extract_counts() {
  for (Id id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].kind != Kind::kRepeat) continue;
    const Id body = nodes_[id].parts[0];
    const bool bounded = nodes_[id].max != Grammar::kNoLimit;
    const bool loop = !bounded && nodes_[id].min <= 1;
    if (nodes_[body].kind == Kind::kCall || loop || cost(id, kInlineCost) <= kInlineCost) continue;
    const Rule rule = add_rule();
    define(rule, body);
    const Id called = call(rule);
    nodes_[id].parts[0] = called;
  }
}

Status Expressions::lower_repeat(Lowering& out, const Node& node, std::uint32_t from,
                                 std::uint32_t to) const {
  const Id body = node.parts[0];
  const bool bounded = node.max != Grammar::kNoLimit;
  // If the repeated part may be empty, the count starts at zero.
  const std::uint32_t min = nullable(body) ? 0 : node.min;
  if (out.bytes && nodes_[body].kind == Kind::kCall) {
    out.call({nodes_[body].index, min, node.max}, from, to);
    return ok_status();
  }
  std::uint32_t at = from;
  for (std::uint32_t i = 0; i < min; ++i) {
    const std::uint32_t next = out.nfa.add();
    TRY_VOID(lower(out, body, at, next));
    at = next;
  }
  if (!bounded) {
    const std::uint32_t loop = out.nfa.add();
    out.nfa.skip(at, loop);
    TRY_VOID(lower(out, body, loop, loop));
    out.nfa.skip(loop, to);
    return ok_status();
  }
  for (std::uint32_t i = min; i < node.max; ++i) {
    out.nfa.skip(at, to);
    const std::uint32_t next = out.nfa.add();
    TRY_VOID(lower(out, body, at, next));
    at = next;
  }
  out.nfa.skip(at, to);
  return ok_status();
}

Status Expressions::lower_words(Lowering& out, const Node& node, std::uint32_t from,
                                std::uint32_t to) const {
  const Dfa& dfa = automata_[node.index];
  std::vector<std::uint32_t> states;
  for (std::size_t i = 0; i < dfa.states.size(); ++i) states.push_back(out.nfa.add());
  out.nfa.skip(from, states[0]);
  for (std::size_t i = 0; i < dfa.states.size(); ++i) {
    if (dfa.states[i].final) out.nfa.skip(states[i], to);
    const std::vector<Dfa::Edge>& edges = dfa.states[i].edges;
    for (auto edge = edges.begin(); edge != edges.end(); ++edge) {
      if (node.kind == Kind::kJsonWords) {
        INVARIANT(out.bytes, "JSON text is made of bytes");
        if (beyond_ascii_ && reads_beyond_ascii(edges, edge)) {
          out.call({*beyond_ascii_, 1, 1}, states[i], states[edge->next]);
          if (edge->on.low < 0x80) out.json(states[i], {edge->on.low, 0x7F}, states[edge->next]);
          ++edge;  // the other half
        } else {
          out.json(states[i], edge->on, states[edge->next]);
        }
      } else {
        out.points(states[i], edge->on, states[edge->next]);
      }
      TRY_VOID(out.check());
    }
  }
  return ok_status();
}

// Between two states that exist. Recursion follows the nesting of the source, which is bounded.
Status Expressions::lower(Lowering& out, Id id, std::uint32_t from, std::uint32_t to) const {
  TRY_VOID(out.check());
  const Node& node = nodes_[id];
  switch (node.kind) {
    case Kind::kSet:
      for (const SymbolRange& range : node.points) {
        TRY_VOID(out.check());
        out.points(from, range, to);
      }
      return ok_status();
    case Kind::kSequence: {
      std::uint32_t at = from;
      for (const Id part : node.parts) {
        const std::uint32_t next = out.nfa.add();
        TRY_VOID(lower(out, part, at, next));
        at = next;
      }
      out.nfa.skip(at, to);
      return ok_status();
    }
    case Kind::kAlternatives:
      for (const Id part : node.parts) {
        // A loop inside must not run back into the other alternatives.
        const std::uint32_t begin = out.nfa.add();
        out.nfa.skip(from, begin);
        TRY_VOID(lower(out, part, begin, to));
      }
      return ok_status();
    case Kind::kRepeat: return lower_repeat(out, node, from, to);
    case Kind::kGraph: {
      const Graph& graph = graphs_[node.index];
      std::vector<std::uint32_t> states;
      for (std::size_t i = 0; i < graph.final.size(); ++i) states.push_back(out.nfa.add());
      out.nfa.skip(from, states[0]);
      for (std::size_t i = 0; i < graph.final.size(); ++i) {
        if (graph.final[i]) out.nfa.skip(states[i], to);
      }
      for (const Graph::Edge& edge : graph.edges) {
        TRY_VOID(lower(out, edge.on, states[edge.from], states[edge.to]));
      }
      return ok_status();
    }
    case Kind::kWords:
    case Kind::kJsonWords: return lower_words(out, node, from, to);
    case Kind::kBytes:
      INVARIANT(out.bytes, "automata over code points read no bytes");
      out.chain(from, bytes_[node.index], to);
      return ok_status();
    case Kind::kCall:
      INVARIANT(out.bytes, "automata over code points call no rules");
      out.call({node.index, 1, 1}, from, to);
      return ok_status();
  }
  INVARIANT(false, "every kind is lowered");
}

Result<Dfa> Expressions::automaton_of(Id id, Budget& budget) const {
  Lowering out;
  out.budget = &budget;
  const std::uint32_t from = out.nfa.add();
  const std::uint32_t to = out.nfa.add();
  out.nfa.set_final(to);
  TRY_VOID(lower(out, id, from, to));
  return out.nfa.determinise(from, budget);
}

Result<std::shared_ptr<const Grammar>> Expressions::assemble(Rule root, Budget& budget) {
  extract_counts();
  TRY(Bytes form, form_of(root, budget));
  if (form.size() > limits::kGrammarBytes) {
    // In undeclared names, each position has edges for the first bytes of UTF-8, nearly half of the
    // compiled form. One call in place of these edges takes less space but more time for a mask.
    beyond_ascii_ = add_rule();
    define(*beyond_ascii_, set(inverted({kSingleByte})));
    TRY(form, form_of(root, budget));
  }
  return Grammar::parse(form);
}

Result<Bytes> Expressions::form_of(Rule root, Budget& budget) {
  find_nullable();
  std::map<Call, Symbol> symbols;
  std::map<Rule, std::uint32_t> numbers{{root, 0}};
  std::vector<Rule> order{root};
  std::vector<Dfa> automata;
  std::vector<Call> calls;
  std::size_t states = 0;
  std::vector<std::uint32_t> starts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    REQUIRE_SUPPORTED(order.size() <= limits::kGrammarRules, "the grammar has more than ",
                      limits::kGrammarRules, " rules");
    Lowering out;
    out.bytes = true;
    out.budget = &budget;
    out.calls = &symbols;
    const std::uint32_t from = out.nfa.add();
    const std::uint32_t to = out.nfa.add();
    out.nfa.set_final(to);
    TRY_VOID(lower(out, rules_[order[i]], from, to));
    TRY(Dfa dfa, out.nfa.determinise(from, budget));
    calls.resize(symbols.size());
    for (const auto& [call, symbol] : symbols) calls[symbol - kFirstCall] = call;
    starts.push_back(static_cast<std::uint32_t>(states));
    states += dfa.states.size();
    REQUIRE_SUPPORTED(states <= limits::kGrammarStates, "the grammar has more than ",
                      limits::kGrammarStates, " states");
    for (const Dfa::State& state : dfa.states) {
      for (const Dfa::Edge& edge : state.edges) {
        if (edge.on.low < kFirstCall) continue;
        const Rule called = calls[edge.on.low - kFirstCall].rule;
        if (numbers.try_emplace(called, static_cast<std::uint32_t>(order.size())).second) {
          order.push_back(called);
        }
      }
    }
    automata.push_back(std::move(dfa));
  }
  std::vector<EncodedState> encoded;
  for (std::size_t i = 0; i < automata.size(); ++i) {
    for (const Dfa::State& from : automata[i].states) {
      EncodedState& state = encoded.emplace_back();
      state.final = from.final;
      for (const Dfa::Edge& edge : from.edges) {
        const std::uint32_t next = starts[i] + edge.next;
        if (edge.on.low < kFirstCall) {
          state.bytes.push_back({static_cast<std::uint8_t>(edge.on.low),
                                 static_cast<std::uint8_t>(edge.on.high), next});
        } else {
          const Call& call = calls[edge.on.low - kFirstCall];
          state.calls.push_back({starts[numbers.at(call.rule)], call.min, call.max, next});
        }
      }
    }
  }
  return encode_states(encoded);
}

}  // namespace hearth::model
