#include "coordinator/http/router.h"

#include <array>

#include "coordinator/http/handlers.h"

namespace hearth::coordinator::http {
namespace {

struct Row {
  std::string_view method;
  std::string_view path;
  bool is_prefix;
  Handler handler;
};

constexpr std::array kRoutes = {
    Row{"POST", "/v1/chat/completions", false, handle_chat},
    Row{"POST", "/v1/completions", false, handle_completion},
    Row{"GET", "/v1/models", false, handle_models},
    Row{"GET", "/v1/models/", true, handle_model},
    Row{"POST", "/tokenize", false, handle_tokenize},
    Row{"POST", "/detokenize", false, handle_detokenize},
    Row{"POST", "/apply-template", false, handle_apply_template},
    Row{"GET", "/health", false, handle_ready},
    Row{"GET", "/v1/health", false, handle_ready},
    Row{"GET", "/readyz", false, handle_ready},
    Row{"GET", "/livez", false, handle_live},
    Row{"GET", "/metrics", false, handle_metrics},
    Row{"GET", "/api/v1/state", false, handle_state},
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
    if (row.method == wanted) return {row.handler, std::nullopt, is_probe(row.handler)};
    ApiError error =
        ApiError::invalid(std::string(path) + " answers " + std::string(row.method) + " only",
                          std::nullopt, "method_not_allowed");
    error.status = 405;
    HttpResponse refusal = error_response(error);
    const bool get = row.method == "GET";
    refusal.headers.emplace_back("Allow", get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
    return {nullptr, std::move(refusal), false};
  }
  return {nullptr,
          error_response(ApiError::not_found(
              "there is nothing at " + valid_utf8(path.substr(0, 256)), "not_found")),
          false};
}

}  // namespace hearth::coordinator::http
