#include "model/chat/elements.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "model/chat/literal.h"

namespace hearth::model {
namespace {

constexpr std::string_view kItem = "item";
constexpr std::size_t kAlternatives = 64;  // of one value, that are looked at

// The schema of a value, with the alternatives in it. Each part of a schema is read once, however
// many values it is for.
class ValueSchema {
 public:
  void add(std::string_view json) {
    auto schema = read_literal_object(json, '{', '}');
    if (!schema || schemas_.size() >= kAlternatives) return;
    const std::size_t at = schemas_.size();
    schemas_.push_back(std::move(*schema));
    const std::string* properties = schemas_[at].find("properties");
    auto object = read_literal_object(properties != nullptr ? *properties : "{}", '{', '}');
    if (object) properties_.push_back(std::move(*object));
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const std::string* found = schemas_[at].find(keyword);
      const auto list = read_literal_list(found != nullptr ? *found : "[]");
      if (!list) continue;
      for (const std::string& each : *list) add(each);
    }
  }

  bool may_be(std::string_view type) const {
    const std::string name = json_string(type);
    return std::ranges::any_of(schemas_, [&](const LiteralObject& schema) {
      const std::string* found = schema.find("type");
      if (found == nullptr || *found == name) return found != nullptr;
      const auto list = read_literal_list(*found);
      return list && std::ranges::find(*list, name) != list->end();
    });
  }

  bool has_property(std::string_view key) const {
    return std::ranges::any_of(
        properties_, [&](const LiteralObject& each) { return each.find(key) != nullptr; });
  }

  // Of a property, or of what a list holds.
  ValueSchema& part(std::string_view key) {
    const bool is_item = key == kItem && !has_property(key);
    // Keys that the schema does not know share one part, without a schema.
    if (!is_item && !has_property(key)) key = {};
    const auto [at, added] = parts_.try_emplace(std::string(key));
    if (!added) return *at->second;
    at->second = std::make_unique<ValueSchema>();
    for (const LiteralObject& each : is_item ? schemas_ : properties_) {
      const std::string* json = each.find(is_item ? "items" : key);
      if (json != nullptr) at->second->add(*json);
    }
    return *at->second;
  }

 private:
  std::vector<LiteralObject> schemas_;
  std::vector<LiteralObject> properties_;
  std::map<std::string, std::unique_ptr<ValueSchema>> parts_;
};

class ElementReader {
 public:
  ElementReader(const ChatSyntax& syntax, std::string_view text)
      : begin_(trimmed(syntax.parameter_begin)),
        key_end_(trimmed(syntax.key_end)),
        value_end_(trimmed(syntax.value_end)),
        text_(text) {}

  std::optional<std::string> read_call(ValueSchema& schema) {
    if (begin_.empty() || key_end_.empty() || value_end_.empty()) return std::nullopt;
    return read_members({}, schema, 0);
  }

 private:
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(kSpaces, at_), text_.size()); }
  bool starts_element() const {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with(begin_) && !rest.starts_with(value_end_);
  }

  // Elements up to `close`, or up to the end of the text where it is empty, and `close`.
  std::optional<std::string> read_members(std::string_view close, ValueSchema& schema,
                                          std::size_t depth) {
    if (depth > limits::kJsonDepth) return std::nullopt;
    LiteralObject members;
    bool is_list = depth > 0 && !schema.has_property(kItem);
    for (skip_spaces(); starts_element(); skip_spaces()) {
      at_ += begin_.size();
      const std::size_t stop = text_.find(key_end_, at_);
      if (stop == text_.npos || stop == at_ || stop - at_ > limits::kToolNameBytes) {
        return std::nullopt;
      }
      const std::string_view key = text_.substr(at_, stop - at_);
      at_ = stop + key_end_.size();
      is_list = is_list && key == kItem;
      const auto value = read_value(key, schema.part(key), depth + 1);
      if (!value) return std::nullopt;
      members.entries.emplace_back(key, *value);
    }
    if (close.empty() ? at_ < text_.size() : !text_.substr(at_).starts_with(close)) {
      return std::nullopt;
    }
    at_ += close.size();
    if (!is_list) return object_json(members);
    std::string list = "[";
    for (const auto& [key, value] : members.entries) {
      if (list.size() > 1) list += ", ";
      list += value;
    }
    return list + "]";
  }

  std::optional<std::string> read_value(std::string_view key, ValueSchema& schema,
                                        std::size_t depth) {
    const std::string close = std::string(value_end_).append(key).append(key_end_);
    const bool is_text = schema.may_be("string");
    if (!is_text) {
      const std::size_t start = at_;
      skip_spaces();
      if (starts_element()) return read_members(close, schema, depth);
      at_ = start;
    }
    const std::size_t stop = text_.find(close, at_);
    if (stop == text_.npos) return std::nullopt;
    const std::string_view text = text_.substr(at_, stop - at_);
    at_ = stop + close.size();
    if (is_text) return json_string(text);
    if (trimmed(text).empty() && schema.may_be("array")) return "[]";
    if (trimmed(text).empty() && schema.may_be("object")) return "{}";
    const auto json = literal_to_json(text);
    return json ? *json : json_string(text);
  }

  std::string_view begin_;
  std::string_view key_end_;
  std::string_view value_end_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::string> elements_to_json(const ChatSyntax& syntax, std::string_view text,
                                            std::string_view schema) {
  INVARIANT(syntax.form == CallForm::kElements, "the marks are those of elements");
  ValueSchema arguments;
  arguments.add(schema);
  return ElementReader(syntax, text).read_call(arguments);
}

bool may_be_text(std::string_view schema) {
  ValueSchema value;
  value.add(schema);
  return value.may_be("string");
}

}  // namespace hearth::model
