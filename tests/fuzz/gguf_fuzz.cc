// Any bytes as a GGUF file: parsed, looked at in every way that the reader offers, read as a model.
// Bytes that begin with "PARTS" are the files of a model in parts, each after its length (u32).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "model/gguf/gguf.h"
#include "model/gguf/parts.h"
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

constexpr std::string_view kParts = "PARTS";
constexpr std::size_t kPartsMost = 8;

void touch_map(const GgufFile& file) {
  const PartMap map(file);
  INVARIANT(map.file_bytes() == file.file_bytes(), "the map is of the whole model");
  const std::uint64_t end = std::min(map.file_bytes(), std::uint64_t{1} << 20);
  for (std::uint64_t at = 0; at < end;) {
    const PartMap::Piece piece = map.piece(at, end);
    INVARIANT(piece.bytes > 0 && piece.bytes <= end - at, "pieces lead to the end");
    INVARIANT(!piece.part || file.parts().empty() ||
                  (*piece.part < file.parts().size() &&
                   piece.offset + piece.bytes <= file.parts()[*piece.part]->file_bytes()),
              "a piece lies in its part");
    at += piece.bytes;
  }
}

Result<std::shared_ptr<const GgufFile>> parse_parts(ByteSpan bytes) {
  ByteReader in(bytes);
  in.take(kParts.size());
  std::vector<std::shared_ptr<const GgufFile>> parts;
  while (in.remaining() > 0 && parts.size() < kPartsMost) {
    const auto length = in.read<std::uint32_t>();
    const ByteSpan part = in.take(std::min<std::size_t>(length, in.remaining()));
    if (in.failed()) break;
    TRY(parts.emplace_back(), GgufFile::parse_part(part, part.size(), "part"));
  }
  return join_parts(std::move(parts));
}

Result<std::shared_ptr<const GgufFile>> parse_any(ByteSpan bytes) {
  if (as_text(bytes).starts_with(kParts)) return parse_parts(bytes);
  return GgufFile::parse(bytes, "fuzzed");
}

}  // namespace
}  // namespace hearth::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::model;
  const auto file = parse_any({reinterpret_cast<const std::byte*>(data), size});
  if (!file.ok()) return 0;
  touch_values(**file);
  touch_tensors(**file);
  touch_map(**file);
  const auto spec = ModelSpec::read(**file);
  if (spec.ok()) {
    INVARIANT(spec->rotary_dim != 0 && spec->rotary_dim <= spec->head_dim, "RoPE turns a part");
    INVARIANT(spec->rope_frequencies().size() == spec->rotary_dim / 2, "one frequency a pair");
    const std::uint32_t local_dim =
        spec->local_head_dim > 0 ? spec->local_head_dim : spec->rotary_dim;
    INVARIANT(spec->local_rope_frequencies().size() == local_dim / 2, "of every layer");
    for (const std::uint32_t position : {0U, spec->context - 1}) {
      const float scale = spec->score_scale(position);
      INVARIANT(scale >= 0.0F && scale <= 0x1p20F, "attention takes the scale of scores");
    }
    INVARIANT(spec->heads % spec->kv_heads == 0, "kv heads are shared evenly");
    INVARIANT(spec->experts_used <= spec->experts && spec->feed_forward != 0,
              "a row uses some of the experts");
    INVARIANT((spec->experts == 0) == (spec->experts_used == 0), "and at least one");
    const auto& routing = spec->routing;
    INVARIANT(routing.groups <= 1 ||
                  (spec->experts % routing.groups == 0 && spec->experts / routing.groups >= 2 &&
                   routing.groups_used * (spec->experts / routing.groups) >= spec->experts_used),
              "the groups that a row uses hold its experts");
    INVARIANT(spec->layers != 0 && spec->dense_layers < spec->layers, "a model has its layers");
    if (spec->delta) {
      const auto& shape = spec->delta->shape;
      INVARIANT(shape.key_heads != 0 && shape.value_heads % shape.key_heads == 0 &&
                    shape.taps != 0 && shape.taps <= hearth::limits::kModelTaps,
                "the heads of a delta net are shared evenly");
      INVARIANT(shape.head != 0 && shape.channels() <= hearth::limits::kModelWidth,
                "a row of its channels fits the kernels");
    }
    for (std::uint32_t layer = 0; layer < spec->layers; ++layer) {
      const std::uint32_t source = spec->kv_source(layer);
      INVARIANT(source <= layer && spec->keeps_kv(source) != spec->is_delta(layer),
                "a layer has a state, or keys and values to read");
      if (spec->is_delta(layer)) continue;
      const auto layout = spec->kv_layout(source);
      INVARIANT(layout.head_dim != 0 && layout.kv_heads != 0 &&
                    layout.head_dim <= (layout.latent == 0 ? hearth::limits::kModelHeadDim
                                                           : hearth::limits::kModelLatent),
                "a row of the KV cache fits the kernels");
      INVARIANT(layout.latent != 0 || spec->heads % layout.kv_heads == 0,
                "kv heads are shared evenly");
    }
  }
  return 0;
}
