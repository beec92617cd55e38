// Answers a request with the coordinator's status, on the socket thread.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// `function`: SwarmStatus -> HttpResponse. 503 when the coordinator does not answer within
// HttpTimeouts::status.
template <typename Function>
void respond_with_status(const std::shared_ptr<Api>& api, std::shared_ptr<ResponseWriter> writer,
                         Function function) {
  // The first of the two tasks takes the writer; both run on the socket thread.
  auto open = std::make_shared<std::shared_ptr<ResponseWriter>>(std::move(writer));
  const std::uint32_t seconds = api->options.timeouts.status;
  if (api->later) {
    api->later(std::chrono::seconds(seconds), [open, seconds] {
      if (const auto taken = std::exchange(*open, nullptr)) {
        taken->respond(error_response(silent_coordinator(seconds)));
      }
    });
  }
  api->port.status([api, open = std::move(open), function](SwarmStatus status) {
    api->sockets.post([open, function, status = std::move(status)] {
      if (const auto taken = std::exchange(*open, nullptr)) taken->respond(function(status));
    });
  });
}

}  // namespace hearth::coordinator::http
