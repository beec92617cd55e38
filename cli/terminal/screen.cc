#include "cli/terminal/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/table.h"

namespace hearth::cli {
namespace {

constexpr char kHideCursor[] = "\033[?25l";
constexpr char kShowCursor[] = "\033[?25h";
constexpr char kClear[] = "\033[2J";
constexpr char kEndOfInput = 4;  // Ctrl-D

// The terminal settings that a signal handler restores.
termios saved_mode = {};
volatile std::sig_atomic_t mode_changed = 0;
volatile std::sig_atomic_t cursor_hidden = 0;

// Signals that end the program, and their earlier handlers.
constexpr std::array kEnding = {SIGTERM, SIGHUP, SIGQUIT};
std::array<struct sigaction, kEnding.size()> before = {};

void restore_terminal() {
  if (mode_changed != 0) tcsetattr(STDIN_FILENO, TCSANOW, &saved_mode);
  mode_changed = 0;
  if (cursor_hidden != 0) (void)!write(STDOUT_FILENO, kShowCursor, sizeof kShowCursor - 1);
  cursor_hidden = 0;
}

void on_end(int signal) {
  restore_terminal();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

bool draws_in_place() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && terminal != nullptr && *terminal != '\0' &&
         std::strcmp(terminal, "dumb") != 0;
}

// Keys come at once and are not shown; Ctrl-C stays a signal.
bool take_keys() {
  if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &saved_mode) != 0) return false;
  termios mode = saved_mode;
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSANOW, &mode) != 0) return false;
  mode_changed = 1;
  return true;
}

// One object at a time. Its destructor, or a signal that ends the program, restores the terminal.
class Screen {
 public:
  // In place only where stdout is a terminal that can do it, and not when `plain`.
  explicit Screen(bool plain) : in_place_(!plain && draws_in_place()), keys_(false) {
    catch_interrupts();
    if (!in_place_) return;
    on_forced_end(restore_terminal);
    struct sigaction action = {};
    action.sa_handler = on_end;
    for (std::size_t i = 0; i < kEnding.size(); ++i) {
      sigaction(kEnding[i], nullptr, &before[i]);
      if (before[i].sa_handler != SIG_IGN) sigaction(kEnding[i], &action, nullptr);
    }
    keys_ = take_keys();
    cursor_hidden = 1;
    std::fputs(kHideCursor, stdout);
    std::fflush(stdout);
  }

  ~Screen() {
    if (!in_place_) return;
    std::fflush(stdout);
    restore_terminal();
    for (std::size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &before[i], nullptr);
    on_forced_end(nullptr);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lines without control characters.
  void draw(const Lines& lines) {
    if (in_place_) {
      winsize size{};
      const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
      if (!drawn_) std::fputs(kClear, stdout);
      std::fputs(screen_bytes(lines, known ? size.ws_col : 80, known ? size.ws_row : 24).c_str(),
                 stdout);
    } else {
      if (drawn_ && lines.size() > 1) std::fputc('\n', stdout);
      for (const std::string& line : lines) std::fprintf(stdout, "%s\n", line.c_str());
    }
    drawn_ = true;
    std::fflush(stdout);
  }

  // False when the user has typed q or Ctrl-C before the next picture, and when pictures cannot be
  // written.
  bool wait(std::chrono::milliseconds time) {
    if (std::ferror(stdout) != 0) return false;
    const auto end = std::chrono::steady_clock::now() + time;
    for (;;) {
      if (interrupted()) return false;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      if (left.count() <= 0) return true;
      // Waits in short pieces: an interrupt just before one long wait would be noticed too late.
      const int slice = static_cast<int>(std::min<std::int64_t>(left.count(), 200));
      pollfd input{keys_ ? STDIN_FILENO : -1, POLLIN, 0};
      if (poll(&input, 1, slice) <= 0 || input.revents == 0) continue;
      char key = 0;
      const ssize_t got = read(STDIN_FILENO, &key, 1);
      if (got == 0 || (got == 1 && (key == 'q' || key == 'Q' || key == kEndOfInput))) return false;
    }
  }

 private:
  bool in_place_;
  bool keys_;
  bool drawn_ = false;
};

}  // namespace

std::string screen_bytes(const Lines& lines, std::size_t columns, std::size_t rows) {
  // The last row stays free: a line break there would scroll the screen.
  const std::size_t room = std::max<std::size_t>(rows, 2) - 1;
  const bool all = lines.size() <= room;
  const std::size_t shown = all ? lines.size() : room - 1;
  std::string bytes = "\033[H";
  const auto add = [&](std::string_view line) {
    bytes += clip_columns(line, columns);
    bytes += "\033[K\n";
  };
  for (std::size_t i = 0; i < shown; ++i) add(lines[i]);
  if (!all) add("... " + std::to_string(lines.size() - shown) + " lines more");
  return bytes + "\033[J";
}

int watch(const WatchOptions& options, const std::function<Result<Lines>()>& picture) {
  const auto interval = std::chrono::milliseconds(
      static_cast<std::int64_t>(std::max(0.05, options.interval_seconds) * 1000.0));
  auto first = picture();
  if (!first.ok()) return fail(first.error());
  Lines last = std::move(*first);
  std::optional<Error> refused;
  {
    Screen screen(options.plain);
    screen.draw(last);
    for (std::uint64_t drawn = 1; drawn != options.count && screen.wait(interval); ++drawn) {
      auto next = picture();
      if (interrupted()) break;
      if (next.ok()) {
        last = std::move(*next);
        screen.draw(last);
        continue;
      }
      if (next.error().code == ErrorCode::kRefused) {
        refused = next.error();
        break;
      }
      const std::string why = "hearth: " + escape_control(next.error().message) + "; retrying";
      if (options.plain) {
        std::fprintf(stderr, "%s\n", why.c_str());
        continue;
      }
      Lines below = last;
      below.push_back(why);
      screen.draw(below);
    }
  }
  if (refused) return fail(*refused);
  return interrupted() ? kExitInterrupted : kExitDone;
}

}  // namespace hearth::cli
