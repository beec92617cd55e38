#include "model/grammar/automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace hearth::model {
namespace {

constexpr std::uint32_t kNowhere = 0xFFFFFFFF;

Status check_states(std::size_t states) {
  if (states <= limits::kGrammarStates) return ok_status();
  return Error::of(ErrorCode::kUnsupported, "the grammar needs an automaton of more than ",
                   limits::kGrammarStates, " states");
}

// Joins neighbours that lead to the same state.
void append_edge(std::vector<Dfa::Edge>& edges, SymbolRange on, std::uint32_t next) {
  const bool call = on.low >= kFirstCall;
  if (!edges.empty() && edges.back().next == next && edges.back().on.high + 1 == on.low && !call) {
    edges.back().on.high = on.high;
  } else {
    edges.push_back({on, next});
  }
}

// Where the edges' ranges begin, and one past where they end.
std::vector<Symbol> cuts_of(const std::vector<Dfa::Edge>& edges) {
  std::vector<Symbol> cuts;
  for (const Dfa::Edge& edge : edges) {
    cuts.push_back(edge.on.low);
    cuts.push_back(edge.on.high + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

std::vector<bool> productive_of(const Dfa& a) {
  std::vector<std::vector<std::uint32_t>> before(a.states.size());
  std::vector<std::uint32_t> open;
  std::vector<bool> productive(a.states.size());
  for (std::uint32_t i = 0; i < a.states.size(); ++i) {
    for (const Dfa::Edge& edge : a.states[i].edges) before[edge.next].push_back(i);
    if (!a.states[i].final) continue;
    productive[i] = true;
    open.push_back(i);
  }
  while (!open.empty()) {
    const std::uint32_t state = open.back();
    open.pop_back();
    for (const std::uint32_t from : before[state]) {
      if (productive[from]) continue;
      productive[from] = true;
      open.push_back(from);
    }
  }
  return productive;
}

// The states that lie on a way from the start to an end, numbered by breadth from the start.
Dfa without_dead_states(const Dfa& a) {
  const std::vector<bool> productive = productive_of(a);
  std::vector<std::uint32_t> number(a.states.size(), kNowhere);
  std::vector<std::uint32_t> order{0};
  number[0] = 0;
  Dfa out;
  out.states.clear();
  for (std::size_t i = 0; i < order.size(); ++i) {
    Dfa::State state;
    state.final = a.states[order[i]].final;
    for (const Dfa::Edge& edge : a.states[order[i]].edges) {
      if (!productive[edge.next]) continue;
      if (number[edge.next] == kNowhere) {
        number[edge.next] = static_cast<std::uint32_t>(order.size());
        order.push_back(edge.next);
      }
      append_edge(state.edges, edge.on, number[edge.next]);
    }
    out.states.push_back(std::move(state));
  }
  return out;
}

// The behaviour of a state, with next states named by their classes.
std::vector<std::uint32_t> signature(const Dfa::State& state,
                                     const std::vector<std::uint32_t>& of) {
  std::vector<std::uint32_t> out;
  for (const Dfa::Edge& edge : state.edges) {
    const std::uint32_t to = of[edge.next];
    const bool joins = !out.empty() && out.back() == to && edge.on.low < kFirstCall &&
                       out[out.size() - 2] + 1 == edge.on.low;
    if (joins) {
      out[out.size() - 2] = edge.on.high;
    } else {
      out.insert(out.end(), {edge.on.low, edge.on.high, to});
    }
  }
  return out;
}

// Splits classes until the states of each do the same. A state is looked at again only where one
// that it leads to went to another class, and of a class that splits the largest part stays: so the
// work is near that of one look at each (after Hopcroft, 1971).
class ClassSplitter {
 public:
  ClassSplitter(const Dfa& a, Budget& budget)
      : a_(a), budget_(budget), of_(a.states.size()), place_(of_.size()), before_(of_.size()) {
    for (const bool final : {false, true}) {
      const auto begin = static_cast<std::uint32_t>(order_.size());
      for (std::uint32_t i = 0; i < of_.size(); ++i) {
        if (a_.states[i].final != final) continue;
        of_[i] = static_cast<std::uint32_t>(classes_.size());
        place_[i] = static_cast<std::uint32_t>(order_.size());
        order_.push_back(i);
      }
      classes_.push_back({begin, static_cast<std::uint32_t>(order_.size())});
    }
    for (std::uint32_t i = 0; i < of_.size(); ++i) {
      open_.push_back(i);
      for (const Dfa::Edge& edge : a_.states[i].edges) before_[edge.next].push_back(i);
    }
  }

  // Class of each state, numbered in the order of their first states. Empty: over the budget.
  std::vector<std::uint32_t> run() {
    while (!open_.empty()) {
      std::sort(open_.begin(), open_.end());
      open_.erase(std::unique(open_.begin(), open_.end()), open_.end());
      std::map<std::uint32_t, std::vector<std::uint32_t>> by_class;
      for (const std::uint32_t state : std::exchange(open_, {})) {
        by_class[of_[state]].push_back(state);
      }
      for (const auto& [number, looked] : by_class) {
        if (!split(number, looked)) return {};
      }
    }
    std::vector<std::uint32_t> numbers(classes_.size(), kNowhere);
    std::uint32_t next = 0;
    for (std::uint32_t& number : of_) {
      if (numbers[number] == kNowhere) numbers[number] = next++;
      number = numbers[number];
    }
    return of_;
  }

 private:
  struct Class {  // in order_
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  // `looked`: the states of the class that may now behave differently. All other states behave
  // alike, and differently from these.
  bool split(std::uint32_t number, const std::vector<std::uint32_t>& looked) {
    std::map<std::vector<std::uint32_t>, std::vector<std::uint32_t>> parts;
    for (const std::uint32_t state : looked) {
      if (!budget_.spend(1 + a_.states[state].edges.size()).ok()) return false;
      parts[signature(a_.states[state], of_)].push_back(state);
    }
    const Class whole = classes_[number];
    std::size_t stays = whole.end - whole.begin - looked.size();  // the others
    const std::vector<std::uint32_t>* largest = nullptr;
    for (const auto& [does, states] : parts) {
      if (states.size() <= stays) continue;
      stays = states.size();
      largest = &states;
    }
    for (const auto& [does, states] : parts) {
      if (&states != largest) move_out(number, states);
    }
    if (largest == nullptr) return true;
    // The other parts are smaller than the largest one.
    std::vector<std::uint32_t> others;
    for (std::uint32_t i = classes_[number].begin; i < classes_[number].end; ++i) {
      if (!std::ranges::binary_search(looked, order_[i])) others.push_back(order_[i]);
    }
    if (!others.empty()) move_out(number, others);
    return true;
  }

  void move_out(std::uint32_t number, const std::vector<std::uint32_t>& states) {
    const std::uint32_t end = classes_[number].end;
    for (const std::uint32_t state : states) {
      const std::uint32_t last = --classes_[number].end;
      const std::uint32_t other = order_[last];
      std::swap(order_[place_[state]], order_[last]);
      std::swap(place_[state], place_[other]);
      of_[state] = static_cast<std::uint32_t>(classes_.size());
      open_.insert(open_.end(), before_[state].begin(), before_[state].end());
    }
    classes_.push_back({classes_[number].end, end});
    INVARIANT(classes_[number].begin < classes_[number].end, "a part of every class stays");
  }

  const Dfa& a_;
  Budget& budget_;
  std::vector<std::uint32_t> of_;     // class, by state
  std::vector<std::uint32_t> place_;  // in order_, by state
  std::vector<std::uint32_t> order_;  // states, class by class
  std::vector<Class> classes_;
  std::vector<std::vector<std::uint32_t>> before_;
  std::vector<std::uint32_t> open_;  // to be looked at
};

// Classes of states by what can follow. Empty: over the budget.
std::vector<std::uint32_t> classes_of(const Dfa& a, Budget& budget, std::uint32_t& count) {
  std::vector<std::uint32_t> of = ClassSplitter(a, budget).run();
  for (const std::uint32_t number : of) count = std::max(count, number + 1);
  return of;
}

}  // namespace

SymbolSet normalised(SymbolSet set) {
  std::sort(set.begin(), set.end());
  SymbolSet out;
  for (const SymbolRange& range : set) {
    if (range.low > range.high) continue;
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

SymbolSet inverted(const SymbolSet& set) {
  SymbolSet with = set;
  with.push_back({0xD800, 0xDFFF});
  Symbol at = 0;
  SymbolSet out;
  for (const SymbolRange& range : normalised(std::move(with))) {
    if (range.low > at) out.push_back({at, range.low - 1});
    at = range.high + 1;
  }
  if (at <= kLastCodePoint) out.push_back({at, kLastCodePoint});
  return out;
}

const SymbolSet& all_code_points() {
  static const SymbolSet all = inverted({});
  return all;
}

Budget::Budget() : left_(limits::kGrammarSteps) {}

Status Budget::spend(std::uint64_t steps) {
  if (steps > left_) {
    left_ = 0;
    return Error::of(ErrorCode::kUnsupported, "the grammar takes more than ", limits::kGrammarSteps,
                     " steps to compile");
  }
  left_ -= steps;
  return ok_status();
}

// The states of one set. The next set begins without a pass over all states: large grammars have
// hundred thousands of both.
struct Nfa::Marks {
  std::vector<std::uint32_t> of;  // by state: the last set that it was added to
  std::uint32_t set = 0;

  void begin() {
    INVARIANT(set < kNowhere, "sets are fewer than the steps of a budget");
    ++set;
  }
  // False when the state was already in the set.
  bool add(std::uint32_t state) { return std::exchange(of[state], set) != set; }
};

std::uint32_t Nfa::add() {
  states_.emplace_back();
  return static_cast<std::uint32_t>(states_.size() - 1);
}

void Nfa::edge(std::uint32_t from, SymbolRange on, std::uint32_t to) {
  INVARIANT(from < states_.size() && to < states_.size(), "an edge joins states");
  states_[from].edges.push_back({on, to});
}

void Nfa::skip(std::uint32_t from, std::uint32_t to) {
  INVARIANT(from < states_.size() && to < states_.size(), "a skip joins states");
  states_[from].skips.push_back(to);
}

// Adds the states that skips lead to; sorted.
Status Nfa::close(std::vector<std::uint32_t>& set, Marks& in, Budget& budget) const {
  INVARIANT(in.of.size() == states_.size(), "every state has a mark");
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  std::vector<std::uint32_t> open = set;
  in.begin();
  for (const std::uint32_t state : set) in.add(state);
  while (!open.empty()) {
    const std::uint32_t state = open.back();
    open.pop_back();
    TRY_VOID(budget.spend(1 + states_[state].skips.size()));
    for (const std::uint32_t to : states_[state].skips) {
      if (!in.add(to)) continue;
      open.push_back(to);
      set.push_back(to);
    }
  }
  // Only these tell sets apart.
  std::erase_if(set, [&](std::uint32_t state) {
    return states_[state].edges.empty() && !states_[state].final;
  });
  std::sort(set.begin(), set.end());
  return ok_status();
}

Result<Dfa> Nfa::determinise(std::uint32_t start, Budget& budget) const {
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers;
  std::vector<std::vector<std::uint32_t>> sets;
  std::vector<std::uint32_t> first{start};
  Marks marks{std::vector<std::uint32_t>(states_.size())};
  TRY_VOID(close(first, marks, budget));
  numbers.emplace(first, 0);
  sets.push_back(std::move(first));
  Dfa out;
  out.states.clear();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    TRY_VOID(check_states(sets.size()));
    Dfa::State state;
    std::vector<Dfa::Edge> edges;
    for (const std::uint32_t member : sets[i]) {
      state.final = state.final || states_[member].final;
      edges.insert(edges.end(), states_[member].edges.begin(), states_[member].edges.end());
    }
    const std::vector<Symbol> cuts = cuts_of(edges);
    std::sort(edges.begin(), edges.end(),
              [](const Dfa::Edge& a, const Dfa::Edge& b) { return a.on < b.on; });
    TRY_VOID(budget.spend(edges.size() + cuts.size() + 1));
    std::vector<Dfa::Edge> active;
    std::size_t entered = 0;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      while (entered < edges.size() && edges[entered].on.low == cuts[c]) {
        active.push_back(edges[entered++]);
      }
      std::erase_if(active, [&](const Dfa::Edge& edge) { return edge.on.high < cuts[c]; });
      if (active.empty()) continue;
      std::vector<std::uint32_t> targets;
      for (const Dfa::Edge& edge : active) targets.push_back(edge.next);
      TRY_VOID(budget.spend(targets.size()));
      TRY_VOID(close(targets, marks, budget));
      const auto [found, added] =
          numbers.try_emplace(targets, static_cast<std::uint32_t>(sets.size()));
      if (added) sets.push_back(std::move(targets));
      append_edge(state.edges, {cuts[c], cuts[c + 1] - 1}, found->second);
    }
    out.states.push_back(std::move(state));
  }
  return minimise(out, budget);
}

Dfa minimise(const Dfa& a, Budget& budget) {
  INVARIANT(!a.states.empty(), "an automaton has a start");
  Dfa lean = without_dead_states(a);
  std::uint32_t count = 0;
  const std::vector<std::uint32_t> classes = classes_of(lean, budget, count);
  if (classes.empty() || count == lean.states.size()) return lean;
  Dfa joined;
  joined.states.assign(count, {});
  std::vector<bool> done(count);
  for (std::size_t i = 0; i < lean.states.size(); ++i) {
    if (done[classes[i]]) continue;
    done[classes[i]] = true;
    Dfa::State& state = joined.states[classes[i]];
    state.final = lean.states[i].final;
    for (const Dfa::Edge& edge : lean.states[i].edges) {
      append_edge(state.edges, edge.on, classes[edge.next]);
    }
  }
  INVARIANT(classes[0] == 0, "classes are numbered in the order of their first states");
  return without_dead_states(joined);
}

Result<Dfa> combine(const Dfa& a, const Dfa& b, SetOperation operation, Budget& budget) {
  using Pair = std::pair<std::uint32_t, std::uint32_t>;
  std::map<Pair, std::uint32_t> numbers{{{0, 0}, 0}};
  std::vector<Pair> pairs{{0, 0}};
  Dfa out;
  out.states.clear();
  const auto next_of = [](const Dfa& of, std::uint32_t state, Symbol symbol) {
    if (state == kNowhere) return kNowhere;
    const auto& edges = of.states[state].edges;
    const auto found = std::partition_point(
        edges.begin(), edges.end(), [&](const Dfa::Edge& edge) { return edge.on.high < symbol; });
    return found != edges.end() && found->on.low <= symbol ? found->next : kNowhere;
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TRY_VOID(check_states(pairs.size()));
    const auto [x, y] = pairs[i];
    const bool in_a = x != kNowhere && a.states[x].final;
    const bool in_b = y != kNowhere && b.states[y].final;
    Dfa::State state;
    switch (operation) {
      case SetOperation::kBoth: state.final = in_a && in_b; break;
      case SetOperation::kEither: state.final = in_a || in_b; break;
      case SetOperation::kOnlyFirst: state.final = in_a && !in_b; break;
    }
    std::vector<Dfa::Edge> edges;
    if (x != kNowhere) edges = a.states[x].edges;
    if (y != kNowhere) {
      edges.insert(edges.end(), b.states[y].edges.begin(), b.states[y].edges.end());
    }
    const std::vector<Symbol> cuts = cuts_of(edges);
    TRY_VOID(budget.spend(4 * cuts.size() + 1));
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      const Pair next{next_of(a, x, cuts[c]), next_of(b, y, cuts[c])};
      const bool dead = operation == SetOperation::kBoth
                            ? next.first == kNowhere || next.second == kNowhere
                        : operation == SetOperation::kOnlyFirst
                            ? next.first == kNowhere
                            : next.first == kNowhere && next.second == kNowhere;
      if (dead) continue;
      const auto [found, added] =
          numbers.try_emplace(next, static_cast<std::uint32_t>(pairs.size()));
      if (added) pairs.push_back(next);
      append_edge(state.edges, {cuts[c], cuts[c + 1] - 1}, found->second);
    }
    out.states.push_back(std::move(state));
  }
  return minimise(out, budget);
}

Result<Dfa> complement(const Dfa& a, Budget& budget) {
  return combine(all_words(), a, SetOperation::kOnlyFirst, budget);
}

Dfa all_words() {
  Dfa out;
  out.states[0].final = true;
  for (const SymbolRange& range : all_code_points()) out.states[0].edges.push_back({range, 0});
  return out;
}

Dfa word(std::u32string_view text) {
  Dfa out;
  out.states.assign(text.size() + 1, {});
  for (std::uint32_t i = 0; i < text.size(); ++i) {
    out.states[i].edges.push_back({{text[i], text[i]}, i + 1});
  }
  out.states.back().final = true;
  return out;
}

std::u32string code_points_of(std::string_view text) {
  std::u32string points;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    points.push_back(c.point);
    at += std::max<std::uint32_t>(c.bytes, 1);
  }
  return points;
}

bool accepts(const Dfa& a, std::u32string_view text) {
  std::uint32_t state = 0;
  for (const char32_t point : text) {
    std::uint32_t next = kNowhere;
    for (const Dfa::Edge& edge : a.states[state].edges) {
      if (edge.on.low <= point && point <= edge.on.high) next = edge.next;
    }
    if (next == kNowhere) return false;
    state = next;
  }
  return a.states[state].final;
}

Result<Dfa> words_of_length(std::uint32_t min, std::uint32_t max, bool bounded, Budget& budget) {
  const std::uint32_t last = bounded ? max : min;
  TRY_VOID(check_states(std::size_t{last} + 1));
  TRY_VOID(budget.spend(last + 1));
  Dfa out;
  out.states.assign(last + 1, {});
  for (std::uint32_t i = 0; i <= last; ++i) {
    out.states[i].final = i >= min;
    if (i == last && bounded) break;
    for (const SymbolRange& range : all_code_points()) {
      out.states[i].edges.push_back({range, std::min(i + 1, last)});
    }
  }
  return out;
}

}  // namespace hearth::model
