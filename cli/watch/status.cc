#include "cli/watch/status.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/http_client.h"
#include "cli/models/models.h"
#include "cli/swarm_view.h"
#include "cli/terminal/date_text.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/screen.h"
#include "cli/terminal/table.h"
#include "cli/watch/swarm_lines.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// With --wait: asks until the swarm is ready or the time is up.
Result<SwarmAnswer> wait_for_state(const StatusOptions& options) {
  HttpClient http;
  const auto deadline = Clock::now() + std::chrono::duration<double>(options.wait_seconds);
  for (;;) {
    auto answer = fetch_swarm(http, options.api_base, options.api_key);
    if (options.wait_seconds <= 0.0) return answer;
    if (!answer.ok() && answer.error().code == ErrorCode::kRefused) return answer;
    if (answer.ok() && answer->view.ready) return answer;
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    if (Clock::now() >= deadline) {
      if (!answer.ok()) return answer;
      return Error{ErrorCode::kTimeout, "the swarm at " + options.api_base +
                                            " is not ready yet; hearth status shows why"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Lines lines_of(const SwarmAnswer& answer, bool json) {
  return json ? Lines{answer.json} : status_lines(answer.view);
}

std::string short_id(const std::string& sha256) {
  return sha256.empty() ? "-" : sha256.substr(0, 12);
}

Json describe(const model::GgufFile& file, const model::ModelSpec& spec) {
  Json json = {{"architecture", spec.family->architecture},
               {"name", spec.name},
               {"parameters", spec.parameters},
               {"layers", spec.layers},
               {"hidden_size", spec.hidden},
               {"feed_forward", spec.feed_forward},
               {"heads", spec.heads},
               {"kv_heads", spec.kv_heads},
               {"head_dim", spec.head_dim},
               {"vocabulary", spec.vocabulary},
               {"context", spec.context},
               {"tied_embeddings", spec.tied_embeddings},
               {"bytes", file.file_bytes()},
               {"fingerprint", file.fingerprint().hex()}};
  Json types = Json::object();
  for (const auto& tensor : file.tensors()) {
    const auto* info = model::tensor_type_info(static_cast<std::uint32_t>(tensor.type));
    const std::string name(info->name);
    types[name] = types.value(name, std::uint64_t{0}) + tensor.bytes;
  }
  json["tensor_bytes_by_type"] = types;
  if (const auto* embedding = file.find_tensor("token_embd.weight"); embedding != nullptr) {
    json["embedding_bytes"] = embedding->bytes;
  }
  const auto license = file.get_string("general.license");
  if (license.ok()) json["license"] = *license;
  return json;
}

}  // namespace

int run_status(const StatusOptions& options) {
  catch_interrupts();
  if (options.watch) {
    bool waited = false;  // for the first picture alone
    HttpClient http;
    return watch({options.interval_seconds, options.count, options.json}, [&]() -> Result<Lines> {
      auto answer = std::exchange(waited, true)
                        ? fetch_swarm(http, options.api_base, options.api_key)
                        : wait_for_state(options);
      if (!answer.ok()) return answer.error();
      return lines_of(*answer, options.json);
    });
  }
  const auto answer = wait_for_state(options);
  if (!answer.ok()) return fail(answer.error());
  for (const std::string& line : lines_of(*answer, options.json)) {
    std::printf("%s\n", line.c_str());
  }
  return kExitDone;
}

int run_ps(const StatusOptions& options) {
  catch_interrupts();
  const auto answer = wait_for_state(options);
  if (!answer.ok()) return fail(answer.error());
  const Json state = Json::parse(answer->json);
  try {
    const Json& model = state.at("model");
    const Json& pipelines = state.at("pipelines");
    if (options.json) {
      std::printf("%s\n", Json::array({{{"name", model.at("id")},
                                        {"bytes", model.at("file_bytes")},
                                        {"context", model.at("context")},
                                        {"pipelines", pipelines},
                                        {"running", state.at("running")},
                                        {"waiting", state.at("waiting")}}})
                              .dump()
                              .c_str());
      return kExitDone;
    }
    const SwarmView& view = answer->view;
    Table table({"NAME", "SIZE", "CONTEXT", "PIPELINES", "RUNNING", "WAITING"});
    table.add({view.model, format_bytes(view.model_bytes), model.at("context").dump(),
               std::to_string(pipelines.size()), std::to_string(view.running),
               std::to_string(view.waiting)});
    for (const std::string& line : table.lines()) std::printf("%s\n", line.c_str());
  } catch (const Json::exception& bad) {
    return fail(
        Error::invalid(std::string("the server's state is of another version: ") + bad.what()));
  }
  return kExitDone;
}

int run_ls(bool json) {
  const auto models = list_models();
  if (json) {
    Json all = Json::array();
    for (const LocalModel& model : models) {
      all.push_back({{"name", model.name},
                     {"path", model.path.string()},
                     {"bytes", model.bytes},
                     {"sha256", model.sha256},
                     {"source", model.source},
                     {"modified", model.modified}});
    }
    std::printf("%s\n", all.dump().c_str());
    return kExitDone;
  }
  std::printf("%-40s %-14s %-10s %s\n", "NAME", "ID", "SIZE", "MODIFIED");
  for (const LocalModel& model : models) {
    std::printf("%-40s %-14s %-10s %s\n", model.name.c_str(), short_id(model.sha256).c_str(),
                format_bytes(model.bytes).c_str(), date_text(model.modified).c_str());
  }
  return kExitDone;
}

int run_show(const std::string& name, bool json) {
  auto path = resolve_model(name);
  if (!path.ok()) return fail(path.error());
  auto file = model::GgufFile::open(path->string());
  if (!file.ok()) return fail(file.error());
  auto spec = model::ModelSpec::read(**file);
  if (!spec.ok()) return fail(spec.error());
  const Json description = describe(**file, *spec);
  if (json) {
    std::printf("%s\n", description.dump().c_str());
    return kExitDone;
  }
  for (const auto& [key, value] : description.items()) {
    std::printf("%-22s %s\n", key.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
