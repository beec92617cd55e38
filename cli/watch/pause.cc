#include "cli/watch/pause.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/clock.h"
#include "cli/pause_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/date_text.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPausePatience = std::chrono::seconds(15);  // a step, or a part of a loading
constexpr auto kDrainPatience =
    std::chrono::duration_cast<std::chrono::seconds>(node::kDrainMost) + kPausePatience;
constexpr auto kLookAgain = std::chrono::milliseconds(10);

// Says the order; seconds until no worker of the folder has a model in memory, 0 where none had.
Result<double> say(const std::string& folder, const node::OwnerOrder& order,
                   std::chrono::seconds patience) {
  TRY_VOID(write_pause_file(folder, order));
  const auto begin = Clock::now();
  for (bool first = true;; first = false) {
    TRY(const bool work, workers_work(folder));
    if (!work) return first ? 0.0 : std::chrono::duration<double>(Clock::now() - begin).count();
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted; the order stands"};
    if (Clock::now() - begin >= patience) {
      return Error{ErrorCode::kTimeout,
                   "a worker here still holds its memory after " +
                       std::to_string(patience.count()) +
                       " s; the order stands, and hearth logs says what the worker does"};
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

int order(const PauseOptions& options, bool drain) {
  catch_interrupts();
  const std::int64_t until =
      options.seconds > 0 ? SystemClock().unix_seconds() + options.seconds : 0;
  const auto took =
      say(data_folder(options.data_dir), {drain, until}, drain ? kDrainPatience : kPausePatience);
  if (!took.ok()) return fail(took.error());
  const std::string end = until > 0 ? date_text(until) : "hearth resume";
  std::printf("%s until %s; ", drain ? "drained" : "paused", end.c_str());
  if (*took > 0.0) {
    std::printf("the workers' memory was free after %.2f s\n", *took);
  } else {
    std::printf(
        "no worker with the folder %s had a model in memory; one that starts is bound by it\n",
        escape_control(data_folder(options.data_dir)).c_str());
  }
  return kExitDone;
}

}  // namespace

int run_pause(const PauseOptions& options) { return order(options, false); }

int run_drain(const PauseOptions& options) {
  std::fprintf(stderr, "what runs here goes on elsewhere, or ends first\n");
  return order(options, true);
}

int run_resume(const std::string& data_dir) {
  const auto removed = remove_pause_file(data_folder(data_dir));
  if (!removed.ok()) return fail(removed.error());
  std::printf("%s\n", *removed
                          ? "resumed"
                          : "nothing was paused here; hearth status says whether hours, a game or "
                            "the battery keep a worker away, which its configuration sets");
  return kExitDone;
}

}  // namespace hearth::cli
