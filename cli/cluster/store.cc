#include "coordinator/store/store.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/cluster/cluster.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"

namespace hearth::cli {

Result<int> run_store_migrate(const StoreOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  // Nothing may be written to the old place meanwhile.
  TRY(const auto lock, ServerFile::lock(folder));
  const bool to_sqlite = options.to == "sqlite";
  TRY(const auto moved, coordinator::migrate_store(folder, to_sqlite ? "" : options.to));
  if (options.json) {
    const nlohmann::ordered_json out = {{"store", moved.to},          {"nodes", moved.nodes},
                                        {"keys", moved.keys},         {"join_tokens", moved.tokens},
                                        {"requests", moved.requests}, {"left", moved.left}};
    return succeed(out.dump());
  }
  std::printf(
      "%zu nodes, %zu API keys, %zu join tokens and %zu kept requests are in %s now\n"
      "the rows in %s are not used any more; delete them when the server has run\n",
      moved.nodes, moved.keys, moved.tokens, moved.requests, moved.to.c_str(), moved.left.c_str());
  return kExitDone;
}

}  // namespace hearth::cli
