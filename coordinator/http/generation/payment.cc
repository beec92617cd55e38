#include "coordinator/http/generation/payment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "coordinator/http/generation/generation.h"

namespace hearth::coordinator::http {
namespace {

ApiError unpayable(const std::string& why, std::uint32_t wait) {
  ApiError error = from_coordinator({ErrorCode::kUnavailable, why}, wait);
  error.code = "ledger_unavailable";
  return error;
}

}  // namespace

std::optional<ApiError> hold_credit(const Api& api, const Answer& answer,
                                    std::vector<Credits::Hold>& holds) {
  INVARIANT(holds.size() == answer.size(), "each choice has a hold");
  Credits* const credits = api.options.credits.get();
  if (credits == nullptr) return std::nullopt;
  if (!answer.identity().has_receipts()) {
    return unpayable("the ledger cannot be written now, and this cluster runs with credits",
                     predicted_wait(api));
  }
  std::vector<Credits::Item> items;
  std::vector<std::uint32_t> choices;
  for (std::uint32_t i = 0; i < answer.size(); ++i) {
    const Answer::Part& part = answer.part(i);
    if (part.settled) continue;
    const auto price = dearest({}, api.model.spec.layers, part.prompt_tokens, part.max_tokens);
    if (!price) return from_coordinator(price.error(), 1);
    choices.push_back(i);
    items.push_back({answer.identity().receipt_order(i)->request, *price});
  }
  auto held = credits->reserve(answer.request().policy.account, items);
  if (!held && held.error().code == ErrorCode::kRefused) {
    ApiError error =
        ApiError::of(429, held.error().message, "insufficient_quota", "insufficient_quota");
    error.final = true;  // the same request would be refused again
    return error;
  }
  if (!held && held.error().code == ErrorCode::kUnavailable) {
    return unpayable(held.error().message, predicted_wait(api));
  }
  if (!held) return from_coordinator(held.error(), predicted_wait(api));
  INVARIANT(held->size() == choices.size(), "each item has a hold");
  for (std::size_t i = 0; i < choices.size(); ++i) holds[choices[i]] = std::move((*held)[i]);
  return std::nullopt;
}

// The last token of an answer is never fed. The log rounds the fee down by window and stage, so a
// few credits of it may be missing there.
OrderedJson credits_object(const Api& api, const Answer& answer) {
  std::int64_t price = 0;
  for (const Answer::Part& part : answer.parts()) {
    const std::uint64_t tokens = part.choice.tokens();
    const auto one =
        dearest({}, api.model.spec.layers, part.prompt_tokens, tokens == 0 ? 0 : tokens - 1);
    price += one ? *one : 0;  // hold_credit() has refused what has no price
  }
  const PublicKey& account = answer.request().policy.account;
  const Credits::Balance left = api.options.credits->balance(account);
  return {
      {"price", price}, {"account", account.hex()}, {"balance", left.spendable - left.reserved}};
}

std::uint32_t predicted_wait(const Api& api) {
  constexpr double kLongest = 3600.0;
  constexpr double kAssumedRate = 100.0;  // tokens a second, until the first token is counted
  const RequestBounds& swarm = api.last_bounds;
  double tokens = 0.0;
  for (const auto& generation : api.generations) {
    tokens += static_cast<double>(generation->tokens_to_come());
  }
  // With no token ahead, the queue is assumed to move as it did, by whole requests.
  const double running = std::max<double>(1.0, swarm.running);
  const double rate = swarm.tokens_per_second > 0.0 ? swarm.tokens_per_second : kAssumedRate;
  const double seconds = tokens > 0.0
                             ? tokens * api.metrics.used_share() / rate
                             : api.metrics.mean_request_seconds() * (swarm.waiting + 1) / running;
  return static_cast<std::uint32_t>(std::clamp(std::ceil(seconds), 1.0, kLongest));
}

}  // namespace hearth::coordinator::http
