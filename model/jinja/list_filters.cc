// Filters on lists and dicts.
#include <algorithm>

#include "model/jinja/builtins.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

// item.a.b for the attribute "a.b"; a number is an index.
Result<Value> by_attribute(Meter& meter, const Value& item, const Value& attribute) {
  const Text* path = as_text(attribute);
  if (path == nullptr) return get_item(meter, item, attribute, nullptr);
  Value at = item;
  for (std::size_t begin = 0; begin <= path->bytes.size();) {
    const std::size_t end = std::min(path->bytes.find('.', begin), path->bytes.size());
    const std::string part = path->bytes.substr(begin, end - begin);
    Value key;
    if (!part.empty() && part.size() < 10 &&
        part.find_first_not_of("0123456789") == std::string::npos) {
      key = static_cast<std::int64_t>(std::stoi(part));
    } else {
      TRY(key, make_text(meter, part));
    }
    TRY(at, get_item(meter, at, key, nullptr));
    begin = end + 1;
  }
  return at;
}

// The key by which items are ordered and compared: an attribute, optionally ignoring case.
struct KeyRule {
  const Value* attribute = nullptr;
  bool case_sensitive = false;
};

Result<Value> key_of(Meter& meter, const Value& item, const KeyRule& rule) {
  Value key = item;
  if (rule.attribute != nullptr && !std::holds_alternative<None>(*rule.attribute)) {
    TRY(key, by_attribute(meter, item, *rule.attribute));
  }
  if (as_text(key) == nullptr || rule.case_sensitive) return key;
  return call_method(meter, key, "lower", {});
}

using Keyed = std::pair<Value, Value>;  // key, item

// A merge sort: stable, and an error of a comparison ends it at once.
Status sort_by_key(Meter& meter, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> other(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size());
      const std::size_t end = std::min(begin + 2 * width, items.size());
      std::size_t left = begin;
      std::size_t right = middle;
      for (std::size_t to = begin; to < end; ++to) {
        bool take_left = right >= end;
        if (left < middle && right < end) {
          TRY(const int order, compare(meter, items[left].first, items[right].first));
          take_left = reverse ? order >= 0 : order <= 0;
        }
        other[to] = std::move(take_left ? items[left++] : items[right++]);
      }
    }
    items.swap(other);
  }
  return ok_status();
}

Result<std::vector<Keyed>> keyed_items(Meter& meter, const Value& input, const KeyRule& rule) {
  TRY(std::vector<Value> items, iterate(meter, input));
  TRY_VOID(meter.create(items.size() * sizeof(Keyed) * 2));
  std::vector<Keyed> keyed;
  keyed.reserve(items.size());
  for (Value& item : items) {
    TRY(Value key, key_of(meter, item, rule));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return keyed;
}

Result<Value> list_of(Meter& meter, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  for (Keyed& one : keyed) items.push_back(std::move(one.second));
  return make_list(meter, std::move(items));
}

Result<Value> filter_sort(Meter& meter, const Value& input, const Bound& bound) {
  TRY(std::vector<Keyed> keyed, keyed_items(meter, input, {bound.get(2), bound.flag(1)}));
  TRY_VOID(sort_by_key(meter, keyed, bound.flag(0)));
  return list_of(meter, std::move(keyed));
}

Result<Value> filter_dictsort(Meter& meter, const Value& input, const Bound& bound) {
  const Dict* dict = as_dict(input);
  REQUIRE(dict != nullptr, "needs a dict, not a ", type_name(input));
  std::size_t part = 0;
  if (bound.has(1)) {
    TRY(const TextPtr by, bound.text(1));
    REQUIRE(by->bytes == "key" || by->bytes == "value", "'by' is neither 'key' nor 'value'");
    part = by->bytes == "value" ? 1 : 0;
  }
  std::vector<Keyed> keyed;
  for (const auto& [name, value] : dict->items) {
    TRY(Value key, key_of(meter, part == 0 ? name : value, {nullptr, bound.flag(0)}));
    TRY(Value pair, make_list(meter, {name, value}, true));
    keyed.emplace_back(std::move(key), std::move(pair));
  }
  TRY_VOID(sort_by_key(meter, keyed, bound.flag(2)));
  return list_of(meter, std::move(keyed));
}

Result<Value> filter_unique(Meter& meter, const Value& input, const Bound& bound) {
  TRY(std::vector<Keyed> keyed, keyed_items(meter, input, {bound.get(1), bound.flag(0)}));
  std::vector<Keyed> kept;
  for (Keyed& one : keyed) {
    bool known = false;
    for (std::size_t i = 0; i < kept.size() && !known; ++i) {
      TRY(known, equal(meter, kept[i].first, one.first));
    }
    if (!known) kept.push_back(std::move(one));
  }
  return list_of(meter, std::move(kept));
}

// The smallest item with sign -1, the largest with 1.
template <int sign>
Result<Value> filter_extreme(Meter& meter, const Value& input, const Bound& bound) {
  TRY(std::vector<Keyed> keyed, keyed_items(meter, input, {bound.get(1), bound.flag(0)}));
  if (keyed.empty()) return Value(Undefined{});
  std::size_t best = 0;
  for (std::size_t i = 1; i < keyed.size(); ++i) {
    TRY(const int order, compare(meter, keyed[i].first, keyed[best].first));
    if (order * sign > 0) best = i;
  }
  return keyed[best].second;
}

Result<Value> filter_length(Meter& meter, const Value& input, const Bound&) {
  std::size_t count = 0;
  if (const Text* text = as_text(input)) {
    TRY_VOID(meter.scan(text->bytes.size()));
    count = count_characters(text->bytes);
  } else if (const List* list = as_list(input)) {
    count = list->items.size();
  } else if (const Dict* dict = as_dict(input)) {
    count = dict->items.size();
  } else {
    REQUIRE(is_undefined(input), "a ", type_name(input), " has no length");
  }
  return Value(static_cast<std::int64_t>(count));
}

Result<Value> filter_list(Meter& meter, const Value& input, const Bound&) {
  TRY(std::vector<Value> items, iterate(meter, input));
  return make_list(meter, std::move(items));
}

Result<Value> filter_first(Meter& meter, const Value& input, const Bound&) {
  TRY(std::vector<Value> items, iterate(meter, input));
  return items.empty() ? Value(Undefined{}) : items.front();
}

Result<Value> filter_last(Meter& meter, const Value& input, const Bound&) {
  TRY(std::vector<Value> items, iterate(meter, input));
  return items.empty() ? Value(Undefined{}) : items.back();
}

Result<Value> filter_reverse(Meter& meter, const Value& input, const Bound&) {
  TRY(std::vector<Value> items, iterate(meter, input));
  std::reverse(items.begin(), items.end());
  if (as_text(input) == nullptr) return make_list(meter, std::move(items));
  TextBuilder out(meter);
  for (const Value& item : items) out.append(*as_text(item));
  return out.finish();
}

Result<Value> filter_join(Meter& meter, const Value& input, const Bound& bound) {
  Value separator;
  if (bound.has(0)) {
    TRY(separator, to_text(meter, *bound.get(0)));
  } else {
    TRY(separator, make_text(meter, ""));
  }
  if (!bound.has(1)) return join(meter, input, *as_text(separator));
  TRY(std::vector<Value> items, iterate(meter, input));
  for (Value& item : items) {
    TRY(item, by_attribute(meter, item, *bound.get(1)));
  }
  TRY(const Value list, make_list(meter, std::move(items)));
  return join(meter, list, *as_text(separator));
}

constexpr std::int64_t kMostParts = 100'000;

// Lists of this many items; the last one is padded if a fill value is given.
Result<Value> filter_batch(Meter& meter, const Value& input, const Bound& bound) {
  TRY(const std::int64_t size, bound.integer(0, 0));
  REQUIRE(size > 0 && size <= kMostParts, "'linecount' is outside of 1 to 100000");
  TRY(const std::vector<Value> items, iterate(meter, input));
  const auto step = static_cast<std::size_t>(size);
  std::vector<Value> batches;
  for (std::size_t at = 0; at < items.size(); at += step) {
    std::vector<Value> batch(
        items.begin() + static_cast<std::ptrdiff_t>(at),
        items.begin() + static_cast<std::ptrdiff_t>(std::min(at + step, items.size())));
    if (bound.has_value(1)) {
      TRY_VOID(meter.create((step - batch.size()) * sizeof(Value)));
      batch.resize(step, *bound.get(1));
    }
    TRY(Value list, make_list(meter, std::move(batch)));
    batches.push_back(std::move(list));
  }
  return make_list(meter, std::move(batches));
}

// This many lists; if the items do not divide evenly, the first lists are longer by one.
Result<Value> filter_slice(Meter& meter, const Value& input, const Bound& bound) {
  TRY(const std::int64_t count, bound.integer(0, 0));
  REQUIRE(count > 0 && count <= kMostParts, "'slices' is outside of 1 to 100000");
  TRY(const std::vector<Value> items, iterate(meter, input));
  const auto slices = static_cast<std::size_t>(count);
  const std::size_t longer = items.size() % slices;
  std::vector<Value> lists;
  auto next = items.begin();
  for (std::size_t i = 0; i < slices; ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(items.size() / slices + (i < longer));
    std::vector<Value> slice(next, end);
    next = end;
    if (bound.has_value(1) && i >= longer) slice.push_back(*bound.get(1));
    TRY(Value list, make_list(meter, std::move(slice)));
    lists.push_back(std::move(list));
  }
  return make_list(meter, std::move(lists));
}

Result<Value> filter_items(Meter& meter, const Value& input, const Bound&) {
  if (is_undefined(input)) return make_list(meter, {});
  REQUIRE(as_dict(input) != nullptr, "needs a dict, not a ", type_name(input));
  return call_method(meter, input, "items", {});
}

Result<Value> filter_default(Meter&, const Value& input, const Bound& bound) {
  if (!is_undefined(input) && (!bound.flag(1) || truthy(input))) return input;
  return bound.has(0) ? *bound.get(0) : Value(std::make_shared<const Text>());
}

Result<Value> filter_safe(Meter&, const Value& input, const Bound&) { return input; }

Result<Value> filter_sum(Meter& meter, const Value& input, const Bound& bound) {
  TRY(std::vector<Value> items, iterate(meter, input));
  std::int64_t sum = 0;
  for (const Value& item : items) {
    Value value = item;
    if (bound.has(0)) {
      TRY(value, by_attribute(meter, item, *bound.get(0)));
    }
    const auto* whole = std::get_if<std::int64_t>(&value);
    REQUIRE(whole != nullptr && !__builtin_add_overflow(sum, *whole, &sum),
            "sums integers of 64 bits only");
  }
  return Value(sum);
}

Result<Value> filter_map(Meter& meter, const Value& input, const Bound& bound) {
  const Arguments& arguments = bound.all();
  if (!truthy(input)) return make_list(meter, {});  // none too, as in Jinja
  TRY(std::vector<Value> items, iterate(meter, input));
  if (arguments.positional.empty()) {
    TRY(const Bound named, Bound::bind(arguments, {"attribute", "default"}));
    REQUIRE(named.has(0), "needs a filter or an attribute");
    for (Value& item : items) {
      TRY(item, by_attribute(meter, item, *named.get(0)));
      if (is_undefined(item) && named.has(1)) item = *named.get(1);
    }
    return make_list(meter, std::move(items));
  }
  const Text* name = as_text(arguments.positional[0]);
  REQUIRE(name != nullptr, "the name of a filter must be a string");
  // A filter that applies filters would nest as deeply as it has arguments.
  if (name->bytes == "map")
    return Error{ErrorCode::kUnsupported, "'map' of 'map' is not supported"};
  Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (Value& item : items) {
    TRY_VOID(meter.steps(1));
    TRY(item, apply_filter(meter, name->bytes, item, rest));
  }
  return make_list(meter, std::move(items));
}

// With `wanted`, the items that pass a test or whose attribute does; otherwise the others.
template <bool by_attr, bool wanted>
Result<Value> filter_select(Meter& meter, const Value& input, const Bound& bound) {
  const Arguments& arguments = bound.all();
  if (!truthy(input)) return make_list(meter, {});  // none too, as in Jinja
  TRY(const std::vector<Value> items, iterate(meter, input));
  constexpr std::size_t offset = by_attr ? 1 : 0;
  REQUIRE(arguments.positional.size() >= offset, "needs the name of an attribute");
  const Text* name = nullptr;
  Arguments rest;
  if (arguments.positional.size() > offset) {
    name = as_text(arguments.positional[offset]);
    REQUIRE(name != nullptr, "the name of a test must be a string");
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(offset) + 1,
                           arguments.positional.end());
  }
  std::vector<Value> kept;
  for (const Value& item : items) {
    TRY_VOID(meter.steps(1));
    Value value = item;
    if (by_attr) {
      TRY(value, by_attribute(meter, item, arguments.positional[0]));
    }
    bool holds = truthy(value);
    if (name != nullptr) {
      TRY(holds, apply_test(meter, name->bytes, value, rest));
    }
    if (holds == wanted) kept.push_back(item);
  }
  return make_list(meter, std::move(kept));
}

}  // namespace

Result<Value> join(Meter& meter, const Value& items, const Text& separator) {
  TRY(const std::vector<Value> parts, iterate(meter, items));
  TextBuilder out(meter);
  for (std::size_t i = 0; i < parts.size() && !out.failed(); ++i) {
    TRY_VOID(meter.steps(1));
    if (i > 0) out.append(separator);
    append_str(out, parts[i]);
  }
  return out.finish();
}

std::span<const Builtin> list_filters() {
  static constexpr Builtin kFilters[] = {
      {"batch", filter_batch, {"linecount", "fill_with"}},
      {"count", filter_length},
      {"d", filter_default, {"default_value", "boolean"}},
      {"default", filter_default, {"default_value", "boolean"}},
      {"dictsort", filter_dictsort, {"case_sensitive", "by", "reverse"}},
      {"first", filter_first},
      {"items", filter_items},
      {"join", filter_join, {"d", "attribute"}},
      {"last", filter_last},
      {"length", filter_length},
      {"list", filter_list},
      {"map", filter_map, {"*"}},
      {"max", filter_extreme<1>, {"case_sensitive", "attribute"}},
      {"min", filter_extreme<-1>, {"case_sensitive", "attribute"}},
      {"reject", filter_select<false, false>, {"*"}},
      {"rejectattr", filter_select<true, false>, {"*"}},
      {"reverse", filter_reverse},
      {"safe", filter_safe},
      {"select", filter_select<false, true>, {"*"}},
      {"selectattr", filter_select<true, true>, {"*"}},
      {"slice", filter_slice, {"slices", "fill_with"}},
      {"sort", filter_sort, {"reverse", "case_sensitive", "attribute"}},
      {"sum", filter_sum, {"attribute"}},
      {"unique", filter_unique, {"case_sensitive", "attribute"}}};
  return kFilters;
}

}  // namespace hearth::model::jinja
