// JSON text to a value of a template: tools, arguments of calls and variables of a request.
#include <system_error>

#include "base/limits.h"
#include "base/number.h"
#include "base/utf8.h"
#include "model/jinja/value.h"

namespace hearth::model::jinja {
namespace {

// A recursive reader; its depth is bounded by limits::kJsonDepth.
class JsonReader {
 public:
  JsonReader(Meter& meter, std::string_view text) : meter_(meter), text_(text) {}

  Result<Value> read_whole() {
    TRY(Value value, read(0));
    skip_spaces();
    REQUIRE(at_ == text_.size(), place("bytes after the value"));
    return value;
  }

 private:
  std::string place(std::string_view what) const {
    return "not valid JSON near byte " + std::to_string(at_) + ": " + std::string(what);
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Result<Value> read(std::uint32_t depth) {
    REQUIRE(depth <= limits::kJsonDepth, "JSON nests deeper than ", limits::kJsonDepth, " levels");
    TRY_VOID(meter_.steps(1));
    skip_spaces();
    REQUIRE(at_ < text_.size(), place("it ends early"));
    switch (text_[at_]) {
      case '{': return read_object(depth);
      case '[': return read_list(depth);
      case '"': return read_string();
      default: break;
    }
    if (take("true")) return Value(true);
    if (take("false")) return Value(false);
    if (take("null")) return Value(None{});
    return read_number();
  }

  Result<Value> read_number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view("+-.eE0123456789").find(text_[at_]) != text_.npos)
      ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    REQUIRE(!digits.empty(), place("no value begins here"));
    if (const auto whole = parse_number<std::int64_t>(digits)) return Value(*whole);
    const auto real = parse_number<double>(digits);
    REQUIRE(real, place("a number is malformed or too large"));
    return Value(*real);
  }

  Result<std::uint32_t> read_hex() {
    REQUIRE(at_ + 4 <= text_.size(), place("an escape ends early"));
    const auto code = parse_number<std::uint32_t>(text_.substr(at_, 4), 16);
    REQUIRE(code, place("an escape is malformed"));
    at_ += 4;
    return *code;
  }

  Status read_escape(std::string& out) {
    REQUIRE(at_ < text_.size(), place("an escape ends early"));
    const char kind = text_[at_++];
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    if (const std::size_t index = kNames.find(kind); index != kNames.npos) {
      out += kBytes[index];
      return ok_status();
    }
    REQUIRE(kind == 'u', place("an escape is unknown"));
    TRY(std::uint32_t code, read_hex());
    if (code >= 0xD800 && code <= 0xDBFF && take("\\u")) {
      TRY(const std::uint32_t low, read_hex());
      REQUIRE(low >= 0xDC00 && low <= 0xDFFF, place("a surrogate stands alone"));
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    REQUIRE(code < 0xD800 || code > 0xDFFF, place("a surrogate stands alone"));
    append_utf8(code, out);
    return ok_status();
  }

  Result<Value> read_string() {
    ++at_;
    std::string out;
    while (true) {
      REQUIRE(at_ < text_.size(), place("a string ends early"));
      const char c = text_[at_++];
      if (c == '"') break;
      if (c == '\\') {
        TRY_VOID(read_escape(out));
      } else {
        out += c;
      }
    }
    return make_text(meter_, out, true);
  }

  Result<Value> read_list(std::uint32_t depth) {
    ++at_;
    std::vector<Value> items;
    skip_spaces();
    if (take("]")) return make_list(meter_, {});
    while (true) {
      TRY(Value item, read(depth + 1));
      items.push_back(std::move(item));
      skip_spaces();
      if (take("]")) break;
      REQUIRE(take(","), place("a list lacks ',' or ']'"));
    }
    return make_list(meter_, std::move(items));
  }

  Result<Value> read_object(std::uint32_t depth) {
    ++at_;
    std::vector<std::pair<Value, Value>> items;
    skip_spaces();
    if (take("}")) return make_dict(meter_, {});
    while (true) {
      skip_spaces();
      REQUIRE(at_ < text_.size() && text_[at_] == '"', place("a key must be a string"));
      TRY(Value key, read_string());
      skip_spaces();
      REQUIRE(take(":"), place("a key lacks ':'"));
      TRY(Value value, read(depth + 1));
      items.emplace_back(std::move(key), std::move(value));
      skip_spaces();
      if (take("}")) break;
      REQUIRE(take(","), place("an object lacks ',' or '}'"));
    }
    return make_dict(meter_, std::move(items));
  }

  Meter& meter_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Value> value_of_json(Meter& meter, std::string_view text) {
  return JsonReader(meter, text).read_whole();
}

}  // namespace hearth::model::jinja
