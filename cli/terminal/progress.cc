#include "cli/terminal/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace hearth::cli {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);
constexpr Duration kRedraw = std::chrono::milliseconds(100);
constexpr Duration kPlainLine = std::chrono::seconds(5);

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

std::string format_seconds(double seconds) {
  if (seconds >= 99 * 3600.0) return "99h+";
  const int whole = static_cast<int>(seconds);
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%dh%02dm", whole / 3600, whole / 60 % 60);
  } else if (whole >= 60) {
    std::snprintf(text, sizeof text, "%dm%02ds", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ds", whole);
  }
  return text;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5 && unit < 4) {  // as written, not as it is: no "1000 kB"
    value /= 1000.0;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

ProgressBar::ProgressBar(std::string message, std::uint64_t total, std::uint64_t already,
                         bool quiet)
    : message_(std::move(message)),
      total_(total),
      already_(already),
      done_(already),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1) {
  history_.emplace_back(clock_.now(), already_);
}

double ProgressBar::rate(TimePoint now) const {
  const auto& [since, from] = history_.front();
  const double seconds = std::chrono::duration<double>(now - since).count();
  return seconds > 0.05 ? static_cast<double>(done_ - from) / seconds : 0.0;
}

std::string ProgressBar::line(TimePoint now) const {
  const double fraction =
      total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0.0;
  const double speed = rate(now);
  char head[16];
  std::snprintf(head, sizeof head, "%3d%%", static_cast<int>(fraction * 100.0));
  std::string tail = " " + format_bytes(done_) + "/" + format_bytes(total_);
  if (speed > 0.0) {
    tail += "  " + format_bytes(static_cast<std::uint64_t>(speed)) + "/s";
    if (done_ < total_) tail += "  " + format_seconds(static_cast<double>(total_ - done_) / speed);
  }
  if (!terminal_) return message_ + "  " + head + tail;
  const int used = static_cast<int>(message_.size() + tail.size()) + 10;
  const int width = std::max(5, std::min(40, terminal_columns() - used));
  const int filled = static_cast<int>(fraction * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : " ";
  return message_ + "  " + head + " ▕" + bar + "▏" + tail;
}

void ProgressBar::set(std::uint64_t done) {
  done_ = std::max(done, done_);
  const TimePoint now = clock_.now();
  if (now - drawn_ < (terminal_ ? kRedraw : kPlainLine)) return;
  if (!terminal_ && drawn_ == TimePoint{}) {
    drawn_ = now;  // the first plain line only after a while: short work stays silent
    return;
  }
  drawn_ = now;
  history_.emplace_back(now, done_);
  while (history_.size() > 2 && now - history_.front().first > kWindow) history_.pop_front();
  if (quiet_) return;
  std::fprintf(stderr, terminal_ ? "\r%s\033[K" : "%s\n", line(now).c_str());
  std::fflush(stderr);
}

void ProgressBar::finish() {
  if (quiet_) return;
  const TimePoint now = clock_.now();
  std::fprintf(stderr, terminal_ ? "\r%s\033[K\n" : "%s\n", line(now).c_str());
}

}  // namespace hearth::cli
