#include "model/jinja/value.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

constexpr std::size_t kTextOverhead = 96;  // control block, string and vector of one text
constexpr std::size_t kListOverhead = 64;
constexpr std::size_t kBytesPerStep = 256;  // that searching or copying does in its time

std::uint32_t depth_of(const Value& value) {
  if (const List* list = as_list(value)) return list->depth;
  if (const Dict* dict = as_dict(value)) return dict->depth;
  return 0;
}

Status check_depth(std::uint32_t depth) {
  REQUIRE(depth <= limits::kTemplateDepth, "a list or dict is nested deeper than the limit of ",
          limits::kTemplateDepth);
  return ok_status();
}

Result<bool> equal_lists(Meter& meter, const List& a, const List& b) {
  if (a.tuple != b.tuple || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    TRY(const bool same, equal(meter, a.items[i], b.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(Meter& meter, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    TRY(const Value* other, find_key(meter, b, key));
    if (other == nullptr) return false;
    TRY(const bool same, equal(meter, value, *other));
    if (!same) return false;
  }
  return true;
}

Result<int> compare_lists(Meter& meter, const List& a, const List& b) {
  for (std::size_t i = 0; i < a.items.size() && i < b.items.size(); ++i) {
    TRY(const bool same, equal(meter, a.items[i], b.items[i]));
    if (!same) return compare(meter, a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size() ? 1 : 0;
}

}  // namespace

static_assert(limits::kTemplateWorkBytes <= ~std::uint32_t{0}, "a place in a text has 32 bits");
static_assert(limits::kTemplateSteps + limits::kMessages * limits::kTemplateMessageSteps <=
                  (~std::uint64_t{0} >> 8) / kBytesPerStep,
              "the work of a rendering is a number of 64 bits");

Meter::Meter(std::size_t messages)
    : steps_max_(limits::kTemplateSteps + std::min<std::size_t>(messages, limits::kMessages) *
                                              limits::kTemplateMessageSteps) {}

Status Meter::steps(std::uint64_t count) { return scan(count * kBytesPerStep); }

Status Meter::scan(std::size_t bytes) {
  work_ += bytes;
  REQUIRE(work_ <= steps_max_ * kBytesPerStep, "the template takes more than the limit of ",
          steps_max_, " steps");
  return ok_status();
}

Status Meter::create(std::size_t bytes) {
  bytes_ += bytes;
  REQUIRE(bytes_ <= limits::kTemplateWorkBytes, "the template creates more than the limit of ",
          limits::kTemplateWorkBytes, " bytes");
  return scan(bytes);
}

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  INVARIANT(begin < end && end <= text_.bytes.size(), "a span lies inside its text");
  auto& spans = text_.user;
  INVARIANT(spans.empty() || spans.back().end <= begin, "spans are in order");
  if (!spans.empty() && spans.back().end == begin) {
    spans.back().end = static_cast<std::uint32_t>(end);
  } else {
    spans.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }
}

void TextBuilder::append(std::string_view bytes, bool user) {
  if (failed() || bytes.empty()) return;
  Status allowed = meter_->create(bytes.size() + (user ? sizeof(Span) : 0));
  if (allowed.ok() && bytes.size() > limits::kTemplateOutputBytes - text_.bytes.size()) {
    allowed = Error::invalid("a text is longer than the limit of ", limits::kTemplateOutputBytes,
                             " bytes");
  }
  if (!allowed.ok()) {
    error_ = std::make_unique<Error>(std::move(allowed).error());
    return;
  }
  const std::size_t begin = text_.bytes.size();
  text_.bytes.append(bytes);
  if (user) mark(begin, text_.bytes.size());
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  INVARIANT(begin <= end && end <= text.bytes.size(), "a part lies inside its text");
  const std::string_view bytes = text.bytes;
  auto span = std::partition_point(text.user.begin(), text.user.end(),
                                   [begin](const Span& one) { return one.end <= begin; });
  for (; span != text.user.end() && span->begin < end && !failed(); ++span) {
    const std::size_t user_begin = std::max<std::size_t>(span->begin, begin);
    const std::size_t user_end = std::min<std::size_t>(span->end, end);
    append(bytes.substr(begin, user_begin - begin));
    append(bytes.substr(user_begin, user_end - user_begin), true);
    begin = user_end;
  }
  append(bytes.substr(begin, end - begin));
}

Result<Text> TextBuilder::finish_text() {
  if (failed()) return *error_;
  return std::move(text_);
}

Result<Value> TextBuilder::finish() {
  TRY(Text text, finish_text());
  TRY_VOID(meter_->create(kTextOverhead));
  return Value(std::make_shared<const Text>(std::move(text)));
}

bool is_user(const Text& text, std::size_t at) {
  const auto span = std::partition_point(text.user.begin(), text.user.end(),
                                         [at](const Span& one) { return one.end <= at; });
  return span != text.user.end() && span->begin <= at;
}

Result<Value> make_text(Meter& meter, std::string_view bytes, bool user) {
  TextBuilder out(meter);
  out.append(bytes, user);
  return out.finish();
}

Result<Value> make_part(Meter& meter, const Text& text, std::size_t begin, std::size_t end) {
  TextBuilder out(meter);
  out.append(text, begin, end);
  return out.finish();
}

Result<Value> make_list(Meter& meter, std::vector<Value> items, bool tuple) {
  TRY_VOID(meter.create(kListOverhead + items.size() * sizeof(Value)));
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = std::max(list->depth, 1 + depth_of(item));
  TRY_VOID(check_depth(list->depth));
  list->items = std::move(items);
  list->tuple = tuple;
  return Value(ListPtr(std::move(list)));
}

Status append_item(Meter& meter, List& list, Value item) {
  INVARIANT(!list.tuple, "a tuple does not grow");
  TRY_VOID(meter.create(2 * sizeof(Value)));  // with the room that a vector takes ahead
  const std::uint32_t depth = std::max(list.depth, 1 + depth_of(item));
  TRY_VOID(check_depth(depth));
  list.depth = depth;
  list.items.push_back(std::move(item));
  return ok_status();
}

Result<Value> make_dict(Meter& meter, std::vector<std::pair<Value, Value>> items) {
  TRY_VOID(meter.create(kListOverhead + items.size() * 2 * sizeof(Value)));
  auto dict = std::make_shared<Dict>();
  dict->items.reserve(items.size());
  for (auto& [key, value] : items) {
    REQUIRE(as_list(key) == nullptr && as_dict(key) == nullptr && !is_undefined(key), "a ",
            type_name(key), " cannot be the key of a dict");
    dict->depth = std::max(dict->depth, 1 + depth_of(value));
    TRY(const Value* known, find_key(meter, *dict, key));
    if (known != nullptr) {
      *const_cast<Value*>(known) = std::move(value);  // our own dict, not shared yet
    } else {
      dict->items.emplace_back(std::move(key), std::move(value));
    }
  }
  TRY_VOID(check_depth(dict->depth));
  return Value(DictPtr(std::move(dict)));
}

bool truthy(const Value& value) {
  if (is_undefined(value) || std::holds_alternative<None>(value)) return false;
  if (const auto number = real_of(value)) return *number != 0;
  if (const Text* text = as_text(value)) return !text->bytes.empty();
  if (const List* list = as_list(value)) return !list->items.empty();
  if (const Dict* dict = as_dict(value)) return !dict->items.empty();
  return true;
}

std::string_view type_name(const Value& value) {
  if (const List* list = as_list(value)) return list->tuple ? "tuple" : "list";
  constexpr std::string_view kNames[] = {"undefined value", "none",   "bool",    "int",
                                         "float",           "string", "list",    "dict",
                                         "namespace",       "macro",  "function"};
  return kNames[value.index()];
}

bool is_undefined(const Value& value) { return std::holds_alternative<Undefined>(value); }

const Text* as_text(const Value& value) {
  const auto* text = std::get_if<TextPtr>(&value);
  return text != nullptr ? text->get() : nullptr;
}
const List* as_list(const Value& value) {
  const auto* list = std::get_if<ListPtr>(&value);
  return list != nullptr ? list->get() : nullptr;
}
const Dict* as_dict(const Value& value) {
  const auto* dict = std::get_if<DictPtr>(&value);
  return dict != nullptr ? dict->get() : nullptr;
}

std::optional<std::int64_t> whole_of(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  return std::nullopt;
}

std::optional<double> real_of(const Value& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto whole = whole_of(value)) return static_cast<double>(*whole);
  return std::nullopt;
}

Result<bool> equal(Meter& meter, const Value& a, const Value& b) {
  TRY_VOID(meter.steps(1));
  const auto x = real_of(a);
  const auto y = real_of(b);
  if (x || y) {
    const auto p = whole_of(a);
    const auto q = whole_of(b);
    return p && q ? *p == *q : x && y && *x == *y;
  }
  if (a.index() != b.index()) return false;
  if (const Text* text = as_text(a)) {
    const Text* other = as_text(b);
    if (text->bytes.size() != other->bytes.size()) return false;
    TRY_VOID(meter.scan(text->bytes.size()));
    return text->bytes == other->bytes;
  }
  if (const List* list = as_list(a)) return equal_lists(meter, *list, *as_list(b));
  if (const Dict* dict = as_dict(a)) return equal_dicts(meter, *dict, *as_dict(b));
  if (const auto* space = std::get_if<Namespace*>(&a)) return *space == std::get<Namespace*>(b);
  if (const auto* macro = std::get_if<const Macro*>(&a)) return *macro == std::get<const Macro*>(b);
  if (const auto* call = std::get_if<Function>(&a)) return *call == std::get<Function>(b);
  return true;  // none with none, undefined with undefined
}

Result<int> compare(Meter& meter, const Value& a, const Value& b) {
  TRY_VOID(meter.steps(1));
  const auto p = whole_of(a);
  const auto q = whole_of(b);
  if (p && q) return *p < *q ? -1 : *p > *q ? 1 : 0;
  const auto x = real_of(a);
  const auto y = real_of(b);
  if (x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
  const Text* text = as_text(a);
  const Text* other = as_text(b);
  if (text != nullptr && other != nullptr) {
    TRY_VOID(meter.scan(std::min(text->bytes.size(), other->bytes.size())));
    return text->bytes.compare(other->bytes);
  }
  if (as_list(a) != nullptr && as_list(b) != nullptr && as_list(a)->tuple == as_list(b)->tuple) {
    return compare_lists(meter, *as_list(a), *as_list(b));
  }
  return Error::invalid("a ", type_name(a), " and a ", type_name(b), " cannot be ordered");
}

Result<const Value*> find_key(Meter& meter, const Dict& dict, const Value& key) {
  for (const auto& [known, value] : dict.items) {
    TRY(const bool same, equal(meter, known, key));
    if (same) return &value;
  }
  return static_cast<const Value*>(nullptr);
}

const Value* find_name(const Namespace& space, std::string_view name) {
  for (const auto& [known, value] : space.items) {
    if (known == name) return &value;
  }
  return nullptr;
}

Result<bool> contains(Meter& meter, const Value& haystack, const Value& needle) {
  if (const Text* text = as_text(haystack)) {
    const Text* wanted = as_text(needle);
    REQUIRE(wanted != nullptr, "'in' a string needs a string, not a ", type_name(needle));
    TRY_VOID(meter.scan(text->bytes.size() + wanted->bytes.size()));
    return find_text(text->bytes, wanted->bytes, 0) != std::string_view::npos;
  }
  if (const List* list = as_list(haystack)) {
    for (const Value& item : list->items) {
      TRY(const bool same, equal(meter, item, needle));
      if (same) return true;
    }
    return false;
  }
  if (const Dict* dict = as_dict(haystack)) {
    TRY(const Value* found, find_key(meter, *dict, needle));
    return found != nullptr;
  }
  REQUIRE(is_undefined(haystack), "'in' needs a string, list or dict, not a ", type_name(haystack));
  return false;
}

Result<std::vector<Value>> iterate(Meter& meter, const Value& value) {
  std::vector<Value> items;
  if (is_undefined(value)) return items;
  if (const List* list = as_list(value)) {
    TRY_VOID(meter.create(list->items.size() * sizeof(Value)));
    return list->items;
  }
  if (const Dict* dict = as_dict(value)) {
    TRY_VOID(meter.create(dict->items.size() * sizeof(Value)));
    for (const auto& entry : dict->items) items.push_back(entry.first);
    return items;
  }
  const Text* text = as_text(value);
  REQUIRE(text != nullptr, "a ", type_name(value), " cannot be iterated");
  for (std::size_t at = 0; at < text->bytes.size();) {
    const std::size_t length = character_at(text->bytes, at).length;
    TRY_VOID(meter.create(sizeof(Value)));
    TRY(Value one, make_part(meter, *text, at, at + length));
    items.push_back(std::move(one));
    at += length;
  }
  return items;
}

Result<Value> to_text(Meter& meter, const Value& value) {
  if (as_text(value) != nullptr) return value;
  TextBuilder out(meter);
  append_str(out, value);
  return out.finish();
}

}  // namespace hearth::model::jinja
