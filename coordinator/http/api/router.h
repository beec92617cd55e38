// The table of routes. It is looked up before a body is read, so that a wrong path or method costs
// nothing.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

using Handler = void (*)(const std::shared_ptr<Api>& api, HttpRequest request,
                         std::shared_ptr<ResponseWriter> writer);

struct RouteMatch {
  Handler handler = nullptr;            // null: `refusal` says why
  std::optional<HttpResponse> refusal;  // 404, or 405 with Allow
  Access access = Access::kKey;         // for unknown paths, too: they are not revealed
  bool probe = false;                   // a short answer, for monitoring
};

// HEAD is GET without its body. The session answers OPTIONS itself.
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace hearth::coordinator::http
