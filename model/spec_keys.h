// The keys of a model file, as spec.cc and spec_rope.cc read them: each in its range, and errors
// that name the key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/canonical.h"
#include "model/gguf/gguf.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {

template <typename... Parts>
Error unsupported(const Parts&... message) {
  return Error::of(ErrorCode::kUnsupported, message...);
}

// The keys of one architecture: "llama." + suffix, with the range that a value must lie in.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  bool has(std::string_view suffix) const { return file_.find(name(suffix)) != nullptr; }
  std::string name(std::string_view suffix) const { return prefix_ + std::string(suffix); }

  // A number, or an array that has the same one for every layer.
  Result<std::uint64_t> whole(std::string_view suffix) const {
    const GgufValue* value = file_.find(name(suffix));
    const auto* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
    if (array == nullptr) return file_.get_uint(name(suffix));
    const auto constant = [](const auto* items) {
      return items != nullptr && !items->empty() &&
             std::ranges::count(*items, items->front()) == std::ssize(*items);
    };
    const auto* naturals = std::get_if<std::vector<std::uint64_t>>(&array->items);
    const auto* integers = std::get_if<std::vector<std::int64_t>>(&array->items);
    if (constant(naturals)) return naturals->front();
    if (constant(integers) && integers->front() >= 0)
      return static_cast<std::uint64_t>(integers->front());
    return not_served(suffix, "is an array; only the same number for every layer is served");
  }

  // A number for every layer, from an array of as many or from one number.
  Result<std::vector<std::uint32_t>> of_layers(std::string_view suffix, std::uint32_t layers,
                                               std::uint32_t low, std::uint32_t high) const {
    const GgufValue* value = file_.find(name(suffix));
    const auto* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
    if (array == nullptr) {
      TRY(const std::uint32_t all, integer(suffix, low, high));
      return std::vector<std::uint32_t>(layers, all);
    }
    std::vector<std::uint32_t> out;
    const auto take = [&](const auto* items) {
      if (items == nullptr || items->size() != layers) return;
      for (const auto item : *items) {
        // A number beyond 32 bits is out of any range.
        const bool fits = std::in_range<std::uint32_t>(item);
        out.push_back(fits ? static_cast<std::uint32_t>(item) : ~std::uint32_t{0});
      }
    };
    take(std::get_if<std::vector<std::uint64_t>>(&array->items));
    take(std::get_if<std::vector<std::int64_t>>(&array->items));
    if (out.empty()) {
      return bad(suffix, "must be a number or an array of ", layers, " whole numbers, one a layer");
    }
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      if (out[layer] >= low && out[layer] <= high) continue;
      return bad(suffix, "is out of range in layer ", layer, "; it must be from ", low, " to ",
                 high);
    }
    return out;
  }

  // `absent`: the value where the file has no such key; nothing: that is an error.
  Result<std::uint32_t> integer(std::string_view suffix, std::uint32_t low, std::uint32_t high,
                                std::optional<std::uint32_t> absent = {}) const {
    if (!has(suffix) && absent) return *absent;
    if (!has(suffix)) return bad(suffix, "is missing");
    TRY(const std::uint64_t value, whole(suffix));
    if (value < low || value > high) {
      return bad(suffix, "is ", value, "; it must be from ", low, " to ", high);
    }
    return static_cast<std::uint32_t>(value);
  }

  // Above `low`, up to `high`; never NaN.
  Result<double> real(std::string_view suffix, double low, double high,
                      std::optional<double> absent = {}) const {
    if (!has(suffix) && absent) return *absent;
    if (!has(suffix)) return bad(suffix, "is missing");
    TRY(const double value, file_.get_float(name(suffix)));
    if (!(value > low && value <= high)) {
      return bad(suffix, "is ", value, "; it must be above ", low, " and at most ", high);
    }
    return value;
  }

  // Checks that the key's number is a multiple of the block that kernels compute at a time.
  Status whole_blocks(std::string_view suffix, std::uint32_t value) const {
    if (value % kernels::kBlock == 0) return ok_status();
    return bad(suffix, "is ", value, "; it must be a multiple of ", kernels::kBlock);
  }

  template <typename... Parts>
  Error bad(std::string_view suffix, const Parts&... what) const {
    return Error::invalid("key ", quote(name(suffix)), " ", what...);
  }
  template <typename... Parts>
  Error not_served(std::string_view suffix, const Parts&... what) const {
    return unsupported("key ", quote(name(suffix)), " ", what...);
  }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// The vector, which must be F32.
Result<const TensorInfo*> require_vector(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims);

}  // namespace hearth::model
