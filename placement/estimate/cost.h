// What hardware and its electricity cost an hour, and a token.
#pragma once

#include "placement/estimate/figures.h"

namespace hearth::placement {

inline constexpr double kHoursOfYear = 365.0 * 24.0;
inline constexpr double kYearsOfUse = 3.0;  // over which a machine is written off

// USD an hour.
double hardware_usd(double price, double years);
double electricity_usd(double watts, double usd_per_kwh);

// Tokens for one USD.
double tokens_per_usd(double tokens_per_second, double usd_per_hour);

// Of `cards` cards in machines of the host's kind, joined by the network where there is more than
// one. USD 0: a part has no published price.
struct Purchase {
  std::uint32_t machines = 0;
  double usd = 0.0;
  double watts = 0.0;
};
Purchase purchase_of(const Card& card, std::uint32_t cards, const Host& host,
                     const Network& network);

}  // namespace hearth::placement
