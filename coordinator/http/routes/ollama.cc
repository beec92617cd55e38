// The routes about models for clients of Ollama: GET /api/tags, /api/ps and /api/version, POST
// /api/show.
#include <spdlog/fmt/fmt.h>

#include "coordinator/http/api/router.h"
#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {
namespace {

std::string architecture(const ServedModel& served) {
  const auto* family = served.spec.family;
  return family != nullptr ? std::string(family->architecture) : "unknown";
}

// "134.5M", "8.0B".
std::string size_text(std::uint64_t parameters) {
  constexpr double kMillion = 1e6;
  constexpr double kBillion = 1e9;
  const auto number = static_cast<double>(parameters);
  return number < kBillion ? fmt::format("{:.1f}M", number / kMillion)
                           : fmt::format("{:.1f}B", number / kBillion);
}

OrderedJson details_object(const ServedModel& served) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", architecture(served)},
          {"families", {architecture(served)}},
          {"parameter_size", size_text(served.spec.parameters)},
          {"quantization_level", "unknown"}};
}

OrderedJson model_object_of(const ServedModel& served) {
  return {{"name", served.id},
          {"model", served.id},
          {"size", served.file_bytes},
          {"digest", served.fingerprint},
          {"details", details_object(served)}};
}

// The capabilities of the model.
OrderedJson capabilities(const ServedModel& served) {
  if (served.spec.gives_embeddings) return OrderedJson::array({"embedding"});
  OrderedJson out = OrderedJson::array({"completion"});
  if (served.syntax) out.push_back("tools");
  if (served.syntax && served.syntax->thinks) out.push_back("thinking");
  return out;
}

OrderedJson show_object(const ServedModel& served) {
  const std::string family = architecture(served);
  const model::ModelSpec& spec = served.spec;
  return {{"license", ""},
          {"modelfile", ""},
          {"parameters", ""},
          {"template", ""},
          {"modified_at", rfc3339(served.created)},
          {"details", details_object(served)},
          {"model_info",
           {{"general.architecture", family},
            {"general.basename", served.id},
            {"general.parameter_count", spec.parameters},
            {family + ".block_count", spec.layers},
            {family + ".context_length", spec.context},
            {family + ".embedding_length", spec.hidden},
            {family + ".feed_forward_length", spec.feed_forward},
            {family + ".attention.head_count", spec.heads},
            {family + ".attention.head_count_kv", spec.kv_heads}}},
          {"capabilities", capabilities(served)}};
}

}  // namespace

void handle_ollama_tags(Call call) {
  OrderedJson models = OrderedJson::array();
  for (const ServedModel& served : call.api->models.all()) {
    if (!call.request.may_use(served.id)) continue;
    models.push_back(model_object_of(served));
    models.back()["modified_at"] = rfc3339(served.created);
  }
  call.respond(json_response(dump({{"models", std::move(models)}})));
}

void handle_ollama_show(Call call) {
  auto json = parse_json(call.request.body);
  if (!json.ok()) return call.respond(json.error());
  FieldReader fields(*json);
  const auto name = fields.string(fields.find("model") != nullptr ? "model" : "name");
  if (!name) fields.fail("model", "is required");
  if (fields.failed()) return call.respond(fields.error());
  auto served = find_model(*call.api, call.request, *name);
  if (!served.ok()) return call.respond(served.error());
  call.respond(json_response(dump(show_object(**served))));
}

void handle_ollama_running(Call call) {
  const std::shared_ptr<Api> api = call.api;
  const HttpRequest request = call.request;
  respond_with_status(std::move(call), [api, request](const SwarmStatus& status) {
    OrderedJson models = OrderedJson::array();
    for (const ServedModel& served : api->models.all()) {
      const bool ready =
          status.models.empty() ? status.ready : status.models[served.number].state == "ready";
      if (!ready || !request.may_use(served.id)) continue;
      OrderedJson& one = models.emplace_back(model_object_of(served));
      // The model stays loaded until a request for another one needs its room.
      one["expires_at"] = "9999-12-31T23:59:59Z";
      one["size_vram"] = served.file_bytes;
      one["context_length"] = served.spec.context;
    }
    return json_response(dump({{"models", std::move(models)}}));
  });
}

void handle_ollama_version(Call call) {
  call.respond(json_response(dump({{"version", call.api->options.version}})));
}

}  // namespace hearth::coordinator::http
