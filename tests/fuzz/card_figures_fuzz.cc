// Any bytes as the figures of a GPU: a GPU with memory that has a rate, or a refusal that names the
// file.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/plan/catalogue/catalogue.h"

// The catalogue itself is not read here.
std::span<const hearth::cli::CatalogueFile> hearth::cli::embedded_catalogue() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto card = cli::read_card_figures("pebble.json", text);
  if (!card.ok()) {
    INVARIANT(card.error().message.find("pebble.json") != std::string::npos,
              "a refusal names the file");
    return 0;
  }
  INVARIANT(card->memory_bytes > 0.0 && card->memory_bytes_per_second > 0.0,
            "a GPU has memory, and the memory has a rate");
  for (const double figure : {card->memory_bytes, card->memory_bytes_per_second, card->fp16_flops,
                              card->int8_flops, card->fp32_flops, card->link_seconds}) {
    INVARIANT(std::isfinite(figure) && figure >= 0.0, "figures are finite");
  }
  return 0;
}
