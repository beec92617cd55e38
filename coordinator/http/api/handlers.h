// The handlers behind the router's table; see Handler in router.h.
#pragma once

#include <memory>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// generate_api.cc
void handle_chat(const std::shared_ptr<Api>& api, HttpRequest request,
                 std::shared_ptr<Exchange> exchange);
void handle_completion(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<Exchange> exchange);

// DELETE: what runs or is kept under the client's Idempotency-Key
void handle_forget(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<Exchange> exchange);

// tokens_api.cc: the shapes of llama-server
void handle_tokenize(const std::shared_ptr<Api>& api, HttpRequest request,
                     std::shared_ptr<Exchange> exchange);
void handle_detokenize(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<Exchange> exchange);
void handle_apply_template(const std::shared_ptr<Api>& api, HttpRequest request,
                           std::shared_ptr<Exchange> exchange);

// models.cc
void handle_models(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<Exchange> exchange);
void handle_model(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<Exchange> exchange);

// health.cc: /livez is about this process, /readyz and /health about whether a prompt would be
// answered
void handle_live(const std::shared_ptr<Api>& api, HttpRequest request,
                 std::shared_ptr<Exchange> exchange);
void handle_ready(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<Exchange> exchange);
void handle_metrics(const std::shared_ptr<Api>& api, HttpRequest request,
                    std::shared_ptr<Exchange> exchange);

// state.cc
void handle_state(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<Exchange> exchange);

// credits_api.cc
void handle_grant(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<Exchange> exchange);

}  // namespace hearth::coordinator::http
