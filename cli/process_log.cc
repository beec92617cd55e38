#include "cli/process_log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "cli/escape.h"

namespace hearth::cli {
namespace {

class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string text = escape_control({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

}  // namespace

void log_refused_link(const std::string& why) { spdlog::warn("refused a data link: {}", why); }

Status start_process_log(const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);
  REQUIRE(parsed != spdlog::level::off || level == "off",
          "log level \"" + escape_control(level) +
              "\" is none of trace, debug, info, warn, error, off");
  auto logger =
      std::make_shared<spdlog::logger>("hearth", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern("%H:%M:%S.%e %l %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return ok_status();
}

}  // namespace hearth::cli
