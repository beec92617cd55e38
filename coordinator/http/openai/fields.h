// FieldReader: reads typed, range-checked fields of a JSON object. After the first error all reads
// return nothing, so that a parser reads every field and checks once. null equals absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {

class FieldReader {
 public:
  // `object` must outlive the reader; anything but an object is an error at once. `prefix` is put
  // before field names in errors, e.g. "messages[3].".
  explicit FieldReader(const Json& object, std::string prefix = {});

  // The field, or null when absent or JSON null.
  const Json* find(const char* name) const;
  std::optional<bool> boolean(const char* name);
  std::optional<std::string> string(const char* name);
  // `otherwise`: the value for a field that is absent or wrong.
  float number(const char* name, double low, double high, float otherwise);
  // Whole numbers only; 3.0 is accepted, 3.5 is not.
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high);
  // `T`: a type that holds all numbers from `low` to `high`, or their two's complement.
  template <typename T>
  std::optional<T> integer(const char* name, std::int64_t low, std::int64_t high) {
    const auto value = integer(name, low, high);
    return value ? std::optional(static_cast<T>(*value)) : std::nullopt;
  }

  void fail(ApiError error);
  // 400 invalid_value about a field, with the prefix put before its name.
  void fail(const char* name, const std::string& what);
  // 400 unsupported_value about a field, likewise.
  void refuse(const char* name, const std::string& what);
  bool failed() const { return error_.has_value(); }
  const ApiError& error() const { return *error_; }

 private:
  const Json& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

// The integer in `value`, when it is one within int64.
std::optional<std::int64_t> as_integer(const Json& value);

}  // namespace hearth::coordinator::http
