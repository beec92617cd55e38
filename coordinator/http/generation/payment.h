// What an answer costs where the cluster has credits: the credit that is held for it before it
// starts, and what its client is told of the price. Socket thread only.
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

}  // namespace hearth::coordinator::http
