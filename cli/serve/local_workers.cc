#include "cli/serve/local_workers.h"

#include <cstdint>
#include <initializer_list>

#include "cli/home/own_address.h"
#include "cli/serve/offered_models.h"
#include "node/engine/stage_memory.h"

namespace hearth::cli {
namespace {

// The memory of each local worker when workers report their own memory: they share the available
// memory. 0: all of it.
std::uint64_t memory_of(const ServeOptions& options) {
  if (options.memory_bytes > 0 || !options.optimise || options.local_workers < 2) {
    return options.memory_bytes;
  }
  return node::memory_budget(0) / options.local_workers;
}

}  // namespace

std::vector<std::string> local_worker_names(const ServeOptions& options, bool in_cluster,
                                            std::uint32_t beside) {
  std::vector<std::string> names;
  const bool only = in_cluster && options.local_workers == 1;
  for (std::uint32_t i = 1; i <= options.local_workers; ++i) {
    names.push_back(only ? host_name() : "local-" + std::to_string(i));
    if (beside > 0) names.back() += "-m" + std::to_string(beside);
  }
  return names;
}

std::vector<ChildSpec> local_workers(const ServeOptions& options, bool in_cluster,
                                     const std::string& model, const std::string& control,
                                     std::uint32_t beside) {
  const std::vector<std::string> devices = devices_of(options);
  const std::vector<std::string> names = local_worker_names(options, in_cluster, beside);
  std::vector<ChildSpec> specs;
  for (std::uint32_t i = 1; i <= options.local_workers; ++i) {
    const std::string& name = names[i - 1];
    std::vector<std::string> words = {"worker", "--no-log-file"};
    const auto add = [&](std::initializer_list<std::string> more) {
      words.insert(words.end(), more);
    };
    add({"--model", model, "--coordinator", control, "--name", name, "--device", devices[i - 1]});
    if (!options.emulate.empty()) add({"--emulate", options.emulate});
    add({"--threads", std::to_string(threads_of(options))});
    if (options.kv_budget_bytes > 0) {
      add({"--kv-budget", std::to_string(options.kv_budget_bytes)});
    }
    add({"--log-level", options.log_level == "info" ? "warn" : options.log_level});
    if (!options.data_dir.empty()) add({"--data-dir", options.data_dir});
    if (options.pin) add({"--pin"});
    if (!options.draft.empty()) add({"--draft", options.draft});
    const std::uint64_t memory =
        devices[i - 1] == "cpu" ? memory_of(options) : options.memory_bytes;
    if (memory > 0) add({"--memory", std::to_string(memory)});
    specs.push_back({name, std::move(words)});
  }
  return specs;
}

}  // namespace hearth::cli
