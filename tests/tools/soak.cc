#include "tests/tools/soak.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/models/models.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/worker/device.h"
#include "tests/tools/soak_rounds.h"

namespace hearth::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point begun) {
  return std::chrono::duration<double>(SteadyClock::now() - begun).count();
}

// On stderr: one line redrawn on a terminal, else one now and then.
class SoakProgress {
 public:
  explicit SoakProgress(std::uint64_t tokens)
      : tokens_(tokens), terminal_(::isatty(STDERR_FILENO) != 0) {}

  void show(const SoakCount& count) {
    const bool last = count.compared >= tokens_;
    if (seconds_since(shown_) < (terminal_ ? 0.5 : 30.0) && !last) return;
    shown_ = SteadyClock::now();
    const double rate = static_cast<double>(count.compared) / seconds_since(begun_);
    const double left =
        last ? 0.0 : static_cast<double>(tokens_ - count.compared) / std::max(rate, 1.0);
    std::fprintf(stderr, "%s%ju of %ju tokens, %ju unequal, %.0f tokens/s, %.0f s left%s",
                 terminal_ ? "\r" : "", static_cast<std::uintmax_t>(count.compared),
                 static_cast<std::uintmax_t>(tokens_), static_cast<std::uintmax_t>(count.unequal),
                 rate, left, terminal_ ? " \x1b[K" : "\n");
  }
  void end() const {
    if (terminal_) std::fputs("\n", stderr);
  }
  double seconds() const { return seconds_since(begun_); }

 private:
  const std::uint64_t tokens_;
  const bool terminal_;
  const SteadyClock::time_point begun_ = SteadyClock::now();
  SteadyClock::time_point shown_ = begun_;
};

Result<SoakOptions> soak_options(const SoakFlags& given, node::Device* device) {
  SoakOptions options;
  options.tokens = given.tokens;
  options.seed = given.seed;
  options.workers =
      given.workers > 0 ? given.workers : std::max(1U, std::thread::hardware_concurrency());
  use_soak_tables(options);
  options.tables.device = options.model_tables.device = device;
  options.stop = [] { return interrupted(); };
  for (const std::string& name : given.models) {
    TRY(const auto path, resolve_model(name));
    SoakModel model;
    model.name = path.filename().string();
    TRY(model.file, model::GgufFile::open(path.string()));
    options.models.push_back(std::move(model));
  }
  return options;
}

void print_json(const SoakFlags& given, const SoakResult& result, double seconds) {
  nlohmann::ordered_json json;
  json["compared"] = result.count.compared;
  json["sampled"] = result.count.sampled;
  json["unequal"] = result.count.unequal;
  json["first_unequal"] = result.count.first;
  json["rounds"] = result.rounds;
  json["seed"] = given.seed;
  json["interrupted"] = result.interrupted;
  json["seconds"] = seconds;
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    json["isa"].push_back(table->name);
  }
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int run_soak(const SoakFlags& given) {
  catch_interrupts();
  const auto device = open_unasked_device(given.device, {});
  if (!device.ok()) return fail(device.error());
  auto options = soak_options(given, device->get());
  if (!options.ok()) return fail(options.error());
  SoakProgress progress(given.tokens);
  options->on_progress = [&](const SoakCount& count) { progress.show(count); };
  const auto result = soak(*options);
  progress.end();
  if (!result.ok()) return fail(result.error());
  const SoakCount& count = result->count;
  if (given.json) {
    print_json(given, *result, progress.seconds());
  } else {
    if (!count.first.empty()) std::printf("first unequal: %s\n", count.first.c_str());
    std::printf("%ju rounds, %ju tokens sampled, seed %ju, %.0f seconds\n",
                static_cast<std::uintmax_t>(result->rounds),
                static_cast<std::uintmax_t>(count.sampled), static_cast<std::uintmax_t>(given.seed),
                progress.seconds());
    std::printf("soak: %ju tokens compared, %ju unequal\n",
                static_cast<std::uintmax_t>(count.compared),
                static_cast<std::uintmax_t>(count.unequal));
  }
  if (count.unequal > 0) return kExitVerification;
  return result->interrupted ? kExitInterrupted : kExitDone;
}

void add_soak(CLI::App& app, Action& action) {
  auto o = std::make_shared<SoakFlags>();
  CLI::App* verb = app.add_subcommand(
      "soak",
      "Compare many tokens, bit for bit, with lone runs: any batch, chunk, split, thread "
      "count and instruction set");
  verb->add_option("models", o->models,
                   "files or pulled names, besides small random models of every family and type");
  verb->add_option("--tokens", o->tokens, "tokens to compare, rounded up to whole rounds")
      ->check(whole_number(1, 1'000'000'000'000))
      ->capture_default_str();
  verb->add_option("--seed", o->seed, "of all that is drawn at random")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  verb->add_option("--workers", o->workers, "rounds at a time (0: one a core)")
      ->check(whole_number(0, limits::kComputeThreads))
      ->capture_default_str();
  verb->add_option("--device", o->device, "what computes the crowds; lone runs are the processor's")
      ->check(device_text())
      ->capture_default_str();
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, &action] { action = [o] { return run_soak(*o); }; });
}

}  // namespace hearth::cli
