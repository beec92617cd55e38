#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/cluster/cluster.h"
#include "coordinator/membership/qr_code.h"

namespace hearth::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

std::vector<std::string> join_code_lines(const std::string& token, std::size_t columns,
                                         std::size_t rows) {
  const auto code = coordinator::QrCode::of("hearth join " + token);
  if (!code.ok() || code->terminal_columns() > columns) return {};
  std::vector<std::string> lines = code->terminal_lines();
  // The prompt of the shell takes a row.
  return lines.size() < rows ? lines : std::vector<std::string>();
}

void show_join_code(std::FILE* out, const std::string& token) {
  const char* terminal = std::getenv("TERM");
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || isatty(fileno(out)) != 1 || is_set("NO_COLOR") ||
      !is_set("TERM") || std::string_view(terminal) == "dumb" ||
      ioctl(fileno(out), TIOCGWINSZ, &size) != 0) {
    return;
  }
  std::fflush(stdout);  // the text before it
  for (const std::string& line : join_code_lines(token, size.ws_col, size.ws_row)) {
    std::fprintf(out, "%s\n", line.c_str());
  }
}

}  // namespace hearth::cli
