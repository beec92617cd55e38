// The table of routes, and the handlers behind it. The table is looked up before a body is read, so
// that a wrong path or method costs nothing.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// One request, with everything that its handler needs.
struct Call {
  std::shared_ptr<Api> api;
  HttpRequest request;
  std::shared_ptr<ResponseWriter> writer;

  void respond(HttpResponse response) const { writer->respond(std::move(response)); }
  void respond(const ApiError& error) const {
    writer->respond(error_response(error, request.dialect));
  }
};
using Handler = void (*)(Call call);

// Runs `task`, a function of the call, on the pool, with the body's size as its measure.
template <typename Task>
void on_pool(Call call, Task task) {
  const std::shared_ptr<Api> api = call.api;
  const bool slow = call.request.body.size() > limits::kHttpLightBytes;
  auto run = [call = std::move(call), task]() mutable { task(std::move(call)); };
  if (slow) return api->slow_tasks.post(std::move(run));
  api->pool.post(std::move(run));
}

// Answers with a function of the coordinator's SwarmStatus, on the socket thread. 503 when the
// coordinator does not answer within HttpTimeouts::status. In routes/state.cc.
void respond_with_status(Call call, std::function<HttpResponse(const SwarmStatus&)> function);
// The same for a function that answers the call itself, perhaps later.
void with_status(Call call, std::function<void(Call call, const SwarmStatus& status)> function);
// The nodes and links with their figures, as `hearth plan --nodes` reads them. In routes/state.cc.
OrderedJson measured_nodes(const SwarmStatus& status);

// routes/generate.cc
void handle_chat(Call call);
void handle_completion(Call call);
// DELETE /v1/requests: ends and forgets the request with this Idempotency-Key
void handle_forget(Call call);
// The same in other dialects.
void handle_messages(Call call);
void handle_responses(Call call);
void handle_ollama_chat(Call call);
void handle_ollama_generate(Call call);
void handle_embeddings(Call call);
void handle_ollama_embed(Call call);
void handle_ollama_embeddings(Call call);
// routes/count.cc: the number of tokens of the prompt that a body makes
void handle_count_messages(Call call);
void handle_count_input(Call call);
// routes/ollama.cc: routes about models for clients of Ollama
void handle_ollama_tags(Call call);
void handle_ollama_show(Call call);
void handle_ollama_running(Call call);
void handle_ollama_version(Call call);
// routes/tokens.cc: the shapes of llama-server
void handle_tokenize(Call call);
void handle_detokenize(Call call);
void handle_apply_template(Call call);
// routes/models.cc
void handle_models(Call call);
void handle_model(Call call);
// routes/state.cc: /livez is about this process, /readyz and /health about whether a prompt would
// be answered
void handle_live(Call call);
void handle_ready(Call call);
void handle_model_ready(Call call);  // of one model: /readyz/NAME
void handle_metrics(Call call);
void handle_state(Call call);
// routes/pages.cc: the web pages, and their parts
void handle_page(Call call);
// routes/credits.cc
void handle_grant(Call call);
// routes/ledger.cc: standings, audits and credits; an answer's receipts with their proofs
void handle_ledger(Call call);
void handle_receipt(Call call);
// routes/plan.cc: the models on the server's disk, and the predicted speed of these nodes with one
// of them
void handle_plan_models(Call call);
void handle_plan(Call call);
// routes/members.cc: members, nodes that ask to join, and the verbs of an admin
void handle_members(Call call);
void handle_approve(Call call);
void handle_open_door(Call call);
void handle_remove_member(Call call);
void handle_tokens(Call call);
void handle_create_token(Call call);
void handle_revoke_token(Call call);
void handle_order(Call call);
// routes/keys.cc: the API's keys
void handle_keys(Call call);
void handle_create_key(Call call);
void handle_revoke_key(Call call);

struct RouteMatch {
  Handler handler = nullptr;            // null: `refusal` says why
  std::optional<HttpResponse> refusal;  // 404, or 405 with Allow
  Access access = Access::kKey;         // for unknown paths, too: they are not revealed
  bool probe = false;                   // a short answer, for monitoring
  Dialect dialect = Dialect::kOpenAi;   // of the answer and of every error
};

// HEAD is GET without its body. The session answers OPTIONS itself.
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace hearth::coordinator::http
