#include "cli/watch/logs.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/result.h"
#include "cli/process/log_files.h"
#include "cli/process/log_reader.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kPause = std::chrono::milliseconds(200);

// Which file is read, and whose lines of it are shown.
struct Source {
  std::string path;
  std::string owner;  // of all lines of a worker's file; empty: the server's, of several
  std::string only;   // empty: all
};

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Error nothing_of(const std::string& node, const std::string& data_dir) {
  const std::vector<std::string> names = logged_nodes(data_dir);
  const std::string folder = fs::path(server_log_file(data_dir)).parent_path().string();
  if (names.empty()) {
    return {ErrorCode::kNotFound, "nothing is logged in " + folder +
                                      " yet; a server or worker of this machine logs there"};
  }
  return {ErrorCode::kNotFound, (node.empty() ? "several workers log in " + folder + "; name one"
                                              : "nothing of " + node + " is logged in " + folder) +
                                    ": " + joined(names)};
}

Result<Source> find_source(const LogsOptions& options) {
  const std::string server = server_log_file(options.data_dir);
  if (!options.node.empty()) {
    std::string own = worker_log_file(options.data_dir, options.node);
    // Who was started without a name is "worker", unless somebody has that name.
    if (options.node == "worker" && !exists(own)) own = worker_log_file(options.data_dir, "");
    if (options.node.find('/') == std::string::npos && exists(own)) {
      return Source{own, options.node, ""};
    }
    if (exists(server)) return Source{server, "", options.node};
    return nothing_of(options.node, options.data_dir);
  }
  if (exists(server)) return Source{server, "", ""};
  const std::vector<std::string> workers = workers_with_files(options.data_dir);
  if (workers.size() != 1) return nothing_of("", options.data_dir);
  return Source{worker_log_file(options.data_dir, workers[0]),
                workers[0].empty() ? "worker" : workers[0], ""};
}

void print(const Source& source, const std::string& line, bool json) {
  if (!json) {
    const std::string_view text =
        source.only.empty() ? std::string_view(line) : split_log_line(line).text;
    std::printf("%s\n", escape_control(text).c_str());
    return;
  }
  const LogLine parts = source.owner.empty() ? split_log_line(line) : LogLine{source.owner, line};
  const nlohmann::ordered_json out = {{"node", parts.node}, {"line", parts.text}};
  std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

bool shown(const Source& source, std::string_view line) {
  return source.only.empty() || split_log_line(line).node == source.only;
}

}  // namespace

int run_logs(const LogsOptions& options) {
  catch_interrupts();
  const auto source = find_source(options);
  if (!source.ok()) return fail(source.error());
  LogReader reader(source->path);
  LastLines last(options.lines);
  bool any = false;
  reader.read([&](std::string_view line) {
    if (!shown(*source, line)) return;
    any = true;
    if (options.lines == 0) return print(*source, std::string(line), options.json);
    last.add(line);
  });
  for (const std::string& line : last.lines()) print(*source, line, options.json);
  std::fflush(stdout);
  if (!any && !options.follow && !options.node.empty()) {
    return fail(nothing_of(options.node, options.data_dir));
  }
  while (options.follow && !interrupted()) {
    reader.read([&](std::string_view line) {
      if (shown(*source, line)) print(*source, std::string(line), options.json);
    });
    std::fflush(stdout);
    std::this_thread::sleep_for(kPause);
  }
  return interrupted() ? kExitInterrupted : kExitDone;
}

}  // namespace hearth::cli
