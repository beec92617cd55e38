#include "coordinator/http/openai/json.h"

#include <spdlog/fmt/fmt.h>

#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace hearth::coordinator::http {
namespace {

using Members = std::vector<std::pair<const std::string, Json>>;

// Counts, checks and builds in one pass. Members are appended without a look for equal keys, which
// would cost the square of their number; close() drops all but the last of them.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool key(string_t& name) override {
    if (!count()) return false;
    keys_.back() = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
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
  Json take() { return std::move(whole_); }

 private:
  bool count() {
    if (++values_ <= limits::kJsonValues) return true;
    error_ = fmt::format("the body has more than {} JSON values", limits::kJsonValues);
    return false;
  }
  bool value(Json value) {
    if (!count()) return false;
    put(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= limits::kJsonDepth) {
      error_ = fmt::format("the body nests deeper than {} levels", limits::kJsonDepth);
      return false;
    }
    if (!count()) return false;
    open_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    INVARIANT(!open_.empty(), "the reader closes what it opened");
    Json value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    if (value.is_object()) drop_equal_keys(value.get_ref<Json::object_t&>());
    put(std::move(value));
    return true;
  }
  void put(Json value) {
    if (open_.empty()) {
      whole_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      append_member(open_.back(), std::move(keys_.back()), std::move(value));
    }
  }

  static void drop_equal_keys(Json::object_t& members) {
    Members& object = members;
    std::unordered_set<std::string_view> seen;
    std::vector<bool> keeps(object.size(), true);
    bool all = true;
    for (std::size_t i = object.size(); i-- > 0;) {
      keeps[i] = seen.insert(object[i].first).second;
      all = all && keeps[i];
    }
    if (all) return;
    Members kept;
    for (std::size_t i = 0; i < object.size(); ++i) {
      if (keeps[i]) kept.emplace_back(object[i].first, std::move(object[i].second));
    }
    object.swap(kept);
  }

  std::uint32_t values_ = 0;
  std::vector<Json> open_;
  std::vector<std::string> keys_;  // name of the next member, one for each open value
  Json whole_;
  std::string error_;
};

}  // namespace

void append_member(Json& object, std::string key, Json value) {
  INVARIANT(object.is_object(), "only an object has members");
  static_cast<Members&>(object.get_ref<Json::object_t&>())
      .emplace_back(std::move(key), std::move(value));
}

ApiResult<Json> parse_json(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return ApiError::of(400, "the body is empty; it must be a JSON object", "invalid_json");
  }
  // The parser treats a NUL as the end of the text and would not read what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return ApiError::of(400, fmt::format("the body is not valid JSON (near byte {})", nul + 1),
                        "invalid_json");
  }
  try {
    Builder builder;
    if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
      return ApiError::of(400, builder.error(), "invalid_json");
    }
    return builder.take();
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
