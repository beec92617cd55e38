#include "coordinator/http/openai/json.h"

#include <exception>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

// First pass: counts and checks without building the value. The second pass builds it.
class Bounds final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool key(string_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& what) override {
    constexpr int kNumberOverflow = 406;
    error_ = what.id == kNumberOverflow
                 ? "a number before byte " + std::to_string(position) + " does not fit a double"
                 : "the body is not valid JSON (near byte " + std::to_string(position) + ")";
    return false;
  }

  const std::string& error() const { return error_; }

 private:
  bool value() {
    if (++values_ <= limits::kJsonValues) return true;
    error_ = "the body has more than " + std::to_string(limits::kJsonValues) + " JSON values";
    return false;
  }
  bool open() {
    if (++depth_ <= limits::kJsonDepth) return value();
    error_ = "the body nests deeper than " + std::to_string(limits::kJsonDepth) + " levels";
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::uint32_t values_ = 0;
  std::uint32_t depth_ = 0;
  std::string error_;
};

// Length of the UTF-8 sequence at the start of `s`; 0 when it is broken.
std::size_t utf8_length(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto more = [&](std::size_t i) { return i < s.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return more(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!more(1) || !more(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (lead == 0xED && byte(1) > 0x9F) return 0;  // surrogate
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!more(1) || !more(2) || !more(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // past U+10FFFF
    return 4;
  }
  return 0;
}

}  // namespace

ApiResult<Json> parse_json(std::string_view text) {
  // The parser takes a NUL for the end of the text and would not see what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return ApiError::invalid(
        "the body is not valid JSON (near byte " + std::to_string(nul + 1) + ")", std::nullopt,
        "invalid_json");
  }
  try {
    Bounds bounds;
    if (!Json::sax_parse(text.begin(), text.end(), &bounds)) {
      return ApiError::invalid(bounds.error(), std::nullopt, "invalid_json");
    }
    return Json::parse(text.begin(), text.end());
  } catch (const std::exception&) {
    return ApiError::invalid("the body is not valid JSON", std::nullopt, "invalid_json");
  }
}

std::string dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      bytes.remove_prefix(1);
      continue;
    }
    out += bytes.substr(0, length);
    bytes.remove_prefix(length);
  }
  return out;
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

}  // namespace hearth::coordinator::http
