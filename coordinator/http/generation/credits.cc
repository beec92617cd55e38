// What a generation costs: credit that is kept before it starts, and what its answer says of it.
#include "coordinator/http/generation/generation.h"

namespace hearth::coordinator::http {
namespace {

ApiError unpayable(const std::string& why, std::uint32_t wait) {
  ApiError error = from_coordinator({ErrorCode::kUnavailable, why}, wait);
  error.code = "ledger_unavailable";
  return error;
}

}  // namespace

std::optional<ApiError> Generation::reserve() {
  Credits* const credits = api_->options.credits.get();
  if (credits == nullptr) return std::nullopt;
  if (!receipt_) {
    return unpayable("the ledger cannot be kept now, and this cluster runs with credits",
                     predicted_wait(*api_, status_));
  }
  std::vector<Credits::Item> items;
  std::vector<std::size_t> whose;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].settled) continue;
    const auto price = dearest({}, api_->model.spec.layers, running_[i].prompt_tokens,
                               lengths_[i / input_.request.n]);
    if (!price) return from_coordinator(price.error(), 1);
    whose.push_back(i);
    items.push_back({receipt_order(static_cast<std::uint32_t>(i))->request, *price});
  }
  auto holds = credits->reserve(input_.request.account, items);
  if (!holds && holds.error().code == ErrorCode::kRefused) {
    return out_of_credit(holds.error().message);
  }
  const std::uint32_t wait = predicted_wait(*api_, status_);
  if (!holds && holds.error().code == ErrorCode::kUnavailable) {
    return unpayable(holds.error().message, wait);
  }
  if (!holds) return from_coordinator(holds.error(), wait);
  for (std::size_t i = 0; i < whose.size(); ++i) running_[whose[i]].paid = std::move((*holds)[i]);
  return std::nullopt;
}

// Of the tokens that were fed; the last one of an answer never is. The log rounds the fee down by
// window and stage, so a few credits of it may be missing there.
OrderedJson Generation::credits_object() const {
  std::int64_t price = 0;
  for (const Running& running : running_) {
    const std::uint64_t tokens = running.choice.tokens();
    const auto one =
        dearest({}, api_->model.spec.layers, running.prompt_tokens, tokens == 0 ? 0 : tokens - 1);
    price += one ? *one : 0;  // reserve() has refused what has none
  }
  const Credits::Balance left = api_->options.credits->balance(input_.request.account);
  OrderedJson out;
  out["price"] = price;
  out["account"] = input_.request.account.hex();
  out["balance"] = left.spendable - left.reserved;
  return out;
}

}  // namespace hearth::coordinator::http
