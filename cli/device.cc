#include "cli/device.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cli/exit_codes.h"
#ifdef HEARTH_CARDS
#include <unistd.h>

#include "cli/progress.h"
#include "kernels/cuda/runtime.h"
#include "node/engine/card/card.h"
#include "node/engine/card/card_check.h"
#endif

namespace hearth::cli {
namespace {

constexpr std::uint32_t kCardsMost = 64;

#ifdef HEARTH_CARDS
// Nothing may reach for a lost card again, so that no destructor runs.
[[noreturn]] void leave(const Error& error) {
  fail({error.code, error.message + "; this process ends, for its card is lost to it"});
  std::fflush(nullptr);
  std::_Exit(kExitDevice);
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
    say("loading: " + std::to_string(tenth * 10) + " % of " + std::to_string(all / 1'000'000) +
        " MB");
  };
}
#endif

}  // namespace

Result<DeviceChoice> parse_device(const std::string& text) {
  if (text == "auto") return DeviceChoice{};
  if (text == "cpu") return DeviceChoice{DeviceChoice::Kind::kCpu, 0};
  DeviceChoice choice{DeviceChoice::Kind::kCuda, 0};
  if (text == "cuda") return choice;
  const std::string prefix = "cuda:";
  if (text.rfind(prefix, 0) == 0) {
    const char* begin = text.data() + prefix.size();
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(begin, end, choice.index);
    if (error == std::errc() && at == end && choice.index < kCardsMost) return choice;
  }
  return Error::invalid("a device is auto, cpu, cuda or cuda:N with N below " +
                        std::to_string(kCardsMost) + ", not '" + text + "'");
}

CLI::Validator device_text() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto choice = parse_device(text);
        return choice.ok() ? std::string() : choice.error().message;
      },
      "auto|cpu|cuda[:N]");
}

std::vector<std::string> worker_devices(const std::string& choice, std::uint32_t workers,
                                        std::uint32_t cards) {
  std::vector<std::string> devices(workers, choice);
  if (choice != "auto") return devices;
  for (std::uint32_t i = 0; i < workers; ++i) {
    devices[i] = i < cards ? "cuda:" + std::to_string(i) : "cpu";
  }
  return devices;
}

#ifdef HEARTH_CARDS

Status check_device_choice(const std::string& text) {
  const auto choice = parse_device(text);
  return choice.ok() ? ok_status() : Status(choice.error());
}

std::uint32_t cards_here() {
  const auto count = kernels::cuda::device_count();
  return count.ok() ? *count : 0;
}

Result<std::unique_ptr<node::Device>> open_unasked_device(
    const std::string& text, std::function<void(std::string_view)> say) {
  TRY(const DeviceChoice choice, parse_device(text));
  const bool automatic = choice.kind == DeviceChoice::Kind::kAuto;
  if (choice.kind == DeviceChoice::Kind::kCpu || (automatic && cards_here() == 0)) {
    return std::unique_ptr<node::Device>();
  }
  node::CardOptions options;
  options.index = choice.index;
  options.on_lost = leave;
  options.say = say;
  if (say) options.progress = isatty(STDERR_FILENO) == 1 ? bars() : tenths(std::move(say));
  auto card = node::open_card(options);
  if (card.ok() || card.error().code != ErrorCode::kUnavailable) return card;
  Error error = card.error();
  error.message += "; nvidia-smi shows what the driver sees, and --device cpu does without a card";
  return error;
}

Result<std::unique_ptr<node::Device>> open_device(const std::string& text,
                                                  const model::GgufFile& file,
                                                  const model::ModelSpec& spec,
                                                  std::function<void(std::string_view)> say) {
  TRY(const auto examined, open_unasked_device(text, {}));
  if (examined == nullptr) return std::unique_ptr<node::Device>();
  TRY_VOID(node::check_device(*examined, std::string(spec.family->architecture),
                              node::weight_types(file, spec)));
  return open_unasked_device(text, std::move(say));
}

#else

Status check_device_choice(const std::string& text) {
  TRY(const DeviceChoice choice, parse_device(text));
  if (choice.kind != DeviceChoice::Kind::kCuda) return ok_status();
  return Error{ErrorCode::kUnsupported,
               "--device " + text +
                   ": this build has no code for cards; configure it with -DHEARTH_CUDA=ON, which "
                   "needs the CUDA toolkit, or use --device cpu"};
}

std::uint32_t cards_here() { return 0; }

Result<std::unique_ptr<node::Device>> open_unasked_device(const std::string& text,
                                                          std::function<void(std::string_view)>) {
  TRY_VOID(check_device_choice(text));
  return std::unique_ptr<node::Device>();
}

Result<std::unique_ptr<node::Device>> open_device(const std::string& text, const model::GgufFile&,
                                                  const model::ModelSpec&,
                                                  std::function<void(std::string_view)> say) {
  return open_unasked_device(text, std::move(say));
}

#endif

}  // namespace hearth::cli
