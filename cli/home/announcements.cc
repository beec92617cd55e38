#include "cli/home/announcements.h"

#include <algorithm>
#include <optional>

#include "base/hex.h"
#include "base/limits.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kNameField = 3;
constexpr std::size_t kTextField = 9;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "\032" is the byte 32, "\." a dot.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 3);
    if (digits.size() == 3 && std::all_of(digits.begin(), digits.end(), is_digit)) {
      const int byte = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
      out += static_cast<char>(byte);
      i += 3;
    } else {
      out += text[++i];
    }
  }
  return out;
}

// The value of key=... among quoted words.
std::string_view value_of(std::string_view words, std::string_view key) {
  const std::string begin = "\"" + std::string(key) + "=";
  const std::size_t at = words.find(begin);
  if (at == std::string_view::npos) return {};
  words.remove_prefix(at + begin.size());
  return words.substr(0, words.find('"'));
}

std::optional<FoundCluster> parse_line(std::string_view line) {
  if (!line.starts_with("=;")) return std::nullopt;
  std::vector<std::string_view> fields;
  while (fields.size() < kTextField) {
    const std::size_t end = line.find(';');
    if (end == std::string_view::npos) return std::nullopt;
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  FoundCluster found;
  found.name = unescaped(fields[kNameField]);
  const auto bytes = from_hex(value_of(line, "key"));
  const auto key = bytes ? PublicKey::parse(*bytes) : PublicKey::parse({});
  const auto address = parse_address(value_of(line, "at"));
  if (!check_node_name(found.name).ok() || !key.ok() || !address.ok()) return std::nullopt;
  found.key = *key;
  found.address = address->text();
  return found;
}

}  // namespace

std::vector<FoundCluster> parse_announcements(std::string_view text) {
  std::vector<FoundCluster> all;
  while (!text.empty() && all.size() < limits::kFoundClusters) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto found = parse_line(line);
    // It is heard on every interface.
    if (found && std::find(all.begin(), all.end(), *found) == all.end()) all.push_back(*found);
  }
  return all;
}

}  // namespace hearth::cli
