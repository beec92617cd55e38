// GET /v1/models and /v1/models/{id}: fast, always 200, exactly the ids that a chat accepts. With
// several models, each has its state, which the coordinator provides.
#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson model_object(const ServedModel& served) {
  return {{"id", served.id},
          {"object", "model"},
          {"created", served.created},
          {"owned_by", "hearth"},
          {"name", served.id},
          {"capabilities",
           OrderedJson::array({served.spec.gives_embeddings ? "embedding" : "completion"})},
          {"max_model_len", served.spec.context},
          {"system_fingerprint", served.fingerprint},
          {"meta",
           {{"vocab_type", served.tokenizer->kind()},
            {"n_vocab", served.spec.vocabulary},
            {"n_ctx_train", served.spec.context},
            {"n_embd", served.spec.hidden},
            {"n_layer", served.spec.layers},
            {"n_params", served.spec.parameters},
            {"size", served.file_bytes}}}};
}

// The names of llama-server's router.
const char* loaded_value(const std::string& state) {
  if (state == "ready") return "loaded";
  return state == "waiting" || state == "unloaded" ? "unloaded"
         : state == "loading"                      ? "loading"
                                                   : "failed";
}

OrderedJson model_object(const ServedModel& served, const SwarmStatus& status) {
  OrderedJson out = model_object(served);
  if (served.number >= status.models.size()) return out;
  const ModelStatus& now = status.models[served.number];
  out["status"] = {{"value", loaded_value(now.state)}};
  out["hearth"] = {{"state", now.state}, {"waiting", now.waiting}};
  if (!now.why.empty()) out["hearth"]["why"] = now.why;
  return out;
}

OrderedJson list_object(const Api& api, const HttpRequest& request, const SwarmStatus& status) {
  OrderedJson data = OrderedJson::array();
  for (const ServedModel& served : api.models.all()) {
    if (request.may_use(served.id)) data.push_back(model_object(served, status));
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace

void handle_models(Call call) {
  const std::shared_ptr<Api> api = call.api;
  if (api->models.size() == 1) {
    return call.respond(json_response(dump(list_object(*api, call.request, {}))));
  }
  const HttpRequest request = call.request;
  respond_with_status(std::move(call), [api, request](const SwarmStatus& status) {
    return json_response(dump(list_object(*api, request, status)));
  });
}

void handle_model(Call call) {
  constexpr std::string_view kBefore = "/models/";
  const std::string& path = call.request.path;
  const std::string name = path.substr(path.find(kBefore) + kBefore.size());
  auto found = find_model(*call.api, call.request, name);
  if (!found.ok()) return call.respond(found.error());
  const ServedModel& served = **found;
  if (call.api->models.size() == 1) {
    return call.respond(json_response(dump(model_object(served))));
  }
  respond_with_status(std::move(call), [api = call.api, &served](const SwarmStatus& status) {
    return json_response(dump(model_object(served, status)));
  });
}

}  // namespace hearth::coordinator::http
