// POST /v1/embeddings, /api/embed and /api/embeddings. Hearth computes no family of models that
// gives embeddings.
#include <spdlog/fmt/fmt.h>

#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {

void handle_embeddings(Call call) {
  auto body = parse_json(call.request.body);
  const ServedModel& served =
      body.ok() ? model_to_parse(*call.api, *body, call.request.dialect) : call.api->model;
  call.respond(ApiError::not_supported(
      fmt::format("the model '{}' gives no embeddings: it generates text; use a server with an "
                  "embedding model",
                  served.id),
      "model"));
}

}  // namespace hearth::coordinator::http
