// The wait that a refused request is told (Retry-After).
#pragma once

#include <cstdint>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// Seconds after which a refused request may find room, 1 to 3600: until what the coordinator has
// accepted is done, at the rate at which tokens come now (Api::last_bounds).
std::uint32_t predicted_wait(const Api& api);

}  // namespace hearth::coordinator::http
