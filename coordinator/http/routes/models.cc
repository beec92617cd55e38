// GET /v1/models and /v1/models/{id}: fast, always 200, exactly the ids that a chat accepts.
#include "coordinator/http/api/handlers.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson model_object(const ServedModel& served) {
  OrderedJson meta;
  meta["vocab_type"] = std::string(served.tokenizer->kind());
  meta["n_vocab"] = served.spec.vocabulary;
  meta["n_ctx_train"] = served.spec.context;
  meta["n_embd"] = served.spec.hidden;
  meta["n_layer"] = served.spec.layers;
  meta["n_params"] = served.spec.parameters;
  meta["size"] = served.file_bytes;
  OrderedJson out;
  out["id"] = served.id;
  out["object"] = "model";
  out["created"] = served.created;
  out["owned_by"] = "hearth";
  out["name"] = served.id;
  out["max_model_len"] = served.spec.context;
  out["system_fingerprint"] = served.fingerprint;
  out["meta"] = std::move(meta);
  return out;
}

}  // namespace

void handle_models(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<ResponseWriter> writer) {
  OrderedJson out;
  out["object"] = "list";
  out["data"] = OrderedJson::array();
  if (request.model_allowed) out["data"].push_back(model_object(api->model));
  writer->respond(json_response(dump(out)));
}

void handle_model(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<ResponseWriter> writer) {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  if (const auto unknown = check_model(*api, name)) {
    return writer->respond(error_response(*unknown));
  }
  writer->respond(json_response(dump(model_object(api->model))));
}

}  // namespace hearth::coordinator::http
