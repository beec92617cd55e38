#include "placement/estimate/purchase.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::placement {
namespace {

// The largest batch with which every user has the speed and a full context, and each of whose rows
// has a user in some step; 0: none.
std::uint32_t largest_batch(EstimateInput& setup, const Layout& layout, double per_user) {
  const std::uint64_t steps = std::uint64_t{layout.replicas} * batches_of_users(layout.stages);
  const auto serves = [&](std::uint32_t batch) {
    setup.batch = batch;
    const Estimate found = estimate(setup, layout);
    return found.users > 0 && found.per_user >= per_user &&
           found.users + steps > found.users_wanted;
  };
  std::uint32_t low = 0;
  std::uint32_t high = limits::kBatchRows + 1;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (serves(middle) ? low : high) = middle;
  }
  return low;
}

EstimateInput with(EstimateInput setup, const Card& card, std::uint32_t cards, const Host& host,
                   const Network& network) {
  setup.card = card;
  setup.cards = cards;
  setup.cards_per_machine = card.whole_machine ? 1 : host.cards;
  setup.network = network;
  return setup;
}

Offer offer_of(const EstimateInput& setup, const Card& card, std::uint32_t cards, const Host& host,
               const Network& network, double per_user) {
  return serve_most(with(setup, card, cards, host, network), host, per_user);
}

Purchase price_of(const Card& card, std::uint32_t cards, const Host& host, const Network& network) {
  const CardSet set = {card, cards};
  return purchase_of({&set, 1}, host, network);
}

bool is_sold(const EstimateInput& setup, const Card& card) {
  return card.runs && card.usd > 0.0 && (!is_f32(setup) || card.fp32_flops > 0.0);
}

// The search over everything that costs at most `usd`. Calls `each` with every offer; it returns
// the most that a later offer may cost.
template <typename Each>
void for_each_offer(const EstimateInput& setup, const Market& market, const Goal& goal, Each each) {
  double most_usd = goal.usd;
  for (const Card& card : market.cards) {
    if (!is_sold(setup, card)) continue;
    for (const Host& host : market.hosts) {
      if (!takes(host, card)) continue;
      for (const Network& network : market.networks) {
        for (std::uint32_t cards = 1; cards <= limits::kBoughtCards; ++cards) {
          const Purchase purchase = price_of(card, cards, host, network);
          if (purchase.usd <= 0.0 || purchase.usd > most_usd) break;
          const bool reached = each(offer_of(setup, card, cards, host, network, goal.per_user));
          if (!reached) continue;
          most_usd = purchase.usd;
          break;
        }
      }
    }
  }
}

// What doubling each resource gives.
void find_bound(PurchasePlan& plan, const Offer& offer, const Goal& goal) {
  const std::array<std::pair<Bound, EstimateInput>, 5> doubled = [&] {
    std::array<std::pair<Bound, EstimateInput>, 5> setups;
    setups.fill({Bound::kCapacity, offer.setup});
    setups[0].second.card.memory_bytes *= 2.0;
    setups[1].first = Bound::kBandwidth;
    setups[1].second.card.memory_bytes_per_second *= 2.0;
    setups[2].first = Bound::kCompute;
    setups[2].second.card.int8_flops *= 2.0;
    setups[2].second.card.fp16_flops *= 2.0;
    setups[2].second.card.fp32_flops *= 2.0;
    setups[3].first = Bound::kLinkRate;
    setups[3].second.card.link_bytes_per_second *= 2.0;
    setups[3].second.network.bytes_per_second *= 2.0;
    setups[4].first = Bound::kLinkDelay;
    setups[4].second.card.link_seconds /= 2.0;
    setups[4].second.network.delay_seconds /= 2.0;
    return setups;
  }();
  for (const auto& [bound, setup] : doubled) {
    const std::uint64_t users = serve_most(setup, offer.host, goal.per_user).users_most;
    if (users <= plan.users_with_twice) continue;
    plan.users_with_twice = users;
    plan.bound = bound;
  }
}

void consider(PurchasePlan& plan, const Offer& now, NextStep::Change change, Offer after) {
  const double usd = after.purchase.usd - now.purchase.usd;
  if (after.purchase.usd <= 0.0 || usd <= 0.0 || after.users_most <= now.users_most) return;
  const auto value = [&](const Offer& offer, double price) {
    return static_cast<double>(offer.users_most - now.users_most) / price;
  };
  if (plan.next && value(plan.next->after, plan.next->usd) >= value(after, usd)) return;
  plan.next = NextStep{change, std::move(after), usd};
}

void find_next(PurchasePlan& plan, const Offer& now, const EstimateInput& setup,
               const Market& market, const Goal& goal) {
  const EstimateInput& has = now.setup;
  const std::uint32_t most = std::min(limits::kBoughtCards, 2 * has.cards);
  for (std::uint32_t cards = has.cards + 1; cards <= most; ++cards) {
    consider(plan, now, NextStep::Change::kCards,
             offer_of(setup, has.card, cards, now.host, has.network, goal.per_user));
  }
  for (const Network& network : market.networks) {
    consider(plan, now, NextStep::Change::kNetwork,
             offer_of(setup, has.card, has.cards, now.host, network, goal.per_user));
  }
  for (const Card& card : market.cards) {
    const bool fits = takes(now.host, card) && card.whole_machine == has.card.whole_machine;
    if (!is_sold(setup, card) || !fits) continue;
    consider(plan, now, NextStep::Change::kCard,
             offer_of(setup, card, has.cards, now.host, has.network, goal.per_user));
  }
}

}  // namespace

Offer serve_most(EstimateInput setup, const Host& host, double per_user) {
  Offer offer;
  offer.host = host;
  offer.purchase = price_of(setup.card, setup.cards, host, setup.network);
  for (std::uint32_t stages = 1; stages <= std::min(setup.cards, setup.shape.layers); ++stages) {
    const Layout layout{stages, 1, setup.cards / stages};
    setup.batch = 1;
    if (estimate(setup, layout).users_room == 0) continue;
    const std::uint32_t batch = largest_batch(setup, layout, per_user);
    setup.batch = std::max(1U, batch);
    Estimate found = estimate(setup, layout);
    const std::uint64_t users = batch == 0 ? 0 : found.users;
    if (offer.best.users > 0 && users <= offer.users_most) continue;
    offer.setup = setup;
    offer.best = found;
    offer.users_most = users;
  }
  if (offer.best.users == 0) offer.setup = std::move(setup);
  return offer;
}

PurchasePlan plan_purchase(const EstimateInput& setup, const Market& market, const Goal& goal) {
  INVARIANT(goal.per_user > 0.0 && goal.users > 0, "the goal is a speed for some users");
  PurchasePlan plan;
  for_each_offer(setup, market, goal, [&](Offer offer) {
    const bool reached = offer.users_most >= goal.users;
    if (reached) {
      const bool better = !plan.cheapest || offer.purchase.usd < plan.cheapest->purchase.usd ||
                          offer.users_most > plan.cheapest->users_most;
      if (better) plan.cheapest = std::move(offer);
    } else if (offer.users_most > (plan.most ? plan.most->users_most : 0)) {
      plan.most = std::move(offer);
    }
    return reached;
  });
  if (plan.cheapest) plan.most.reset();
  const std::optional<Offer>& chosen = plan.cheapest ? plan.cheapest : plan.most;
  if (!chosen) return plan;
  plan.users_with_twice = chosen->users_most;
  find_bound(plan, *chosen, goal);
  find_next(plan, *chosen, setup, market, goal);
  return plan;
}

}  // namespace hearth::placement
