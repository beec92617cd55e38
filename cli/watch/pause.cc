#include <chrono>
#include <cstdio>
#include <thread>

#include "base/clock.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/table.h"
#include "cli/watch/watch.h"
#include "node/machine/pause_file.h"

namespace hearth::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kPausePatience = std::chrono::seconds(15);  // a step, or a part of a loading
constexpr auto kDrainPatience =
    std::chrono::duration_cast<std::chrono::seconds>(node::kDrainMost) + kPausePatience;
constexpr auto kLookAgain = std::chrono::milliseconds(10);

// Gives the order. Returns the seconds until no worker of the folder has a model in memory, 0 if
// none had one.
Result<double> say(const std::string& folder, const node::OwnerOrder& order,
                   std::chrono::seconds patience) {
  TRY_VOID(node::write_pause_file(folder, order));
  const auto begin = SteadyClock::now();
  for (bool first = true;; first = false) {
    TRY(const bool work, node::workers_work(folder));
    if (!work)
      return first ? 0.0 : std::chrono::duration<double>(SteadyClock::now() - begin).count();
    if (interrupted())
      return Error{ErrorCode::kCancelled, "interrupted; the order remains in force"};
    if (SteadyClock::now() - begin >= patience) {
      return Error{
          ErrorCode::kTimeout,
          "a worker on this machine still holds its memory after " +
              std::to_string(patience.count()) +
              " s; the order remains in force, and hearth logs shows what the worker does"};
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Result<int> order(const PauseOptions& options, bool drain) {
  catch_interrupts();
  const std::int64_t until =
      options.seconds > 0 ? SystemClock().unix_seconds() + options.seconds : 0;
  TRY(const double took,
      say(data_folder(options.data_dir), {drain, until}, drain ? kDrainPatience : kPausePatience));
  const std::string end = until > 0 ? date_text(until) : "hearth resume";
  std::printf("%s until %s; ", drain ? "drained" : "paused", end.c_str());
  if (took > 0.0) {
    std::printf("the workers' memory was free after %.2f s\n", took);
  } else {
    std::printf(
        "no worker with the data folder %s had a model in memory; workers that start later obey "
        "too\n",
        escape_control(data_folder(options.data_dir)).c_str());
  }
  return kExitDone;
}

}  // namespace

Result<int> run_pause(const PauseOptions& options) {
  if (!options.node.empty()) return order_node(options, "pause");
  return order(options, false);
}

Result<int> run_drain(const PauseOptions& options) {
  if (!options.node.empty()) return order_node(options, "drain");
  std::fprintf(stderr, "running requests move to other nodes or finish first\n");
  return order(options, true);
}

Result<int> run_resume(const PauseOptions& options) {
  if (!options.node.empty()) return order_node(options, "resume");
  TRY(const bool removed, node::remove_pause_file(data_folder(options.data_dir)));
  return succeed(removed ? "resumed"
                         : "nothing was paused here; hearth status shows whether an admin, the "
                           "schedule, a game or the battery pauses a worker");
}

}  // namespace hearth::cli
