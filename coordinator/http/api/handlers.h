// The handlers behind the router's table; see Handler in router.h.
#pragma once

#include <memory>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// routes/generate.cc
void handle_chat(const std::shared_ptr<Api>& api, HttpRequest request,
                 std::shared_ptr<ResponseWriter> writer);
void handle_completion(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<ResponseWriter> writer);

// DELETE /v1/requests: ends and forgets the request with this Idempotency-Key
void handle_forget(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<ResponseWriter> writer);

// routes/tokens.cc: the shapes of llama-server
void handle_tokenize(const std::shared_ptr<Api>& api, HttpRequest request,
                     std::shared_ptr<ResponseWriter> writer);
void handle_detokenize(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<ResponseWriter> writer);
void handle_apply_template(const std::shared_ptr<Api>& api, HttpRequest request,
                           std::shared_ptr<ResponseWriter> writer);

// routes/models.cc
void handle_models(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<ResponseWriter> writer);
void handle_model(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<ResponseWriter> writer);

// routes/health.cc: /livez is about this process, /readyz and /health about whether a prompt would
// be answered
void handle_live(const std::shared_ptr<Api>& api, HttpRequest request,
                 std::shared_ptr<ResponseWriter> writer);
void handle_ready(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<ResponseWriter> writer);
void handle_metrics(const std::shared_ptr<Api>& api, HttpRequest request,
                    std::shared_ptr<ResponseWriter> writer);

// routes/state.cc
void handle_state(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<ResponseWriter> writer);

// routes/credits.cc
void handle_grant(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<ResponseWriter> writer);

}  // namespace hearth::coordinator::http
