#include "coordinator/http/openai/fields.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <limits>

namespace hearth::coordinator::http {
std::optional<std::int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: above, doubles skip integers
    const double number = value.get<double>();
    if (std::fabs(number) <= kExact && std::trunc(number) == number) {
      return static_cast<std::int64_t>(number);
    }
  }
  return std::nullopt;
}

FieldReader::FieldReader(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (object_.is_object()) return;
  if (prefix_.empty()) {
    error_ = ApiError::invalid("the body must be a JSON object");
    return;
  }
  const std::string name = prefix_.substr(0, prefix_.size() - 1);
  error_ = ApiError::invalid("'" + name + "' must be a JSON object", name);
}

const Json* FieldReader::find(const char* name) const {
  if (error_ || !object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> FieldReader::boolean(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, "must be true or false");
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail(name, "must be a string");
  return std::nullopt;
}

float FieldReader::number(const char* name, double low, double high, float otherwise) {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : low;
  if (!value->is_number()) fail(name, "must be a number");
  if (number >= low && number <= high) return static_cast<float>(number);
  fail(name, fmt::format("must be between {} and {}", low, high));
  return otherwise;
}

std::optional<std::int64_t> FieldReader::integer(const char* name, std::int64_t low,
                                                 std::int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (number && *number >= low && *number <= high) return number;
  fail(name, value->is_number() ? fmt::format("must be an integer between {} and {}", low, high)
                                : "must be an integer");
  return std::nullopt;
}

void FieldReader::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::refuse(const char* name, const std::string& what) {
  fail(ApiError::not_supported(fmt::format("'{}{}' {}", prefix_, name, what), prefix_ + name));
}

void FieldReader::fail(const char* name, const std::string& what) {
  fail(ApiError::invalid(fmt::format("'{}{}' {}", prefix_, name, what), prefix_ + name));
}

}  // namespace hearth::coordinator::http
