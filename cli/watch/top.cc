#include "cli/watch/top.h"

#include <ctime>

#include "cli/terminal/screen.h"
#include "cli/watch/swarm_lines.h"

namespace hearth::cli {
namespace {

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[16];
  if (localtime_r(&now, &parts) == nullptr) return "";
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return text;
}

}  // namespace

int run_top(const TopOptions& options) {
  HttpClient http;
  WatchOptions drawing{options.interval_seconds, options.count, options.json};
  return watch(drawing, [&]() -> Result<Lines> {
    TRY(const SwarmAnswer answer, fetch_swarm(http, options.api_base, options.api_key));
    if (options.json) return Lines{answer.json};
    return top_lines(answer.view, options.api_base, local_time());
  });
}

}  // namespace hearth::cli
