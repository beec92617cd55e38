// The cheapest set of cards, machines and network that serves a number of users at a speed.
// Considers cards that Hearth runs on and that have a price, and pipelines with their replicas:
// what Hearth can serve today (kRunsTensorParallel). The caller knows whether cards compute the
// model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/estimate/cost.h"
#include "placement/estimate/speed.h"

namespace hearth::placement {

struct Goal {
  double per_user = 0.0;    // tokens a second of each user
  std::uint64_t users = 0;  // at the same time, each with a full context
  double usd = 0.0;         // the most that may be spent
};

struct Market {
  std::vector<Card> cards;
  std::vector<Network> networks;  // all priced
  std::vector<Host> hosts;
};

struct Offer {
  EstimateInput setup;  // with the batch of the best layout
  Host host;
  Purchase purchase;
  Estimate best;                 // the layout that serves most users at the goal's speed
  std::uint64_t users_most = 0;  // users served at that speed; 0: none
};

// What a further purchase buys: the best in users for each USD.
struct NextStep {
  enum class Change : std::uint8_t { kCards, kNetwork, kCard };
  Change change = Change::kCards;
  Offer after;
  double usd = 0.0;  // beyond the offer's
};

struct PurchasePlan {
  std::optional<Offer> cheapest;  // the cheapest that reaches the goal within the budget
  std::optional<Offer> most;      // else the one within the budget that serves most users
  // Of that offer: doubling this resource adds the most users. Absent when doubling any one of
  // them adds no user.
  std::optional<Bound> bound;
  std::uint64_t users_with_twice = 0;
  std::optional<NextStep> next;
};

// The most users that the setup serves at `per_user` tokens/s, with the layout and batch for it.
Offer serve_most(EstimateInput setup, const Host& host, double per_user);

// `setup`: shape, bits and context; the rest is chosen.
PurchasePlan plan_purchase(const EstimateInput& setup, const Market& market, const Goal& goal);

}  // namespace hearth::placement
