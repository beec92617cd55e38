#include "model/grammar/numbers.h"

#include <algorithm>

#include "base/check.h"
#include "model/grammar/encoding.h"
#include "model/grammar/regex.h"

namespace hearth::model {
namespace {

constexpr std::int64_t kDigitsMax = 400;
constexpr std::uint64_t kRemainders = 4'096;

// Digits ahead of the point and behind it: "0" and nothing for 0.
struct Written {
  std::string whole;
  std::string fraction;
};

Written written(const Decimal& number) {
  Written out{number.digits, {}};
  if (number.exponent >= 0) {
    if (!out.whole.empty()) out.whole.append(static_cast<std::size_t>(number.exponent), '0');
  } else {
    const auto behind = static_cast<std::size_t>(-number.exponent);
    if (out.whole.size() < behind) out.whole.insert(0, behind - out.whole.size(), '0');
    out.fraction = out.whole.substr(out.whole.size() - behind);
    out.whole.resize(out.whole.size() - behind);
  }
  if (out.whole.empty()) out.whole.push_back('0');
  return out;
}

void digits(Dfa& dfa, std::uint32_t from, char low, char high, std::uint32_t to) {
  if (low <= high) {
    dfa.states[from].edges.push_back({{static_cast<Symbol>(low), static_cast<Symbol>(high)}, to});
  }
}

// Texts without a sign whose magnitude is less than, equal to or greater than the bound's, as
// asked.
Dfa magnitudes(const Written& bound, bool less, bool equal, bool greater) {
  Dfa dfa;
  const auto n = static_cast<std::uint32_t>(bound.whole.size());
  const auto m = static_cast<std::uint32_t>(bound.fraction.size());
  // Three states for each number of digits so far (fewer, equal, greater), then one for longer
  // texts, three for fractions that are decided or ended, and one for each digit of the fraction.
  const auto whole = [&](std::uint32_t k, std::uint32_t order) { return 1 + 3 * (k - 1) + order; };
  const std::uint32_t longer = 1 + 3 * n;
  const std::uint32_t smaller_fraction = longer + 1;
  const std::uint32_t greater_fraction = longer + 2;
  const auto fraction = [&](std::uint32_t j) { return longer + 3 + j; };
  dfa.states.assign(longer + 4 + m, {});
  const auto step = [&](std::uint32_t from, char pivot, std::uint32_t below, std::uint32_t at,
                        std::uint32_t above) {
    digits(dfa, from, '0', static_cast<char>(pivot - 1), below);
    digits(dfa, from, pivot, pivot, at);
    digits(dfa, from, static_cast<char>(pivot + 1), '9', above);
  };
  step(0, bound.whole[0], whole(1, 0), whole(1, 1), whole(1, 2));
  for (std::uint32_t k = 1; k <= n; ++k) {
    for (const std::uint32_t order : {0U, 1U, 2U}) {
      const std::uint32_t at = whole(k, order);
      const bool full = k == n;
      digits(dfa, at, '.', '.',
             !full || order == 0 ? smaller_fraction
             : order == 1        ? fraction(0)
                                 : greater_fraction);
      if (full) {
        digits(dfa, at, '0', '9', longer);
        const bool same = order == 1 && m == 0;
        dfa.states[at].final = same ? equal : order == 2 ? greater : less;
      } else {
        if (order == 1) {
          step(at, bound.whole[k], whole(k + 1, 0), whole(k + 1, 1), whole(k + 1, 2));
        } else {
          digits(dfa, at, '0', '9', whole(k + 1, order));
        }
        dfa.states[at].final = less;
      }
    }
  }
  digits(dfa, longer, '.', '.', greater_fraction);
  digits(dfa, longer, '0', '9', longer);
  dfa.states[longer].final = greater;
  digits(dfa, smaller_fraction, '0', '9', smaller_fraction);
  dfa.states[smaller_fraction].final = less;
  digits(dfa, greater_fraction, '0', '9', greater_fraction);
  dfa.states[greater_fraction].final = greater;
  for (std::uint32_t j = 0; j < m; ++j) {
    step(fraction(j), bound.fraction[j], smaller_fraction, fraction(j + 1), greater_fraction);
    dfa.states[fraction(j)].final = less;
  }
  digits(dfa, fraction(m), '0', '0', fraction(m));
  digits(dfa, fraction(m), '1', '9', greater_fraction);
  dfa.states[fraction(m)].final = equal;
  return dfa;
}

Dfa behind_minus(const Dfa& dfa) {
  Dfa out;
  out.states.insert(out.states.end(), dfa.states.begin(), dfa.states.end());
  for (Dfa::State& state : out.states) {
    for (Dfa::Edge& edge : state.edges) ++edge.next;
  }
  digits(out, 0, '-', '-', 1);
  return out;
}

}  // namespace

Result<Decimal> parse_decimal(std::string_view text) {
  Decimal out;
  std::size_t at = 0;
  out.negative = text.starts_with('-');
  if (out.negative) ++at;
  bool point = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      point = true;
    } else {
      out.digits += text[at];
      if (point) --out.exponent;
    }
  }
  if (at < text.size()) {
    std::int64_t power = 0;
    ++at;
    const bool down = text[at] == '-';
    if (text[at] == '-' || text[at] == '+') ++at;
    for (; at < text.size(); ++at)
      power = std::min<std::int64_t>(power * 10 + (text[at] - '0'), 1 << 20);
    out.exponent += down ? -power : power;
  }
  while (out.digits.ends_with('0')) {
    out.digits.pop_back();
    ++out.exponent;
  }
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  if (out.digits.empty()) return Decimal{};
  const auto size = static_cast<std::int64_t>(out.digits.size());
  REQUIRE_SUPPORTED(
      size <= kDigitsMax && out.exponent <= kDigitsMax - size && out.exponent >= -kDigitsMax,
      "a number has more than ", kDigitsMax, " digits when it is written out");
  return out;
}

std::string text_of(const Decimal& number) {
  const Written out = written(number);
  std::string text = number.negative ? "-" : "";
  text += out.whole;
  if (!out.fraction.empty()) text += "." + out.fraction;
  return text;
}

Result<Dfa> all_decimals(Budget& budget) {
  return regex_automaton("0|-?(?:[1-9][0-9]*|0\\.[0-9]*[1-9]|[1-9][0-9]*\\.[0-9]*[1-9])",
                         RegexMatch::kWhole, budget);
}

Result<Dfa> all_integers(Budget& budget) {
  return regex_automaton("0|-?[1-9][0-9]*", RegexMatch::kWhole, budget);
}

Result<Dfa> numbers_bounded(Bound bound, const Decimal& by, Budget& budget) {
  const bool up = bound == Bound::kAtLeast || bound == Bound::kAbove;
  const bool with = bound == Bound::kAtLeast || bound == Bound::kAtMost;
  const Written size = written(by);
  // Numbers with the bound's sign are compared with it; all others are in or out together.
  const bool away = up != by.negative;
  const Dfa near = magnitudes(size, !away, with, away);
  const Dfa any = magnitudes({"0", {}}, true, true, true);
  const bool own = by.negative;
  const bool other = up == by.negative;
  TRY(Dfa all, all_decimals(budget));
  Dfa sides = own ? behind_minus(near) : near;
  if (other) {
    TRY(sides, combine(sides, own ? any : behind_minus(any), SetOperation::kEither, budget));
  }
  return combine(all, sides, SetOperation::kBoth, budget);
}

Result<Dfa> multiples_of(const Decimal& divisor, Budget& budget) {
  INVARIANT(!divisor.digits.empty(), "nothing is a multiple of zero but itself");
  const auto places = static_cast<std::uint32_t>(std::max<std::int64_t>(0, -divisor.exponent));
  std::uint64_t modulus = 0;
  for (const char digit : divisor.digits) {
    modulus = std::min<std::uint64_t>(modulus * 10 + static_cast<std::uint64_t>(digit - '0'),
                                      kRemainders + 1);
  }
  for (std::int64_t i = 0; i < divisor.exponent; ++i) {
    modulus = std::min<std::uint64_t>(modulus * 10, kRemainders + 1);
  }
  REQUIRE_SUPPORTED(modulus * (places + 2) <= kRemainders, "the divisor ", text_of(divisor),
                    " needs more than ", kRemainders, " remainders");
  const auto rest = static_cast<std::uint32_t>(modulus);
  // Behind the sign: level 0 has read digits ahead of the point, level 1 + f the point and f more.
  Dfa dfa;
  dfa.states.assign(1 + std::size_t{rest} * (places + 2), {});
  const auto state = [&](std::uint32_t level, std::uint32_t left) {
    return 1 + level * rest + left;
  };
  std::uint32_t power = 1 % rest;
  for (std::uint32_t level = places + 2; level-- > 0;) {
    for (std::uint32_t left = 0; left < rest; ++left) {
      const std::uint32_t at = state(level, left);
      dfa.states[at].final = std::uint64_t{left} * power % rest == 0;
      if (level == 0 && places > 0) digits(dfa, at, '.', '.', state(1, left));
      const std::uint32_t to = level == 0 ? 0 : level + 1;
      if (to > places + 1) continue;
      for (char digit = '0'; digit <= '9'; ++digit) {
        const auto next = (left * 10 + static_cast<std::uint32_t>(digit - '0')) % rest;
        digits(dfa, at, digit, digit, state(to, next));
      }
    }
    // The decimal point does not change the power of ten.
    if (level != 1) power = static_cast<std::uint32_t>(std::uint64_t{power} * 10 % rest);
  }
  for (char digit = '0'; digit <= '9'; ++digit) {
    digits(dfa, 0, digit, digit, 1 + static_cast<std::uint32_t>(digit - '0') % rest);
  }
  TRY(Dfa both, combine(dfa, behind_minus(dfa), SetOperation::kEither, budget));
  TRY(const Dfa all, all_decimals(budget));
  return combine(all, both, SetOperation::kBoth, budget);
}

Result<Dfa> with_zeros(const Dfa& numbers, Budget& budget) {
  const bool fractions = std::ranges::any_of(numbers.states, [](const Dfa::State& state) {
    return std::ranges::any_of(state.edges,
                               [](const Dfa::Edge& edge) { return edge.on.low == '.'; });
  });
  if (!fractions) return numbers;
  Nfa nfa;
  const auto count = static_cast<std::uint32_t>(numbers.states.size());
  for (std::uint32_t i = 0; i < 2 * count + 2; ++i) nfa.add();
  const std::uint32_t point = 2 * count;
  const std::uint32_t zeros = 2 * count + 1;
  nfa.edge(point, {'0', '0'}, zeros);
  nfa.edge(zeros, {'0', '0'}, zeros);
  nfa.set_final(zeros);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const Dfa::Edge& edge : numbers.states[i].edges) {
      nfa.edge(i, edge.on, edge.on.low == '.' ? count + edge.next : edge.next);
      nfa.edge(count + i, edge.on, count + edge.next);
    }
    if (!numbers.states[i].final) continue;
    nfa.set_final(i);
    nfa.set_final(count + i);
    nfa.edge(i, {'.', '.'}, point);
    nfa.edge(count + i, {'0', '0'}, zeros);
  }
  return nfa.determinise(0, budget);
}

}  // namespace hearth::model
