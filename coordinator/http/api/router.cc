#include "coordinator/http/api/router.h"

#include <spdlog/fmt/fmt.h>

#include <array>

namespace hearth::coordinator::http {
namespace {

struct Row {
  std::string_view method;
  std::string_view path;
  bool is_prefix;
  Handler handler;
  Access access;
};

constexpr std::array kRoutes = {
    Row{"POST", "/v1/chat/completions", false, handle_chat, Access::kModel},
    Row{"POST", "/v1/completions", false, handle_completion, Access::kModel},
    Row{"DELETE", "/v1/requests", false, handle_forget, Access::kKey},
    Row{"GET", "/v1/models", false, handle_models, Access::kKey},
    Row{"GET", "/v1/models/", true, handle_model, Access::kModel},
    Row{"POST", "/tokenize", false, handle_tokenize, Access::kModel},
    Row{"POST", "/detokenize", false, handle_detokenize, Access::kModel},
    Row{"POST", "/apply-template", false, handle_apply_template, Access::kModel},
    Row{"GET", "/health", false, handle_ready, Access::kKey},
    Row{"GET", "/v1/health", false, handle_ready, Access::kKey},
    Row{"GET", "/readyz", false, handle_ready, Access::kKey},
    Row{"GET", "/livez", false, handle_live, Access::kLocal},
    Row{"GET", "/metrics", false, handle_metrics, Access::kAdmin},
    Row{"GET", "/api/v1/state", false, handle_state, Access::kAdmin},
    Row{"POST", "/api/v1/grants", false, handle_grant, Access::kAdmin},
};

bool is_probe(Handler handler) {
  return handler == handle_live || handler == handle_ready || handler == handle_metrics;
}

}  // namespace

RouteMatch find_route(std::string_view method, std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Row& row : kRoutes) {
    const bool matches = row.is_prefix ? path.starts_with(row.path) && path.size() > row.path.size()
                                       : path == row.path;
    if (!matches) continue;
    if (row.method == wanted) {
      return {row.handler, std::nullopt, row.access, is_probe(row.handler)};
    }
    HttpResponse refusal = error_response(
        ApiError::of(405, fmt::format("{} supports the method {} only", path, row.method),
                     "method_not_allowed"));
    const char* head = row.method == "GET" ? ", HEAD" : "";
    refusal.headers.emplace_back("Allow", fmt::format("{}{}, OPTIONS", row.method, head));
    return {nullptr, std::move(refusal)};
  }
  return {nullptr, error_response(ApiError::not_found(
                       "unknown path: " + valid_utf8(path.substr(0, 256)), "not_found"))};
}

}  // namespace hearth::coordinator::http
