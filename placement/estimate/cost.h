// What hardware and its electricity cost an hour, and a token.
#pragma once

#include <cstdint>
#include <span>

#include "placement/estimate/figures.h"

namespace hearth::placement {

inline constexpr double kHoursOfYear = 365.0 * 24.0;
inline constexpr double kYearsOfUse = 3.0;  // over which a machine is written off

// USD an hour.
double hardware_usd(double price, double years);
double electricity_usd(double watts, double usd_per_kwh);

// Tokens for one USD.
double tokens_per_usd(double tokens_per_second, double usd_per_hour);

struct CardSet {
  Card card;
  std::uint32_t count = 0;
};

// Of the cards in machines of the host's kind, joined by the network where there is more than one.
// A card that is a whole machine stands beside these. USD or watts 0: a part has no published ones.
struct Purchase {
  std::uint32_t machines = 0;
  double usd = 0.0;
  double watts = 0.0;
};
Purchase purchase_of(std::span<const CardSet> sets, const Host& host, const Network& network);

// USD an hour of hardware and electricity; of an unknown one nothing. 0: both are unknown.
double usd_per_hour(const Purchase& purchase, double usd_per_kwh);

}  // namespace hearth::placement
