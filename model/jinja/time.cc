// strftime for templates: the time is an argument, the calendar UTC and the names English, so
// that a prompt depends on nothing but its input.
#include <clocale>
#include <ctime>

#include "model/jinja/builtins.h"

namespace hearth::model::jinja {
namespace {

// Empty for a directive that the subset lacks.
std::string directive(char letter, bool bare, const std::tm& at) {
  static const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  if (std::string_view("AaBbCcDdeFGgHhIjMmpRSTUuVWwXxYy%").find(letter) == std::string_view::npos)
    return "";
  const char format[] = {'%', bare ? '-' : letter, bare ? letter : '\0', '\0'};
  char text[32];
  return std::string(text, strftime_l(text, sizeof text, format, &at, english));
}

}  // namespace

Result<std::string> format_time(std::string_view format, std::int64_t unix_seconds) {
  constexpr std::int64_t kYear9999 = 253'402'300'799;
  REQUIRE(unix_seconds >= 0 && unix_seconds <= kYear9999,
          "the time is outside of the years 1970 to 9999");
  const std::time_t time = unix_seconds;
  std::tm at{};
  gmtime_r(&time, &at);
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const bool bare = i + 1 < format.size() && format[i + 1] == '-';
    i += bare ? 2 : 1;
    const std::string text = i < format.size() ? directive(format[i], bare, at) : "";
    if (text.empty()) {
      return Error::of(ErrorCode::kUnsupported,
                       "a time format with this directive is not supported: '",
                       format.substr(0, 64), "'");
    }
    out += text;
  }
  return out;
}

}  // namespace hearth::model::jinja
