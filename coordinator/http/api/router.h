// The table of paths. Looked up before a body is read, so that a wrong path or method costs
// nothing.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

using Handler = void (*)(const std::shared_ptr<Api>& api, HttpRequest request,
                         std::shared_ptr<Exchange> exchange);

struct RouteMatch {
  Handler handler = nullptr;            // null: `refusal` says why
  std::optional<HttpResponse> refusal;  // 404, or 405 with Allow
  Access access = Access::kKey;         // asked of unknown paths too: no map for strangers
  bool probe = false;                   // short, and asked by those who watch this process
};

// HEAD is GET without its body. OPTIONS is the session's.
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace hearth::coordinator::http
