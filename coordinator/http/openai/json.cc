#include "coordinator/http/openai/json.h"

#include <spdlog/fmt/fmt.h>

#include <exception>

#include "base/limits.h"
#include "base/utf8.h"

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
                 ? fmt::format("a number before byte {} does not fit a double", position)
                 : fmt::format("the body is not valid JSON (near byte {})", position);
    return false;
  }

  const std::string& error() const { return error_; }

 private:
  bool value() {
    if (++values_ <= limits::kJsonValues) return true;
    error_ = fmt::format("the body has more than {} JSON values", limits::kJsonValues);
    return false;
  }
  bool open() {
    if (++depth_ <= limits::kJsonDepth) return value();
    error_ = fmt::format("the body nests deeper than {} levels", limits::kJsonDepth);
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

}  // namespace

ApiResult<Json> parse_json(std::string_view text) {
  // The parser takes a NUL for the end of the text and would not see what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return ApiError::of(400, fmt::format("the body is not valid JSON (near byte {})", nul + 1),
                        "invalid_json");
  }
  try {
    Bounds bounds;
    if (!Json::sax_parse(text.begin(), text.end(), &bounds)) {
      return ApiError::of(400, bounds.error(), "invalid_json");
    }
    return Json::parse(text.begin(), text.end());
  } catch (const std::exception&) {
    return ApiError::of(400, "the body is not valid JSON", "invalid_json");
  }
}

std::string dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    out += c.valid ? bytes.substr(at, c.bytes) : kReplacementUtf8;
    at += c.valid ? c.bytes : 1;
  }
  return out;
}

}  // namespace hearth::coordinator::http
