// POST /v1/embeddings, /api/embed and /api/embeddings. Hearth computes no family of models that
// gives embeddings.
#include <spdlog/fmt/fmt.h>

#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {

void handle_embeddings(Call call) {
  call.respond(ApiError::not_supported(
      fmt::format("the model '{}' gives no embeddings: it generates text; use a server with an "
                  "embedding model",
                  call.api->model.id),
      "model"));
}

}  // namespace hearth::coordinator::http
