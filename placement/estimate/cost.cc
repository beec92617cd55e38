#include "placement/estimate/cost.h"

#include "base/check.h"

namespace hearth::placement {

double hardware_usd(double price, double years) { return price / (years * kHoursOfYear); }

double electricity_usd(double watts, double usd_per_kwh) { return watts / 1000.0 * usd_per_kwh; }

double tokens_per_usd(double tokens_per_second, double usd_per_hour) {
  INVARIANT(usd_per_hour > 0.0, "machines cost something");
  return tokens_per_second * 3600.0 / usd_per_hour;
}

Purchase purchase_of(std::span<const CardSet> sets, const Host& host, const Network& network) {
  INVARIANT(host.cards >= 1, "a machine has a place for a card");
  std::uint32_t placed = 0;  // in hosts
  std::uint32_t whole = 0;
  Purchase all;
  bool priced = true;
  bool powered = true;
  for (const CardSet& set : sets) {
    (set.card.whole_machine ? whole : placed) += set.count;
    all.usd += set.count * set.card.usd;
    all.watts += set.count * set.card.watts;
    priced = priced && set.card.usd > 0.0;
    powered = powered && set.card.watts > 0.0;
  }
  const std::uint32_t hosts = (placed + host.cards - 1) / host.cards;
  all.machines = hosts + whole;
  all.usd += hosts * host.usd;
  all.watts += hosts * host.watts;
  if (all.machines > 1) {
    all.usd += all.machines * network.port_usd;
    priced = priced && network.priced;
  }
  if (!priced || (hosts > 0 && host.usd <= 0.0)) all.usd = 0.0;
  if (!powered || (hosts > 0 && host.watts <= 0.0)) all.watts = 0.0;
  return all;
}

double usd_per_hour(const Purchase& purchase, double usd_per_kwh) {
  return hardware_usd(purchase.usd, kYearsOfUse) + electricity_usd(purchase.watts, usd_per_kwh);
}

}  // namespace hearth::placement
