// Any bytes as a GGUF file: parsed, looked at in every way that the reader offers, read as a model.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"

namespace hearth::model {
namespace {

void touch_values(const GgufFile& file) {
  for (const std::string_view key : file.keys()) {
    const GgufValue* value = file.find(key);
    INVARIANT(value != nullptr, "a listed key is found");
    const int kinds =
        static_cast<int>(file.get_uint(key).ok()) + static_cast<int>(file.get_float(key).ok()) +
        static_cast<int>(file.get_string(key).ok()) + static_cast<int>(file.get_bool(key).ok());
    INVARIANT(kinds <= 1, "a value has one kind");
    const auto* array = std::get_if<GgufArray>(value);
    if (array == nullptr) continue;
    const auto* texts = std::get_if<std::vector<std::string_view>>(&array->items);
    std::size_t bytes = 0;
    for (std::size_t i = 0; texts != nullptr && i < array->size(); ++i) bytes += (*texts)[i].size();
    INVARIANT(bytes <= file.file_bytes(), "views lie inside the file");
  }
}

void touch_tensors(const GgufFile& file) {
  std::uint64_t end = 0;
  unsigned sum = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    INVARIANT(file.find_tensor(tensor.name) == &tensor, "a listed tensor is found");
    INVARIANT(tensor.offset >= end && tensor.elements() > 0, "tensors do not overlap");
    end = tensor.offset + tensor.bytes;
    INVARIANT(end <= file.file_bytes(), "tensors lie inside the file");
    for (const std::byte byte : file.tensor_bytes(tensor)) sum += std::to_integer<unsigned>(byte);
  }
  [[maybe_unused]] volatile unsigned kept = sum;
}

}  // namespace
}  // namespace hearth::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::model;
  const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzzed");
  if (!file.ok()) return 0;
  touch_values(**file);
  touch_tensors(**file);
  const auto spec = ModelSpec::read(**file);
  if (spec.ok()) {
    INVARIANT(spec->rope_frequencies().size() == spec->head_dim / 2, "one frequency a pair");
    INVARIANT(spec->heads % spec->kv_heads == 0, "kv heads are shared evenly");
    INVARIANT(spec->experts_used <= spec->experts && spec->feed_forward != 0,
              "a row uses some of the experts");
    INVARIANT((spec->experts == 0) == (spec->experts_used == 0), "and at least one");
  }
  return 0;
}
