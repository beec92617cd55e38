#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/home/own_server.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/table.h"
#include "cli/watch/watch.h"

namespace hearth::cli {

Result<int> order_node(const PauseOptions& options, const std::string& word) {
  nlohmann::json body = {{"node", options.node}, {"order", word}};
  if (options.seconds > 0) body["seconds"] = options.seconds;
  client::HttpClient http(interrupted);
  TRY_VOID(post_to_server(http, options.api_base, options.api_key, "/api/v1/orders", body));
  const std::string name = escape_control(options.node);
  if (word == "resume") {
    return succeed(name + " may serve again, unless its owner or a condition pauses it");
  }
  const std::string end = options.seconds > 0
                              ? date_text(SystemClock().unix_seconds() + options.seconds)
                              : "hearth resume --node " + name;
  return succeed(name + " was told to " + word + " until " + end +
                 "; hearth status shows when it has");
}

}  // namespace hearth::cli
