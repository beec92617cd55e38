#include "cli/worker/device.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/number.h"
#include "cli/terminal/exit_codes.h"
#include "node/runner/local_runner.h"
#ifdef HEARTH_CARDS
#include <unistd.h>

#include "cli/terminal/progress.h"
#include "kernels/cuda/runtime.h"
#include "node/engine/card/card.h"
#include "node/engine/card/card_check.h"
#endif

namespace hearth::cli {
namespace {

constexpr std::uint32_t kCardsMost = 64;

#ifdef HEARTH_CARDS
// A lost GPU must not be called again, so no destructor runs.
[[noreturn]] void leave(const Error& error) {
  fail({error.code, error.message + "; this process ends, since its GPU failed"});
  std::fflush(nullptr);
  std::_Exit(kExitDevice);
}

std::unique_ptr<node::Device> left_to_the_processor(const Error& error) {
  std::fprintf(stderr, "hearth: warning: %s; the CPU computes instead\n", error.message.c_str());
  return nullptr;
}

// A driver of OpenCL compiles each kernel at its first use; pocl takes up to a minute for one.
constexpr std::chrono::minutes kOpenclStepLimit{30};

bool is_opencl() { return kernels::cuda::device_kind() == "opencl"; }

Error advised(Error error) {
  if (error.code == ErrorCode::kUnavailable) {
    error.message += message_of("; ", is_opencl() ? "clinfo -l" : "nvidia-smi",
                                " shows the driver's GPUs, and --device cpu works without one");
  }
  return error;
}

// The GPU must have room for the model, and must give right answers.
Status examine(node::Device& device, const model::GgufFile& file, const model::ModelSpec& spec,
               const node::EngineOptions& least) {
  TRY_VOID(device.check_memory(file, spec, least));
  const Status answers = node::check_device(device, std::string(spec.family->architecture),
                                            node::weight_types(file, spec));
  if (answers.ok() || answers.error().code != ErrorCode::kNoCapacity) return answers;
  return Error{answers.error().code,
               "the GPU has memory for the model, but not for the small models of the self-test: " +
                   answers.error().message};
}

using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// A bar for each stage that is loaded.
Progress bars() {
  return [bar = std::shared_ptr<ProgressBar>()](std::uint64_t done, std::uint64_t all) mutable {
    if (bar == nullptr) bar = std::make_shared<ProgressBar>("loading", all, 0);
    bar->set(done);
    if (done < all) return;
    bar->finish();
    bar = nullptr;
  };
}

// A sentence a tenth.
Progress tenths(std::function<void(std::string_view)> say) {
  return [say = std::move(say), said = std::uint64_t{0}](std::uint64_t done,
                                                         std::uint64_t all) mutable {
    const std::uint64_t tenth = all == 0 ? 10 : done * 10 / all;
    if (tenth == said) return;
    said = tenth % 10;  // another stage begins anew
    say(message_of("loading: ", tenth * 10, " % of ", all / 1'000'000, " MB"));
  };
}
#endif

bool asks_for_card(const DeviceChoice& choice) {
  return choice.kind == DeviceChoice::Kind::kCuda || choice.kind == DeviceChoice::Kind::kOpencl;
}

// kUnsupported where this build has no code for such a GPU.
Status check_build(const std::string& text, const DeviceChoice& choice) {
  if (!asks_for_card(choice)) return ok_status();
  const bool opencl = choice.kind == DeviceChoice::Kind::kOpencl;
#ifdef HEARTH_CARDS
  if (opencl == is_opencl()) return ok_status();
#endif
  return Error::of(ErrorCode::kUnsupported, "--device ", text, ": this build has no GPU code for ",
                   opencl ? "OpenCL; configure with -DHEARTH_OPENCL=ON, which needs clang 15"
                          : "CUDA; configure with -DHEARTH_CUDA=ON, which needs the CUDA toolkit",
                   ", or use --device cpu");
}

}  // namespace

Result<DeviceChoice> parse_device(const std::string& text) {
  if (text == "cpu") return DeviceChoice{DeviceChoice::Kind::kCpu, 0};
  for (const auto& [name, kind] :
       {std::pair{"auto", DeviceChoice::Kind::kAuto}, std::pair{"cuda", DeviceChoice::Kind::kCuda},
        std::pair{"opencl", DeviceChoice::Kind::kOpencl}}) {
    if (text == name) return DeviceChoice{kind, 0};
    const std::string prefix = name + std::string(":");
    if (!text.starts_with(prefix)) continue;
    const auto index = parse_number<std::uint32_t>(text.substr(prefix.size()));
    if (index && *index < kCardsMost) return DeviceChoice{kind, *index};
  }
  return Error::invalid(
      "--device must be auto, cpu, cuda, opencl, auto:N, cuda:N or opencl:N with N ", "below ",
      kCardsMost, ", not '", text, "'");
}

CLI::Validator device_text() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto choice = parse_device(text);
        return choice.ok() ? std::string() : choice.error().message;
      },
      "auto[:N]|cpu|cuda[:N]|opencl[:N]");
}

std::vector<std::string> worker_devices(const std::string& choice, std::uint32_t workers,
                                        std::uint32_t cards) {
  std::vector<std::string> devices(workers, choice);
  if (choice != "auto") return devices;
  for (std::uint32_t i = 0; i < workers; ++i) {
    devices[i] = i < cards ? "auto:" + std::to_string(i) : "cpu";
  }
  return devices;
}

node::EngineOptions whole_model(const model::ModelSpec& spec) {
  const node::LocalOptions local;
  node::EngineOptions engine;
  engine.layers = {0, spec.layers};
  engine.kv_budget_bytes = local.kv_budget_bytes;
  engine.batch_rows = local.batch_rows;
  return engine;
}

Status check_device_choice(const std::string& text) {
  TRY(const DeviceChoice choice, parse_device(text));
  TRY_VOID(check_build(text, choice));
#ifdef HEARTH_CARDS
  if (asks_for_card(choice)) {
    const Status found = node::check_card(choice.index);
    if (!found.ok()) return advised(found.error());
  }
#endif
  return ok_status();
}

#ifdef HEARTH_CARDS

std::uint32_t cards_here() {
  if (is_opencl()) return 0;               // never unasked: some of its devices are the CPU itself
  static const std::uint32_t cards = [] {  // so that the warning is printed once
    const auto count = kernels::cuda::device_count();
    if (!count.ok()) left_to_the_processor(count.error());
    return count.ok() ? *count : 0;
  }();
  return cards;
}

Result<std::unique_ptr<node::Device>> open_unasked_device(
    const std::string& text, std::function<void(std::string_view)> say) {
  TRY(const DeviceChoice choice, parse_device(text));
  const bool automatic = choice.kind == DeviceChoice::Kind::kAuto;
  if (choice.kind == DeviceChoice::Kind::kCpu || (automatic && cards_here() <= choice.index)) {
    return std::unique_ptr<node::Device>();
  }
  TRY_VOID(check_build(text, choice));
  node::CardOptions options;
  options.index = choice.index;
  options.on_lost = leave;
  if (is_opencl()) options.step_limit = kOpenclStepLimit;
  options.say = say;
  if (say) options.progress = isatty(STDERR_FILENO) == 1 ? bars() : tenths(std::move(say));
  auto card = node::open_card(options);
  if (automatic && !card.ok() && card.error().code == ErrorCode::kUnsupported) {
    return left_to_the_processor(card.error());
  }
  if (!card.ok()) return advised(card.error());
  return card;
}

Result<std::unique_ptr<node::Device>> open_device(const std::string& text,
                                                  const model::GgufFile& file,
                                                  const model::ModelSpec& spec,
                                                  const node::EngineOptions& least,
                                                  std::function<void(std::string_view)> say) {
  TRY(const auto examined, open_unasked_device(text, {}));
  if (examined == nullptr) return std::unique_ptr<node::Device>();
  const Status fit = examine(*examined, file, spec, least);
  if (!fit.ok()) {
    TRY(const DeviceChoice choice, parse_device(text));
    const bool automatic = choice.kind == DeviceChoice::Kind::kAuto;
    const bool refused = fit.error().code == ErrorCode::kNoCapacity ||
                         fit.error().code == ErrorCode::kUnsupported;  // experts, types of weights
    if (!automatic || !refused) return fit.error();
    return left_to_the_processor(fit.error());
  }
  return open_unasked_device(text, std::move(say));
}

#else

std::uint32_t cards_here() { return 0; }

Result<std::unique_ptr<node::Device>> open_unasked_device(const std::string& text,
                                                          std::function<void(std::string_view)>) {
  TRY_VOID(check_device_choice(text));
  return std::unique_ptr<node::Device>();
}

Result<std::unique_ptr<node::Device>> open_device(const std::string& text, const model::GgufFile&,
                                                  const model::ModelSpec&,
                                                  const node::EngineOptions&,
                                                  std::function<void(std::string_view)> say) {
  return open_unasked_device(text, std::move(say));
}

#endif

}  // namespace hearth::cli
