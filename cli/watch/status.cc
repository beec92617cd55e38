#include <boost/algorithm/string/join.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/home/own_server.h"
#include "cli/home/reboot.h"
#include "cli/models/models.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/screen.h"
#include "cli/terminal/table.h"
#include "cli/watch/rate_history.h"
#include "cli/watch/watch.h"
#include "coordinator/client/http_client.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

// With --wait: asks until the swarm is ready or the time is over. A server of this machine may
// still be starting, so its address and this machine's key are looked up until there is a key.
Result<SwarmAnswer> wait_for_state(StatusOptions options) {
  client::HttpClient http(interrupted);
  const auto deadline = SteadyClock::now() + std::chrono::duration<double>(options.wait_seconds);
  for (;;) {
    if (options.api_key.empty()) options.api_base = server_base(options.host, options.api_key);
    auto answer = fetch_swarm(http, options.api_base, options.api_key);
    if (options.wait_seconds <= 0.0) return answer;
    const bool refused = !answer.ok() && answer.error().code == ErrorCode::kRefused;
    if (refused && (!options.host.empty() || !options.api_key.empty())) return answer;
    if (answer.ok() && answer->view.ready) return answer;
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    if (SteadyClock::now() >= deadline) {
      if (!answer.ok()) return answer;
      return Error::of(ErrorCode::kTimeout, "the swarm at ", options.api_base,
                       " is not ready yet; hearth status shows why");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// Pictures until the end; with --wait, the first one comes once the swarm is ready.
int watch_swarm(const StatusOptions& options,
                const std::function<Lines(const client::SwarmView&)>& lines_of) {
  catch_interrupts();
  bool waited = false;
  client::HttpClient http(interrupted);
  return watch({options.interval_seconds, options.count, options.json}, [&]() -> Result<Lines> {
    TRY(const SwarmAnswer answer, std::exchange(waited, true)
                                      ? fetch_swarm(http, options.api_base, options.api_key)
                                      : wait_for_state(options));
    return options.json ? Lines{escape_json(answer.json)} : lines_of(answer.view);
  });
}

constexpr std::ptrdiff_t kHeadLines = 2;  // of top_lines(): the model, the rates

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[16];
  if (localtime_r(&now, &parts) == nullptr) return "";
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return text;
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
  if (!file.parts().empty()) json["parts"] = file.parts().size();
  if (spec.experts > 0) {
    json["experts"] = spec.experts;
    json["experts_used"] = spec.experts_used;
  }
  if (spec.shared_feed_forward > 0) json["shared_feed_forward"] = spec.shared_feed_forward;
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

Result<int> run_status(const StatusOptions& options) {
  if (options.watch) return watch_swarm(options, status_lines);
  catch_interrupts();
  TRY(const SwarmAnswer answer, wait_for_state(options));
  if (options.json) return succeed(escape_json(answer.json));
  Lines lines = status_lines(answer.view);
  if (options.host.empty()) {  // of this machine's own swarm
    const std::string reboot = reboot_text(read_reboot("/"), own_part());
    if (!reboot.empty()) lines.push_back("reboot  " + reboot);
  }
  return succeed(boost::algorithm::join(lines, "\n"));
}

Result<int> run_top(const StatusOptions& options) {
  RateHistory history;
  return watch_swarm(options, [&](const client::SwarmView& view) {
    Lines lines = top_lines(view, options.api_base, local_time());
    history.add(view.tokens_per_second);
    if (const std::string line = history.line(); !line.empty()) {
      lines.insert(lines.begin() + kHeadLines, "out     " + line);
    }
    return lines;
  });
}

namespace {

// For a server with several models: the models that are not loaded; otherwise empty.
std::string other_models(const Json& state) {
  std::string line;
  for (const Json& model : state.value("models", Json::array())) {
    if (model.at("state") == "ready" || model.at("id") == state.at("model").at("id")) continue;
    line += line.empty() ? "\nnot loaded: " : ", ";
    line += escape_control(model.at("id").get<std::string>());
    const auto how = model.at("state").get<std::string>();
    if (how != "unloaded") line += " (" + escape_control(how) + ")";
  }
  return line;
}

// The current model, and with several the others that are loaded.
std::vector<Json> loaded_models(const Json& state) {
  const Json& current = state.at("model");
  const Json several = state.value("models", Json::array());
  std::vector<Json> all;
  const auto add = [&](const Json& model, const Json& waiting) {
    Json pipelines = Json::array();
    std::uint64_t running = 0;
    for (const Json& each : state.at("pipelines")) {
      if (each.value("model", model.at("id")) != model.at("id")) continue;
      running += each.at("running").get<std::uint64_t>();
      pipelines.push_back(each);
    }
    all.push_back({{"name", model.at("id")},
                   {"bytes", model.at("file_bytes")},
                   {"context", model.at("context")},
                   {"pipelines", std::move(pipelines)},
                   {"running", several.empty() ? state.at("running") : Json(running)},
                   {"waiting", waiting}});
  };
  if (several.empty()) add(current, state.at("waiting"));
  for (const Json& model : several) {
    const bool is_current = model.at("id") == current.at("id");
    if (is_current || model.at("state") == "ready") add(model, model.at("waiting"));
  }
  return all;
}

}  // namespace

Result<int> run_ps(const StatusOptions& options) {
  catch_interrupts();
  TRY(const SwarmAnswer answer, wait_for_state(options));
  const Json state = Json::parse(answer.json);
  try {
    const std::vector<Json> models = loaded_models(state);
    if (options.json) return succeed(escape_json(Json(models).dump()));
    Table table({"NAME", "SIZE", "CONTEXT", "PIPELINES", "RUNNING", "WAITING"});
    for (const Json& model : models) {
      table.add({model.at("name").get<std::string>(),
                 format_bytes(model.at("bytes").get<std::uint64_t>()), model.at("context").dump(),
                 std::to_string(model.at("pipelines").size()), model.at("running").dump(),
                 model.at("waiting").dump()});
    }
    return succeed(boost::algorithm::join(table.lines(), "\n") + other_models(state));
  } catch (const Json::exception& bad) {
    return Error::invalid("the server has another version than this program: ", bad.what());
  }
}

Result<int> run_ls(bool json) {
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
      if (!model.part_sha256.empty()) all.back()["part_sha256"] = model.part_sha256;
    }
    return succeed(escape_json(all.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  std::printf("%-40s %-14s %-10s %s\n", "NAME", "ID", "SIZE", "MODIFIED");
  for (const LocalModel& model : models) {
    const std::string id = model.sha256.empty() ? "-" : model.sha256.substr(0, 12);
    std::printf("%-40s %-14s %-10s %s\n", escape_control(model.name).c_str(), id.c_str(),
                format_bytes(model.bytes).c_str(), date_text(model.modified).c_str());
  }
  return kExitDone;
}

Result<int> run_show(const std::string& name, bool json) {
  TRY(const auto path, resolve_model(name));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  const Json description = describe(*file, spec);
  const auto text_of = [](const Json& value) {  // a file's text may be no UTF-8
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (json) return succeed(escape_json(text_of(description)));
  for (const auto& [key, value] : description.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : text_of(value);
    std::printf("%-22s %s\n", key.c_str(), escape_control(text).c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
