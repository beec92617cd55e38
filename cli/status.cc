#include "cli/status.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/api_client.h"
#include "cli/date_text.h"
#include "cli/exit_codes.h"
#include "cli/http_client.h"
#include "cli/interrupt.h"
#include "cli/models.h"
#include "cli/progress.h"
#include "model/gguf.h"
#include "model/spec.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

Result<Json> fetch_state(HttpClient& http, const StatusOptions& asked) {
  const std::string& api_base = asked.api_base;
  HttpClient::Options options;
  options.timeout = std::chrono::seconds(5);
  options.headers = api_headers(asked.api_key);
  const std::string url = api_base + "/api/v1/state";
  auto reply = http.get(url, options);
  if (!reply.ok()) {
    Error error = std::move(reply).error();
    if (error.code == ErrorCode::kUnavailable) {
      error.message = "no server at " + api_base + "; start one: hearth serve --model MODEL";
    }
    return error;
  }
  if (reply->status == 401 || reply->status == 403) return api_error(*reply, url);
  Json state = Json::parse(reply->body, nullptr, false);
  if (reply->status != 200 || !state.is_object()) {
    return Error{ErrorCode::kUnavailable, api_base + " is no Hearth server (it answers " +
                                              std::to_string(reply->status) + ")"};
  }
  return state;
}

// With --wait: asks until the swarm is ready or the time is up.
Result<Json> wait_for_state(const StatusOptions& options) {
  HttpClient http;
  const auto deadline = Clock::now() + std::chrono::duration<double>(options.wait_seconds);
  for (;;) {
    auto state = fetch_state(http, options);
    if (options.wait_seconds <= 0.0) return state;
    if (!state.ok() && state.error().code == ErrorCode::kRefused) return state;
    if (state.ok() && state->value("ready", false)) return state;
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    if (Clock::now() >= deadline) {
      if (!state.ok()) return state;
      return Error{ErrorCode::kTimeout, "the swarm at " + options.api_base +
                                            " is not ready yet; hearth status shows why"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::string layers_text(const Json& layers) {
  const std::uint32_t begin = layers.at(0);
  const std::uint32_t end = layers.at(1);
  if (begin == end) return "-";
  return std::to_string(begin) + "-" + std::to_string(end - 1);
}

void print_status(const Json& state) {
  std::printf("model  %s\nready  %s\n", state.at("model").at("id").get<std::string>().c_str(),
              state.at("ready").get<bool>() ? "yes" : "no");
  std::printf("%-20s %-9s %-6s %-9s %-8s %-8s %-10s %s\n", "NODE", "STATE", "STAGE", "LAYERS",
              "ISA", "THREADS", "WEIGHTS", "ROWS");
  for (const Json& node : state.at("nodes")) {
    const bool placed = node.at("epoch").get<std::uint64_t>() != 0;
    std::printf("%-20s %-9s %-6s %-9s %-8s %-8u %-10s %llu\n",
                node.at("name").get<std::string>().c_str(),
                node.at("state").get<std::string>().c_str(),
                placed ? std::to_string(node.at("stage").get<std::uint32_t>()).c_str() : "-",
                placed ? layers_text(node.at("layers")).c_str() : "-",
                node.at("isa").get<std::string>().c_str(), node.at("threads").get<unsigned>(),
                format_bytes(node.at("weight_bytes").get<std::uint64_t>()).c_str(),
                static_cast<unsigned long long>(node.at("rows_total").get<std::uint64_t>()));
  }
  const std::size_t wanted = state.at("stages_wanted").get<std::size_t>();
  if (!state.at("ready").get<bool>() && state.at("nodes").size() < wanted) {
    std::printf("%zu of %zu workers are here; start more: hearth worker --coordinator %s\n",
                state.at("nodes").size(), wanted,
                state.value("control_address", "HOST:PORT").c_str());
  }
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
  auto state = wait_for_state(options);
  if (!state.ok()) return fail(state.error());
  if (options.json) {
    std::printf("%s\n", state->dump().c_str());
    return kExitDone;
  }
  try {
    print_status(*state);
  } catch (const Json::exception& bad) {
    return fail(
        Error::invalid(std::string("the server's state is of another version: ") + bad.what()));
  }
  return kExitDone;
}

int run_ps(const StatusOptions& options) {
  catch_interrupts();
  auto state = wait_for_state(options);
  if (!state.ok()) return fail(state.error());
  try {
    const Json& model = state->at("model");
    if (options.json) {
      std::printf("%s\n", Json::array({{{"name", model.at("id")},
                                        {"bytes", model.at("file_bytes")},
                                        {"context", model.at("context")},
                                        {"pipelines", state->at("pipelines")},
                                        {"running", state->at("running")},
                                        {"waiting", state->at("waiting")}}})
                              .dump()
                              .c_str());
      return kExitDone;
    }
    std::printf("%-32s %-10s %-10s %-9s %-8s %s\n", "NAME", "SIZE", "CONTEXT", "PIPELINES",
                "RUNNING", "WAITING");
    std::printf("%-32s %-10s %-10u %-9zu %-8u %u\n", model.at("id").get<std::string>().c_str(),
                format_bytes(model.at("file_bytes").get<std::uint64_t>()).c_str(),
                model.at("context").get<unsigned>(), state->at("pipelines").size(),
                state->at("running").get<unsigned>(), state->at("waiting").get<unsigned>());
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
