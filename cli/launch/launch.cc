#include "cli/launch/launch.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/home/own_server.h"
#include "cli/launch/clients.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "coordinator/client/api_client.h"
#include "coordinator/client/http_client.h"

namespace hearth::cli {
namespace {

constexpr const char* kNoKey = "none";  // clients insist on some key

// The only model that the server lists.
Result<std::string> served_model(const LaunchOptions& options) {
  client::HttpClient http;
  client::HttpClient::Options request;
  request.headers = client::api_headers(options.api_key);
  const std::string url = options.api_base + "/v1/models";
  const auto reply = http.get(url, request);
  if (!reply.ok()) return no_server(http, options.api_base);
  if (reply->status >= 400) return client::api_error(*reply, url);
  const auto list = nlohmann::json::parse(reply->body, nullptr, false);
  const auto data = list.is_object() ? list.value("data", nlohmann::json()) : nlohmann::json();
  const bool named = data.is_array() && !data.empty() && data.front().is_object();
  const auto id = named ? data.front().value("id", nlohmann::json()) : nlohmann::json();
  REQUIRE(id.is_string(), options.api_base,
          " lists no model for this API key; pass another --api-key");
  return id.get<std::string>();
}

Status write_file(const LaunchPlan& plan, const std::filesystem::path& folder) {
  if (plan.file.empty()) return ok_status();
  const std::filesystem::path path = folder / plan.file;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << plan.text;
  file.close();
  if (!file) return Error::of(ErrorCode::kIo, "cannot write ", path.string());
  return ok_status();
}

}  // namespace

Result<int> run_launch(const LaunchOptions& options) {
  LaunchServer server{options.api_base, options.api_key.empty() ? kNoKey : options.api_key,
                      options.model};
  const std::filesystem::path folder = cache_dir() / "launch";
  // An unknown client is an error with or without a server.
  TRY(LaunchPlan plan, launch_plan(options.client, server, folder.string()));
  if (server.model.empty()) {
    TRY(server.model, served_model(options));
    TRY(plan, launch_plan(options.client, server, folder.string()));
  }
  plan.command.insert(plan.command.end(), options.arguments.begin(), options.arguments.end());
  TRY_VOID(write_file(plan, folder));
  if (options.print) return succeed(plan_text(plan));
  for (const auto& [name, value] : plan.variables) {
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) {
      return Error{ErrorCode::kIo, fmt::format("cannot set {}: {}", name, std::strerror(errno))};
    }
  }
  std::vector<char*> words;
  for (std::string& word : plan.command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  if (errno == ENOENT) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("the program '{}' is not installed, or not in PATH; install it as its "
                             "documentation says, then run hearth launch again",
                             plan.command.front())};
  }
  return Error{ErrorCode::kIo,
               fmt::format("cannot run '{}': {}", plan.command.front(), std::strerror(errno))};
}

}  // namespace hearth::cli
