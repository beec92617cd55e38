// The tensor types: sizes of those that can be read, names of those that are only recognised.
#include <algorithm>
#include <array>

#include "model/gguf/gguf.h"

namespace hearth::model {
namespace {

struct KnownType {
  TensorType type;
  TensorTypeInfo info;
};

constexpr std::array<KnownType, 25> kKnown{{
    {TensorType::kF32, {"F32", 1, 4}},
    {TensorType::kF16, {"F16", 1, 2}},
    {TensorType::kQ4_0, {"Q4_0", 32, 18}},
    {TensorType::kQ4_1, {"Q4_1", 32, 20}},
    {TensorType::kQ5_0, {"Q5_0", 32, 22}},
    {TensorType::kQ5_1, {"Q5_1", 32, 24}},
    {TensorType::kQ8_0, {"Q8_0", 32, 34}},
    {TensorType::kQ2_K, {"Q2_K", 256, 84}},
    {TensorType::kQ3_K, {"Q3_K", 256, 110}},
    {TensorType::kQ4_K, {"Q4_K", 256, 144}},
    {TensorType::kQ5_K, {"Q5_K", 256, 176}},
    {TensorType::kQ6_K, {"Q6_K", 256, 210}},
    {TensorType::kIQ4_NL, {"IQ4_NL", 32, 18}},
    {TensorType::kIQ4_XS, {"IQ4_XS", 256, 136}},
    {TensorType::kBF16, {"BF16", 1, 2}},
    {TensorType::kMXFP4, {"MXFP4", 32, 17}},
    {TensorType::kIQ2_XXS, {"IQ2_XXS", 256, 66}},
    {TensorType::kIQ2_XS, {"IQ2_XS", 256, 74}},
    {TensorType::kIQ2_S, {"IQ2_S", 256, 82}},
    {TensorType::kIQ3_XXS, {"IQ3_XXS", 256, 98}},
    {TensorType::kIQ3_S, {"IQ3_S", 256, 110}},
    {TensorType::kIQ1_S, {"IQ1_S", 256, 50}},
    {TensorType::kIQ1_M, {"IQ1_M", 256, 56}},
    {TensorType::kTQ1_0, {"TQ1_0", 256, 54}},
    {TensorType::kTQ2_0, {"TQ2_0", 256, 66}},
}};

struct ForeignType {
  std::uint32_t type;
  std::string_view name;
};

constexpr std::array<ForeignType, 12> kForeign{{
    {4, "Q4_2"},
    {5, "Q4_3"},
    {9, "Q8_1"},
    {15, "Q8_K"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
}};

}  // namespace

const TensorTypeInfo* tensor_type_info(std::uint32_t type) {
  const auto* found = std::find_if(kKnown.begin(), kKnown.end(), [&](const KnownType& known) {
    return static_cast<std::uint32_t>(known.type) == type;
  });
  return found == kKnown.end() ? nullptr : &found->info;
}

std::string tensor_type_name(std::uint32_t type) {
  if (const TensorTypeInfo* info = tensor_type_info(type)) return std::string(info->name);
  const std::string number = "type " + std::to_string(type);
  const auto* found = std::find_if(kForeign.begin(), kForeign.end(),
                                   [&](const ForeignType& known) { return known.type == type; });
  if (found == kForeign.end()) return number;
  return std::string(found->name) + " (" + number + ")";
}

std::uint64_t TensorInfo::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t dim : dims) product *= dim;
  return product;
}

}  // namespace hearth::model
