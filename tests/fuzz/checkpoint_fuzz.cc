// Any bytes as a checkpoint, a bundle of entries and a tile's path. What is accepted has one
// spelling.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "ledger/note.h"
#include "ledger/tiles.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  using namespace hearth::ledger;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto note = parse_note(bytes);
  if (note) INVARIANT(format_note(*note) == as_text(bytes), "a note has one spelling");
  const auto checkpoint = parse_checkpoint(bytes);
  INVARIANT(checkpoint.ok() || !checkpoint.error().message.empty(), "a refusal says why");
  INVARIANT(!checkpoint || checkpoint->text().size() == size, "nothing of it is passed over");

  const std::uint32_t width = size > 0 ? data[size - 1] : 0;
  const auto entries = parse_bundle(bytes, width);
  if (entries) {
    Bytes again;
    for (const BundleEntry& entry : *entries) append_to_bundle(again, entry.bytes);
    INVARIANT(again == Bytes(bytes.begin(), bytes.end()), "a bundle has one encoding");
  }
  const auto tile = parse_tile_path(as_text(bytes));
  INVARIANT(!tile || tile->path() == as_text(bytes), "a tile has one path");
  return 0;
}
