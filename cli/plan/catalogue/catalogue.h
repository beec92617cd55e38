// The catalogue of published figures. A file has tables [kind.key]; a value is [figure, source],
// and the source is a table [source.key] of the catalogue with a title, a date and how the figures
// were checked ("document", "table", "no"; sources.toml says what these mean):
//
//   [card.rtx4090]
//   title = ["NVIDIA GeForce RTX 4090", "ada"]
//   memory_gib = [24, "ada"]
//
// Kinds: source, card, network, host, electricity, quant, model. A key is in lower case, without
// dots. Rates whose key has "sparse" are halved: everything here is dense.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "placement/estimate/figures.h"

namespace hearth::cli {

struct CatalogueFile {
  std::string_view name;
  std::string_view text;
};

struct Source {
  std::string title;
  std::string date;
  std::string checked;
};
inline constexpr std::string_view kUnchecked = "no";

struct Catalogue {
  std::map<std::string, Source> sources;
  std::vector<placement::Card> cards;
  std::vector<placement::Network> networks;
  std::vector<placement::Host> hosts;
  std::vector<placement::Electricity> electricity;
  std::vector<placement::Quant> quants;
  std::vector<placement::Shape> shapes;
};

// kInvalidInput names file, table and key: for an unknown kind, key or source, for a figure that is
// not a number or is out of its range, and for a table or key that occurs twice.
Result<Catalogue> read_catalogue(std::span<const CatalogueFile> files);

inline constexpr const char* kDefaultQuant = "q4_k_m";  // of a shape's weights

// A card of a JSON object with the keys of a table [card.key] and plain numbers, for example
// {"memory_gb": 24, "memory_gb_per_second": 1008, "fp16_tflops": 165.2}. `name`: of the file.
Result<placement::Card> read_card_figures(const std::string& name, std::string_view json);

std::span<const CatalogueFile> embedded_catalogue();  // of the source that the build generates
const Catalogue& catalogue();                         // those, read once

// The entry with this key, in any case; kNotFound suggests the nearest. `what`: "--gpus: GPU".
template <typename Entry>
Result<Entry> find_entry(const std::vector<Entry>& entries, const std::string& key,
                         std::string_view what);

}  // namespace hearth::cli
