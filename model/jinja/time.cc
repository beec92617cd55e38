// strftime for templates: the time is an argument, the calendar UTC and the names English, so
// that a prompt depends on nothing but its input.
#include <chrono>
#include <cstdio>

#include "model/jinja/builtins.h"

namespace hearth::model::jinja {
namespace {

struct Moment {
  int year = 0;
  int month = 0;
  int day = 0;
  int weekday = 0;  // 0: Sunday
  int year_day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

Moment moment_of(std::int64_t unix_seconds) {
  using std::chrono::sys_days;
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_seconds)};
  const sys_days day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto rest = static_cast<int>((time - day).count());
  Moment moment;
  moment.year = static_cast<int>(date.year());
  moment.month = static_cast<int>(static_cast<unsigned>(date.month()));
  moment.day = static_cast<int>(static_cast<unsigned>(date.day()));
  moment.weekday = static_cast<int>(std::chrono::weekday(day).c_encoding());
  moment.year_day = static_cast<int>((day - sys_days(date.year() / 1 / 1)).count()) + 1;
  moment.hour = rest / 3600;
  moment.minute = rest / 60 % 60;
  moment.second = rest % 60;
  return moment;
}

std::string padded(int value, int width, char fill) {
  std::string digits = std::to_string(value);
  const auto wanted = static_cast<std::size_t>(width);
  if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), fill);
  return digits;
}

std::string directive(char letter, bool bare, const Moment& at) {
  constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};
  constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
  const std::string_view month = kMonths[at.month - 1];
  const std::string_view day = kDays[at.weekday];
  const int two = bare ? 1 : 2;
  switch (letter) {
    case 'A': return std::string(day);
    case 'a': return std::string(day.substr(0, 3));
    case 'B': return std::string(month);
    case 'b': return std::string(month.substr(0, 3));
    case 'd': return padded(at.day, two, '0');
    case 'e': return padded(at.day, two, ' ');
    case 'H': return padded(at.hour, two, '0');
    case 'I': return padded((at.hour + 11) % 12 + 1, two, '0');
    case 'j': return padded(at.year_day, bare ? 1 : 3, '0');
    case 'M': return padded(at.minute, two, '0');
    case 'm': return padded(at.month, two, '0');
    case 'p': return at.hour < 12 ? "AM" : "PM";
    case 'S': return padded(at.second, two, '0');
    case 'Y': return std::to_string(at.year);
    case 'y': return padded(at.year % 100, two, '0');
    case '%': return "%";
    default: return "";
  }
}

}  // namespace

Result<std::string> format_time(std::string_view format, std::int64_t unix_seconds) {
  constexpr std::int64_t kYear9999 = 253'402'300'799;
  REQUIRE(unix_seconds >= 0 && unix_seconds <= kYear9999,
          "the time is outside of the years 1970 to 9999");
  const Moment at = moment_of(unix_seconds);
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
      return Error{ErrorCode::kUnsupported,
                   "a time format with this directive is not supported: '" +
                       std::string(format.substr(0, 64)) + "'"};
    }
    out += text;
  }
  return out;
}

}  // namespace hearth::model::jinja
