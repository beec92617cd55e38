#include "coordinator/http/api/router.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string>

namespace hearth::coordinator::http {
namespace {

struct Row {
  std::string_view method;
  std::string_view path;  // with a slash at its end: of all paths below it; but "/" is itself
  Handler handler;
  Access access;
  bool probe = false;
  Dialect dialect = Dialect::kOpenAi;
};

constexpr std::array kRoutes = {
    Row{"GET", "/", handle_page, Access::kPage},
    Row{"GET", "/pages/", handle_page, Access::kPage},
    Row{"POST", "/v1/chat/completions", handle_chat, Access::kModel},
    Row{"POST", "/v1/completions", handle_completion, Access::kModel},
    Row{"POST", "/v1/chat/completions/input_tokens", handle_count_input, Access::kModel},
    Row{"POST", "/v1/embeddings", handle_embeddings, Access::kModel},
    Row{"POST", "/v1/responses", handle_responses, Access::kModel, false, Dialect::kResponses},
    Row{"POST", "/v1/responses/input_tokens", handle_count_input, Access::kModel, false,
        Dialect::kResponses},
    Row{"POST", "/v1/messages", handle_messages, Access::kModel, false, Dialect::kAnthropic},
    Row{"POST", "/v1/messages/count_tokens", handle_count_messages, Access::kModel, false,
        Dialect::kAnthropic},
    Row{"POST", "/api/chat", handle_ollama_chat, Access::kModel, false, Dialect::kOllama},
    Row{"POST", "/api/generate", handle_ollama_generate, Access::kModel, false,
        Dialect::kOllamaGenerate},
    Row{"GET", "/api/tags", handle_ollama_tags, Access::kKey, false, Dialect::kOllama},
    Row{"POST", "/api/show", handle_ollama_show, Access::kModel, false, Dialect::kOllama},
    Row{"GET", "/api/ps", handle_ollama_running, Access::kKey, false, Dialect::kOllama},
    Row{"GET", "/api/version", handle_ollama_version, Access::kKey, false, Dialect::kOllama},
    Row{"POST", "/api/embed", handle_ollama_embed, Access::kModel, false, Dialect::kOllama},
    Row{"POST", "/api/embeddings", handle_ollama_embeddings, Access::kModel, false,
        Dialect::kOllama},
    Row{"DELETE", "/v1/requests", handle_forget, Access::kKey},
    Row{"GET", "/v1/models", handle_models, Access::kKey},
    Row{"GET", "/v1/models/", handle_model, Access::kModel},
    Row{"POST", "/tokenize", handle_tokenize, Access::kModel},
    Row{"POST", "/detokenize", handle_detokenize, Access::kModel},
    Row{"POST", "/apply-template", handle_apply_template, Access::kModel},
    Row{"GET", "/health", handle_ready, Access::kKey, true},
    Row{"GET", "/v1/health", handle_ready, Access::kKey, true},
    Row{"GET", "/readyz", handle_ready, Access::kKey, true},
    Row{"GET", "/readyz/", handle_model_ready, Access::kModel, true},
    Row{"GET", "/livez", handle_live, Access::kLocal, true},
    Row{"GET", "/metrics", handle_metrics, Access::kAdmin, true},
    Row{"GET", "/api/v1/state", handle_state, Access::kState},
    Row{"POST", "/api/v1/grants", handle_grant, Access::kOwner},
    Row{"GET", "/api/v1/plan", handle_plan_models, Access::kState},
    Row{"GET", "/api/v1/plan/", handle_plan, Access::kState},
    Row{"GET", "/api/v1/ledger", handle_ledger, Access::kState},
    Row{"GET", "/api/v1/receipts/", handle_receipt, Access::kKey},
    Row{"GET", "/api/v1/members", handle_members, Access::kManage},
    Row{"POST", "/api/v1/members/approve", handle_approve, Access::kManage},
    Row{"POST", "/api/v1/members/open", handle_open_door, Access::kManage},
    Row{"DELETE", "/api/v1/members/", handle_remove_member, Access::kManage},
    Row{"GET", "/api/v1/tokens", handle_tokens, Access::kManage},
    Row{"POST", "/api/v1/tokens", handle_create_token, Access::kManage},
    Row{"DELETE", "/api/v1/tokens/", handle_revoke_token, Access::kManage},
    Row{"POST", "/api/v1/orders", handle_order, Access::kManage},
    Row{"GET", "/api/v1/keys", handle_keys, Access::kManage},
    Row{"POST", "/api/v1/keys", handle_create_key, Access::kManage},
    Row{"DELETE", "/api/v1/keys/", handle_revoke_key, Access::kManage},
};

bool matches(std::string_view row, std::string_view path) {
  const bool below = row.ends_with('/') && row != "/";
  if (below ? path.starts_with(row) && path != row : path == row) return true;
  constexpr std::string_view kVersion = "/v1";  // many clients leave it out
  return row.starts_with("/v1/") && matches(row.substr(kVersion.size()), path);
}

// The path that a client probably means when it has joined its base URL wrongly: with a slash too
// many, or with /v1 twice or behind another path. Empty: no known path fits.
std::string meant_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || !out.ends_with('/')) out += c;
  }
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  const std::size_t version = out.rfind("/v1/");
  if (version != std::string::npos) out.erase(0, version);
  const bool known = std::ranges::any_of(kRoutes, [&](const Row& row) { return row.path == out; });
  return known && out != path ? out : std::string();
}

// 405 with the methods that the path has; `first`: its first row.
RouteMatch other_method(const Row& first, std::string_view path) {
  std::string methods;
  std::string allowed;
  for (const Row& row : kRoutes) {
    if (row.path != first.path) continue;
    methods += methods.empty() ? "" : " and ";
    methods += row.method;
    allowed += row.method;
    allowed += row.method == "GET" ? ", HEAD, " : ", ";
  }
  HttpResponse refusal =
      error_response(ApiError::of(405, fmt::format("{} supports the method {} only", path, methods),
                                  "method_not_allowed"),
                     first.dialect);
  refusal.headers.emplace_back("Allow", allowed + "OPTIONS");
  return {nullptr, std::move(refusal), Access::kKey, false, first.dialect};
}

// The dialect of an unknown path: its client still expects an error of its own dialect.
Dialect guessed_dialect(std::string_view path) {
  if (path.starts_with("/api/") && !path.starts_with("/api/v1")) return Dialect::kOllama;
  return path.starts_with("/v1/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

}  // namespace

RouteMatch find_route(std::string_view method, std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  const Row* other = nullptr;
  for (const Row& row : kRoutes) {
    if (!matches(row.path, path)) continue;
    if (row.method == wanted) {
      return {row.handler, std::nullopt, row.access, row.probe, row.dialect};
    }
    if (other == nullptr) other = &row;
  }
  if (other != nullptr) return other_method(*other, path);
  const Dialect dialect = guessed_dialect(path);
  std::string message = "unknown path: " + valid_utf8(path.substr(0, 256));
  if (const std::string meant = meant_path(path); !meant.empty()) {
    message += "; send the request to " + meant + ": correct the client's base URL";
  }
  return {nullptr, error_response(ApiError::not_found(std::move(message), "not_found"), dialect),
          Access::kKey, false, dialect};
}

}  // namespace hearth::coordinator::http
