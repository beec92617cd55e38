// What an answer costs: the credit that is held for it before it starts where the cluster has
// credits, what its client is told of the price, and the wait for room. Socket thread only.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/http/api/api.h"
#include "coordinator/http/generation/answer.h"
#include "coordinator/proof/credits.h"

namespace hearth::coordinator::http {

// Holds credit for every choice that is not settled, at the price of its whole length. `holds`: by
// choice. An error where the account cannot pay, or the ledger cannot be kept now.
std::optional<ApiError> hold_credit(const Api& api, const Answer& answer,
                                    std::vector<Credits::Hold>& holds);

// `credits` of the hearth object: the price of the tokens that were fed, and the account's balance.
OrderedJson credits_object(const Api& api, const Answer& answer);

// Seconds after which a refused request may find room, 1 to 3600 (Retry-After): until what the
// coordinator has accepted is done, at the rate at which tokens come now (Api::last_bounds).
std::uint32_t predicted_wait(const Api& api);

}  // namespace hearth::coordinator::http
