// Any bytes as a manifest: one that is accepted is whole, and writing it gives the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/gguf/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  Bytes signature;
  const auto keep = [&](ByteSpan, ByteSpan given) {
    signature.assign(given.begin(), given.end());
    return true;
  };
  const auto manifest = model::parse_manifest(bytes, keep);
  if (!manifest.ok()) return 0;
  const Bytes again = model::encode_manifest(*manifest, [&](ByteSpan) { return signature; });
  INVARIANT(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
            "what is read is what is written");
  const std::uint32_t layers = model::layer_count(*manifest);
  for (std::uint32_t begin = 0; begin < std::min(layers, 4U); ++begin) {
    const auto tensors = model::stage_tensors(*manifest, {begin, layers});
    INVARIANT(tensors.ok(), "layers that are there");
    for (const std::size_t index : *tensors) {
      INVARIANT(index < manifest->tensors.size(), "a tensor that is there");
    }
  }
  return 0;
}
