// GET /v1/models and /v1/models/{id}: fast, always 200, exactly the ids that a chat accepts.
#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson model_object(const ServedModel& served) {
  return {{"id", served.id},
          {"object", "model"},
          {"created", served.created},
          {"owned_by", "hearth"},
          {"name", served.id},
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

}  // namespace

void handle_models(Call call) {
  OrderedJson data = OrderedJson::array();
  if (call.request.model_allowed) data.push_back(model_object(call.api->model));
  call.respond(json_response(dump({{"object", "list"}, {"data", std::move(data)}})));
}

void handle_model(Call call) {
  constexpr std::string_view kBefore = "/models/";
  const std::string& path = call.request.path;
  const std::string name = path.substr(path.find(kBefore) + kBefore.size());
  if (const auto unknown = check_model(*call.api, name)) return call.respond(*unknown);
  call.respond(json_response(dump(model_object(call.api->model))));
}

}  // namespace hearth::coordinator::http
