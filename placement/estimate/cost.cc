#include "placement/estimate/cost.h"

#include "base/check.h"

namespace hearth::placement {

double hardware_usd(double price, double years) { return price / (years * kHoursOfYear); }

double electricity_usd(double watts, double usd_per_kwh) { return watts / 1000.0 * usd_per_kwh; }

double tokens_per_usd(double tokens_per_second, double usd_per_hour) {
  INVARIANT(usd_per_hour > 0.0, "machines cost something");
  return tokens_per_second * 3600.0 / usd_per_hour;
}

Purchase purchase_of(const Card& card, std::uint32_t cards, const Host& host,
                     const Network& network) {
  INVARIANT(host.cards >= 1, "a machine has a place for a card");
  const std::uint32_t each = card.whole_machine ? 1 : host.cards;
  Purchase purchase;
  purchase.machines = (cards + each - 1) / each;
  const double hosts = card.whole_machine ? 0.0 : purchase.machines;
  purchase.watts = cards * card.watts + hosts * host.watts;
  const bool priced = card.usd > 0.0 && (purchase.machines == 1 || network.priced);
  if (!priced) return purchase;
  const double ports = purchase.machines > 1 ? purchase.machines * network.port_usd : 0.0;
  purchase.usd = cards * card.usd + hosts * host.usd + ports;
  return purchase;
}

}  // namespace hearth::placement
