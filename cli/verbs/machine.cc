#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "cli/bench/bench.h"
#include "cli/command/completion.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"
#include "cli/terminal/exit_codes.h"
#include "cli/worker/device.h"
#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

int print_version(bool json) {
  auto kernels = kernels::select_kernels();
  const std::string isa = kernels.ok() ? std::string((*kernels)->name) : "none";
  if (json) {
    std::printf("%s\n", nlohmann::json{{"version", HEARTH_VERSION},
                                       {"protocol", protocol_version()},
                                       {"canonical", kernels::kCanonicalVersion},
                                       {"isa", isa}}
                            .dump()
                            .c_str());
  } else {
    std::printf("hearth %s (protocol %u, canonical %u, %s)\n", HEARTH_VERSION, protocol_version(),
                kernels::kCanonicalVersion, isa.c_str());
  }
  return kExitDone;
}

void add_bench_model(CLI::App& bench, Action& action) {
  const auto [model, o] =
      add_verb(bench, "model", "Measure tokens per second of one process", action, run_bench_model);
  model->add_option("model", o->model, "file or pulled name")->required();
  model->add_option("-p,--n-prompt", o->prompt, "prompt lengths (0: no prefill test)")
      ->delimiter(',')
      ->check(whole_number(0, limits::kModelContext))
      ->capture_default_str();
  model->add_option("-n,--n-gen", o->generate, "generated lengths (0: no decode test)")
      ->delimiter(',')
      ->check(whole_number(0, limits::kModelContext))
      ->capture_default_str();
  model->add_option("-b,--batch", o->batch, "sequences decoded at once")
      ->delimiter(',')
      ->check(whole_number(1, limits::kRunningSequences))
      ->capture_default_str();
  model->add_option("-t,--threads", o->threads, "compute threads")
      ->delimiter(',')
      ->check(whole_number(1, limits::kComputeThreads));
  model->add_option("-r,--repetitions", o->repetitions, "repetitions of each test")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  model->add_option("--stages", o->stages, "number of engines that share the layers")
      ->check(whole_number(1, limits::kStages))
      ->capture_default_str();
  model->add_option("--device", o->device, "device")->check(device_text())->capture_default_str();
  model->add_flag("--pin", o->pin, "pin each thread to a CPU; an error if there are fewer CPUs");
  model->add_option("--memory", o->memory_bytes, "memory in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  model->add_flag("--json", o->json, "print JSON with llama-bench's fields");
}

void add_bench(CLI::App& app, Action& action) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine with the real engine");
  bench->require_subcommand(1);
  add_bench_model(*bench, action);
}

}  // namespace

void add_machine_verbs(CLI::App& app, Action& action) {
  add_bench(app, action);

  auto json = std::make_shared<bool>(false);
  CLI::App* version = app.add_subcommand("version", "Print the versions");
  version->add_flag("--json", *json, "print JSON");
  version->callback([json, &action] { action = [json] { return print_version(*json); }; });

  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print a shell's completion script");
  completion->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([shell, &action] {
    action = [shell] {
      std::fputs(completion_script(*shell).c_str(), stdout);
      return kExitDone;
    };
  });

  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* ask = app.add_subcommand("__complete", "")->group("");
  ask->add_option("words", *words);
  ask->callback([words, &app, &action] {
    action = [words, &app] {
      for (const std::string& word : complete(app, *words)) std::printf("%s\n", word.c_str());
      return kExitDone;
    };
  });
}

}  // namespace hearth::cli
