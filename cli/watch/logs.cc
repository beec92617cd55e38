#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/process/paths.h"
#include "cli/watch/watch.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Error no_file_of(const std::string& node, const std::string& data_dir) {
  const std::string folder = fs::path(server_log_file(data_dir)).parent_path().string();
  std::vector<std::string> workers = workers_with_files(data_dir);
  std::ranges::replace(workers, std::string(), std::string("worker"));
  const std::string names = boost::algorithm::join(workers, ", ");
  if (names.empty() && !exists(server_log_file(data_dir))) {
    return Error::of(ErrorCode::kNotFound, "there is no log in ", folder,
                     "; start hearth serve or hearth worker without --no-log-file to write one");
  }
  if (node.empty()) {
    return Error::of(ErrorCode::kNotFound, "several workers log in ", folder,
                     "; name one: ", names);
  }
  return Error::of(
      ErrorCode::kNotFound, node, " has no log file in ", folder,
      "; a node of another machine logs there (hearth logs on it), and a local worker in "
      "the server's log; workers with files: ",
      (names.empty() ? "none" : names));
}

Result<std::string> find_file(const LogsOptions& options) {
  const std::string server = server_log_file(options.data_dir);
  if (options.node == "coordinator" && exists(server)) return server;
  if (options.node.empty()) {
    if (exists(server)) return server;
    const std::vector<std::string> workers = workers_with_files(options.data_dir);
    if (workers.size() != 1) return no_file_of("", options.data_dir);
    return worker_log_file(options.data_dir, workers[0]);
  }
  std::string own = worker_log_file(options.data_dir, options.node);
  // "worker" also names the worker that was started without a name.
  if (options.node == "worker" && !exists(own)) own = worker_log_file(options.data_dir, "");
  if (options.node.find('/') != std::string::npos || !exists(own)) {
    return no_file_of(options.node, options.data_dir);
  }
  return own;
}

}  // namespace

Result<std::vector<std::string>> logs_command(const LogsOptions& options) {
  TRY(std::string file, find_file(options));
  std::vector<std::string> words = {"tail", "-n", std::to_string(options.lines)};
  if (options.follow) words.emplace_back("-F");
  words.insert(words.end(), {"--", std::move(file)});
  return words;
}

Result<int> run_logs(const LogsOptions& options) {
  TRY(auto words, logs_command(options));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return Error::of(ErrorCode::kIo, "cannot run tail: ", std::strerror(errno));
}

}  // namespace hearth::cli
