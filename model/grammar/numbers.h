// Sets of numbers as automata over their decimal texts.
//
// Each number has one text: no exponent, no zero at the end of a fraction, no "-0". So the set
// operations of automata are those of numbers. Only what is generated may have more zeros.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/grammar/automaton.h"

namespace hearth::model {

// digits * 10^exponent; digits without zeros at either end, empty for 0.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;

  bool integer() const { return digits.empty() || exponent >= 0; }
};

// A JSON number. kUnsupported where it has more than 400 digits written out.
Result<Decimal> parse_decimal(std::string_view text);
std::string text_of(const Decimal& number);

Result<Dfa> all_decimals(Budget& budget);
Result<Dfa> all_integers(Budget& budget);
enum class Bound : std::uint8_t { kAtLeast, kAbove, kAtMost, kBelow };
Result<Dfa> numbers_bounded(Bound bound, const Decimal& by, Budget& budget);
// kUnsupported where the divisor needs more than 4,096 remainders.
Result<Dfa> multiples_of(const Decimal& divisor, Budget& budget);
// The texts that are generated: also with zeros at the end of a fraction, where the set has
// fractions at all.
Result<Dfa> with_zeros(const Dfa& numbers, Budget& budget);

}  // namespace hearth::model
