#include "cli/doctor/release.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "base/hex.h"
#include "base/limits.h"
#include "base/number.h"
#include "ledger/note.h"

namespace hearth::cli {
namespace {

using std::chrono::year_month_day;

constexpr std::size_t kDateBytes = 10;  // "2026-12-01"
constexpr int kFirstYear = 2020;
constexpr int kLastYear = 9999;

std::string signer_name(const PublicKey& key) { return "hearth-release/" + key.hex(); }

// Nothing unless the whole text is the number, without a sign or leading zeros.
template <typename Number>
std::optional<Number> whole(std::string_view text) {
  const auto value = parse_number<Number>(text);
  return value && std::to_string(*value) == text ? value : std::nullopt;
}

std::optional<year_month_day> parse_date(std::string_view text) {
  if (text.size() != kDateBytes) return std::nullopt;
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  std::from_chars(text.data(), text.data() + 4, year);
  std::from_chars(text.data() + 5, text.data() + 7, month);
  std::from_chars(text.data() + 8, text.data() + 10, day);
  const year_month_day date{std::chrono::year(year), std::chrono::month(month),
                            std::chrono::day(day)};
  const bool is_day = date.ok() && year >= kFirstYear && year <= kLastYear;
  return is_day && day_text(date) == text ? std::optional(date) : std::nullopt;
}

bool is_printable_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7F; });
}

// A name that no shell and no folder takes for something else.
bool is_file_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '+' || c == '~';
  };
  return !name.empty() && name.size() <= limits::kReleaseNameBytes && name.front() != '.' &&
         name.front() != '-' && name.front() != '~' && std::ranges::all_of(name, fits);
}

// Takes the lines of a text one by one; each begins with its name and a space.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  // What follows the name; nothing when the next line has another name.
  std::optional<std::string_view> take(std::string_view name) {
    const std::string_view line = rest_.substr(0, rest_.find('\n'));
    if (!line.starts_with(name) || line.substr(name.size()).substr(0, 1) != " ") {
      return std::nullopt;
    }
    rest_.remove_prefix(line.size() + 1);  // a note's text ends with a newline
    return line.substr(name.size() + 1);
  }

 private:
  std::string_view rest_;
};

Result<ReleaseFile> parse_file(std::string_view line, std::size_t number) {
  const std::string which = "line 'file' " + std::to_string(number) + " of the release manifest ";
  const std::size_t first = line.find(' ');
  const std::size_t second = first == line.npos ? line.npos : line.find(' ', first + 1);
  REQUIRE(second != line.npos, which, "must be: file SHA256 BYTES NAME");
  ReleaseFile file;
  const auto hash = from_hex(line.substr(0, first));
  REQUIRE(hash && hash->size() == file.sha256.bytes.size(), which,
          "must have a SHA-256 of 64 lower-case hexadecimal digits");
  std::ranges::copy(*hash, file.sha256.bytes.begin());
  const auto bytes = whole<std::uint64_t>(line.substr(first + 1, second - first - 1));
  REQUIRE(bytes && *bytes > 0 && *bytes <= limits::kReleaseFileBytes, which,
          "must have a size of 1 to ", limits::kReleaseFileBytes, " bytes");
  file.bytes = *bytes;
  file.name = line.substr(second + 1);
  REQUIRE(is_file_name(file.name), which, "must have a name of 1 to ", limits::kReleaseNameBytes,
          " letters, digits and . - _ + ~, that begins with a letter, a digit, _ or +");
  return file;
}

Result<Release> parse_text(std::string_view text, const PublicKey& key) {
  const std::string origin = signer_name(key) + "\n";
  REQUIRE(text.starts_with(origin),
          "the first line of the release manifest must be the name of its key, hearth-release/KEY");
  LineReader lines(text.substr(origin.size()));
  Release release;
  const auto version = lines.take("version");
  REQUIRE(version, "line 2 of the release manifest must be: version MAJOR.MINOR.PATCH");
  TRY(release.version, parse_release_version(*version));
  const auto date = lines.take("date");
  const auto day = date ? parse_date(*date) : std::nullopt;
  REQUIRE(day, "line 3 of the release manifest must be: date YYYY-MM-DD");
  release.date = *day;
  const auto until = lines.take("until");
  const auto last = until ? parse_date(*until) : std::nullopt;
  REQUIRE(last && *last >= *day,
          "line 4 of the release manifest must be: until YYYY-MM-DD, not before its date");
  release.until = *last;
  const auto said = lines.take("text");
  REQUIRE(said && !said->empty() && said->size() <= limits::kReleaseTextBytes &&
              is_printable_ascii(*said),
          "line 5 of the release manifest must be: text, and 1 to ", limits::kReleaseTextBytes,
          " printable ASCII characters");
  release.text = *said;
  while (const auto line = lines.take("file")) {
    REQUIRE(release.files.size() < limits::kReleaseFiles, "the release manifest has more than ",
            limits::kReleaseFiles, " files");
    TRY(ReleaseFile file, parse_file(*line, release.files.size() + 1));
    release.files.push_back(std::move(file));
  }
  REQUIRE(lines.at_end(), "the release manifest has a line that this program does not know after ",
          release.files.size(), " files; a newer program may know it");
  return release;
}

}  // namespace

std::string day_text(const year_month_day& date) {
  char text[16];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text;
}

std::string ReleaseVersion::text() const { return message_of(major, ".", minor, ".", patch); }

Result<ReleaseVersion> parse_release_version(std::string_view text) {
  const std::size_t first = text.find('.');
  const std::size_t second = first == text.npos ? text.npos : text.find('.', first + 1);
  if (second != text.npos) {
    const auto major = whole<std::uint16_t>(text.substr(0, first));
    const auto minor = whole<std::uint16_t>(text.substr(first + 1, second - first - 1));
    const auto patch = whole<std::uint16_t>(text.substr(second + 1));
    if (major && minor && patch) return ReleaseVersion{*major, *minor, *patch};
  }
  return Error::invalid(
      "a version must be MAJOR.MINOR.PATCH, three numbers up to 65535, for example 0.2.0");
}

std::string release_text(const Release& release, const PublicKey& key) {
  std::string out = signer_name(key) + "\nversion " + release.version.text() + "\ndate " +
                    day_text(release.date) + "\nuntil " + day_text(release.until) + "\ntext " +
                    release.text + "\n";
  for (const ReleaseFile& file : release.files) {
    out += "file " + file.sha256.hex() + " " + std::to_string(file.bytes) + " " + file.name + "\n";
  }
  return out;
}

Result<Release> parse_release(ByteSpan bytes, const PublicKey& key) {
  const auto note = ledger::parse_note(bytes);
  REQUIRE(note.ok(), "this is no release manifest: ", note.error().message);
  bool is_signed = false;
  for (const ledger::NoteSignature& line : note->signatures) {
    const auto check = ledger::check_note(*note, line, signer_name(key), key);
    if (check == ledger::NoteCheck::kWrong) {
      return Error{ErrorCode::kRefused,
                   "the signature of the release manifest is wrong: it was changed after it was "
                   "signed; fetch it again, from the project itself"};
    }
    is_signed = is_signed || check == ledger::NoteCheck::kRight;
  }
  if (!is_signed) {
    return Error::of(ErrorCode::kRefused, "the release manifest is not signed with the key ",
                     key.hex(), "; check the address, or the key (--key)");
  }
  return parse_text(note->text, key);
}

}  // namespace hearth::cli
