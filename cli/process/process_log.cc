#include "cli/process/process_log.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/private_file.h"
#include "cli/process/log_limiter.h"
#include "cli/terminal/escape.h"
#include "proto/link/grpc_tls.h"

namespace hearth::cli {
namespace {

// Before each line's text, with a space behind it; null: nothing. A standby's threads log already
// when it begins to serve.
std::atomic<const char*> log_mark{nullptr};

class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    if (const char* mark = log_mark.load(std::memory_order_acquire); mark != nullptr) {
      out.append(std::string_view(mark));
      out.push_back(' ');
    }
    const std::string text = escape_control({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

constexpr const char* kChild = "child";  // logger of lines that are whole already

std::unique_ptr<spdlog::pattern_formatter> line_formatter(const char* time) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern(std::string(time) + " %l %*");
  return formatter;
}

class FileFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    if (logger != kChild) return own_->format(message, out);
    out.append(message.payload.data(), message.payload.data() + message.payload.size());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<FileFormatter>();
  }

 private:
  std::unique_ptr<spdlog::formatter> own_ = line_formatter("%Y-%m-%d %H:%M:%S.%e");
};

std::shared_ptr<spdlog::logger> children;  // to the file alone; null: no file

// Warnings and errors are limited by their kind.
class LimitedLogger final : public spdlog::logger {
 public:
  using logger::logger;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level < spdlog::level::warn) return logger::sink_it_(message);
    const std::string_view line(message.payload.data(), message.payload.size());
    const auto left_out = admit(line);
    if (!left_out) return;
    if (*left_out == 0) return logger::sink_it_(message);
    const std::string text = fmt::format("{} (and {} more like this)", line, *left_out);
    spdlog::details::log_msg longer = message;
    longer.payload = text;
    logger::sink_it_(longer);
  }
  std::optional<std::uint64_t> admit(std::string_view line) {
    const std::lock_guard lock(mutex_);
    return limiter_.admit(line, std::chrono::steady_clock::now());
  }

  std::mutex mutex_;
  LogLimiter limiter_;
};

}  // namespace

Status start_process_log(const std::string& level) {
  on_failed_handshake(
      [](std::string_view why) { spdlog::warn("a control handshake failed: {}", why); });
  const auto parsed = spdlog::level::from_str(level);
  REQUIRE(parsed != spdlog::level::off || level == "off", "log level \"", escape_control(level),
          "\" must be trace, debug, info, warn, error or off");
  auto logger =
      std::make_shared<LimitedLogger>("hearth", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(line_formatter("%H:%M:%S.%e"));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return ok_status();
}

void mark_process_log(const char* word) { log_mark.store(word, std::memory_order_release); }

Status log_to_file(const std::string& path, std::size_t bytes) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  TRY_VOID(make_private_folder(folder.parent_path().string()));  // the data folder may be new, too
  TRY_VOID(make_private_folder(folder.string()));
  try {
    auto file =
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, bytes, kLogFilesBefore);
    file->set_formatter(std::make_unique<FileFormatter>());
    children = std::make_shared<spdlog::logger>(kChild, file);
    children->flush_on(spdlog::level::trace);
    spdlog::default_logger()->sinks().push_back(std::move(file));
  } catch (const spdlog::spdlog_ex& error) {
    return Error::of(ErrorCode::kIo, "cannot write a log file: ", error.what());
  }
  return ok_status();
}

void log_to_file_or_warn(const std::string& path) {
  if (const Status begun = log_to_file(path); !begun) spdlog::warn("{}", begun.error().message);
}

void log_child_line(const std::string& name, const std::string& line) {
  const std::string text = "[" + name + "] " + escape_control(line);
  std::fprintf(stderr, "%s\n", text.c_str());
  if (children != nullptr) children->info("{}", text);
}

}  // namespace hearth::cli
