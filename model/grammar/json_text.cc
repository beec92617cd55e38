#include "model/grammar/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/grammar/encoding.h"

namespace hearth::model {
namespace {

class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put(Json::Kind::kNull, {}); }
  bool boolean(bool value) override {
    return put(value ? Json::Kind::kTrue : Json::Kind::kFalse, {});
  }
  bool number_integer(number_integer_t value) override {
    return put(Json::Kind::kNumber, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return put(Json::Kind::kNumber, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return put(Json::Kind::kNumber, text);
  }
  bool string(string_t& text) override { return put(Json::Kind::kString, text); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::Kind::kObject); }
  bool start_array(std::size_t) override { return open(Json::Kind::kArray); }
  bool key(string_t& name) override {
    name_ = name;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_at_ = at;
    return false;
  }

  bool too_deep() const { return too_deep_; }
  std::size_t error_at() const { return error_at_; }
  Json take() { return std::move(root_); }

 private:
  bool put(Json::Kind kind, std::string text) {
    Json value;
    value.kind = kind;
    value.text = std::move(text);
    return add(std::move(value)) != nullptr;
  }
  Json* add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& in = *open_.back();
    if (in.is(Json::Kind::kArray)) return &in.items.emplace_back(std::move(value));
    in.members.push_back({name_, std::move(value)});
    return &in.members.back().value;
  }
  // Each open value is the last of its parent, so the parent does not grow and pointers stay valid.
  bool open(Json::Kind kind) {
    too_deep_ = open_.size() >= limits::kGrammarNesting;
    if (too_deep_) return false;
    Json value;
    value.kind = kind;
    open_.push_back(add(std::move(value)));
    return true;
  }
  bool close() {
    INVARIANT(!open_.empty(), "what ends was begun");
    drop_equal_names(open_.back()->members);
    open_.pop_back();
    return true;
  }
  // Removes all but the last of equal names in one pass, because a search for each name would take
  // quadratic time.
  static void drop_equal_names(std::vector<JsonMember>& members) {
    std::unordered_set<std::string_view> later;
    std::vector<bool> keeps(members.size());
    for (std::size_t i = members.size(); i-- > 0;) keeps[i] = later.insert(members[i].name).second;
    if (later.size() == members.size()) return;
    std::vector<JsonMember> kept;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (keeps[i]) kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
  }

  Json root_;
  std::vector<Json*> open_;
  std::string name_;
  bool too_deep_ = false;
  std::size_t error_at_ = 0;
};

}  // namespace

const Json* Json::find(std::string_view name) const {
  const auto found = std::ranges::find(members, name, &JsonMember::name);
  return found == members.end() ? nullptr : &found->value;
}

Result<Json> parse_json(std::string_view text) {
  REQUIRE_SUPPORTED(text.size() <= limits::kGrammarSourceBytes, "JSON of ", text.size(),
                    " bytes; the limit is ", limits::kGrammarSourceBytes);
  JsonBuilder builder;
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  REQUIRE_SUPPORTED(!builder.too_deep(), "JSON nests more than ", limits::kGrammarNesting, " deep");
  REQUIRE(parsed, "not JSON from byte ", builder.error_at(), " on");
  return builder.take();
}

}  // namespace hearth::model
