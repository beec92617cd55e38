// Asks the coordinator for its status and answers on the socket thread.
#pragma once

#include <memory>
#include <utility>

#include "coordinator/http/api.h"

namespace hearth::coordinator::http {

// `function`: SwarmStatus -> HttpResponse.
template <typename Function>
void respond_with_status(const std::shared_ptr<Api>& api, std::shared_ptr<Exchange> exchange,
                         Function function) {
  api->port.status([api, exchange = std::move(exchange), function](SwarmStatus status) {
    api->sockets.post(
        [exchange, function, status = std::move(status)] { exchange->respond(function(status)); });
  });
}

}  // namespace hearth::coordinator::http
