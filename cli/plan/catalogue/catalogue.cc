#include "cli/plan/catalogue/catalogue.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/number.h"
#include "cli/command/nearest.h"
#include "cli/terminal/escape.h"

namespace hearth::cli {
namespace {

using placement::Card;
using placement::Electricity;
using placement::Host;
using placement::Network;
using placement::Quant;
using placement::Shape;

constexpr double kLargestFigure = 1e9;  // as written, before its unit
constexpr std::size_t kKeyBytes = 64;

struct CatalogueRow {
  std::string where;  // "geforce.toml: card.rtx4090"
  std::string kind;
  std::string key;
  std::map<std::string, std::vector<std::string>> values;
};

template <typename T>
struct NumberField {
  const char* key;
  double T::*member;
  double scale;
};

template <typename T>
struct CountField {
  const char* key;
  std::uint32_t T::*member;
};

template <typename T>
struct FlagField {
  const char* key;
  bool T::*member;
};

constexpr std::array kCardNumbers = {
    NumberField<Card>{"memory_gib", &Card::memory_bytes, 1024.0 * 1024.0 * 1024.0},
    NumberField<Card>{"memory_gb", &Card::memory_bytes, 1e9},
    NumberField<Card>{"memory_gb_per_second", &Card::memory_bytes_per_second, 1e9},
    NumberField<Card>{"fp16_tflops", &Card::fp16_flops, 1e12},
    NumberField<Card>{"fp16_sparse_tflops", &Card::fp16_flops, 0.5e12},
    NumberField<Card>{"fp16_short_tflops", &Card::fp16_short_flops, 1e12},
    NumberField<Card>{"int8_tops", &Card::int8_flops, 1e12},
    NumberField<Card>{"int8_sparse_tops", &Card::int8_flops, 0.5e12},
    NumberField<Card>{"fp32_tflops", &Card::fp32_flops, 1e12},
    NumberField<Card>{"link_gb_per_second", &Card::link_bytes_per_second, 1e9},
    NumberField<Card>{"link_both_gb_per_second", &Card::link_bytes_per_second, 0.5e9},
    NumberField<Card>{"link_us", &Card::link_seconds, 1e-6},
    NumberField<Card>{"watts", &Card::watts, 1.0},
    NumberField<Card>{"usd", &Card::usd, 1.0},
};
constexpr std::array kCardFlags = {FlagField<Card>{"runs", &Card::runs},
                                   FlagField<Card>{"needs_server", &Card::needs_server},
                                   FlagField<Card>{"whole_machine", &Card::whole_machine}};
constexpr std::array kNetworkNumbers = {
    NumberField<Network>{"gbit_per_second", &Network::bytes_per_second, 1e9 / 8.0},
    NumberField<Network>{"delay_us", &Network::delay_seconds, 1e-6},
    NumberField<Network>{"port_usd", &Network::port_usd, 1.0},
};
constexpr std::array kHostNumbers = {NumberField<Host>{"watts", &Host::watts, 1.0},
                                     NumberField<Host>{"usd", &Host::usd, 1.0}};
constexpr std::array kHostFlags = {FlagField<Host>{"server", &Host::server}};
constexpr std::array kHostCounts = {CountField<Host>{"cards", &Host::cards}};
constexpr std::array kElectricityNumbers = {
    NumberField<Electricity>{"usd_per_kwh", &Electricity::usd_per_kwh, 1.0}};
constexpr std::array kQuantNumbers = {NumberField<Quant>{"bits", &Quant::bits, 1.0}};
constexpr std::array kShapeNumbers = {
    NumberField<Shape>{"published_billions", &Shape::published_parameters, 1e9}};
constexpr std::array kShapeFlags = {FlagField<Shape>{"tied", &Shape::tied}};
constexpr std::array kShapeCounts = {
    CountField<Shape>{"layers", &Shape::layers},
    CountField<Shape>{"hidden", &Shape::hidden},
    CountField<Shape>{"heads", &Shape::heads},
    CountField<Shape>{"kv_heads", &Shape::kv_heads},
    CountField<Shape>{"head_dim", &Shape::head_dim},
    CountField<Shape>{"feed_forward", &Shape::feed_forward},
    CountField<Shape>{"experts", &Shape::experts},
    CountField<Shape>{"experts_used", &Shape::experts_used},
    CountField<Shape>{"shared_feed_forward", &Shape::shared_feed_forward},
    CountField<Shape>{"vocabulary", &Shape::vocabulary},
    CountField<Shape>{"context", &Shape::context},
};

Result<double> figure_of(const CatalogueRow& row, const std::string& key, const std::string& text) {
  const auto value = parse_number<double>(text);
  REQUIRE(value && std::isfinite(*value) && *value >= 0.0 && *value <= kLargestFigure, row.where,
          ": ", key, " must be a number from 0 to ", std::uint64_t{1'000'000'000}, ", got '",
          escape_control(text.substr(0, kKeyBytes)), "'");
  return *value;
}

// Removes the fields that it knows from a row, so that the remaining fields are unknown ones.
class Taker {
 public:
  explicit Taker(CatalogueRow& row) : row_(row) {}

  template <typename T, std::size_t N>
  Status numbers(T& entry, const std::array<NumberField<T>, N>& fields) {
    for (const NumberField<T>& field : fields) {
      TRY(const std::string text, text_of(field.key));
      if (text.empty()) continue;
      TRY(const double value, figure_of(row_, field.key, text));
      entry.*field.member = value * field.scale;
    }
    return ok_status();
  }

  template <typename T, std::size_t N>
  Status counts(T& entry, const std::array<CountField<T>, N>& fields) {
    for (const CountField<T>& field : fields) {
      TRY(const std::string text, text_of(field.key));
      if (text.empty()) continue;
      TRY(const double value, figure_of(row_, field.key, text));
      REQUIRE(value == std::floor(value), row_.where, ": ", field.key,
              " must be a whole number, got ", text);
      entry.*field.member = static_cast<std::uint32_t>(value);
    }
    return ok_status();
  }

  template <typename T, std::size_t N>
  Status flags(T& entry, const std::array<FlagField<T>, N>& fields) {
    for (const FlagField<T>& field : fields) {
      TRY(const std::string text, text_of(field.key));
      REQUIRE(text.empty() || text == "0" || text == "1", row_.where, ": ", field.key,
              " must be 0 or 1, got '", escape_control(text), "'");
      entry.*field.member = text == "1";
    }
    return ok_status();
  }

  // Empty where the row does not have it.
  Result<std::string> text_of(const std::string& key) {
    const auto found = row_.values.find(key);
    if (found == row_.values.end()) return std::string();
    REQUIRE(found->second.size() == 2 && !found->second.front().empty(), row_.where, ": ", key,
            " must be [figure, source]");
    used_.emplace(key, found->second.back());
    std::string text = std::move(found->second.front());
    row_.values.erase(found);
    return text;
  }

  Status end(const std::map<std::string, Source>& sources) const {
    REQUIRE(row_.values.empty(), row_.where, ": unknown key '",
            escape_control(row_.values.begin()->first), "'");
    for (const auto& [key, source] : used_) {
      REQUIRE(sources.contains(source), row_.where, ": unknown source '", escape_control(source),
              "'; add a table [source.", escape_control(source), "]");
    }
    return ok_status();
  }

  // Keys taken whose source confirms nothing.
  std::vector<std::string> unchecked(const std::map<std::string, Source>& sources) const {
    std::vector<std::string> keys;
    for (const auto& [key, source] : used_) {
      const auto found = sources.find(source);
      if (found != sources.end() && found->second.checked == kUnchecked) keys.push_back(key);
    }
    return keys;
  }

 private:
  CatalogueRow& row_;
  std::map<std::string, std::string> used_;  // keys taken, with their sources
};

Result<std::vector<CatalogueRow>> rows_of(const CatalogueFile& file) {
  std::istringstream input{std::string(file.text)};
  std::vector<CLI::ConfigItem> items;
  const std::string name(file.name);
  try {
    items = CLI::ConfigTOML().from_config(input);
  } catch (const std::exception& error) {
    return Error::invalid(name, ": not TOML: ", std::string_view(error.what()));
  }
  std::vector<CatalogueRow> rows;
  std::set<std::pair<std::string, std::string>> seen;
  for (CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;
    REQUIRE(item.parents.size() == 2, name, ": '", escape_control(item.name),
            "' must be in a table [kind.key]");
    const std::string& kind = item.parents.front();
    const std::string& key = item.parents.back();
    const bool same = !rows.empty() && rows.back().kind == kind && rows.back().key == key;
    const std::string where =
        message_of(name, ": ", escape_control(kind), ".", escape_control(key));
    if (!same) {
      REQUIRE(seen.emplace(kind, key).second, where, " is there twice");
      rows.push_back({where, kind, key, {}});
    }
    const bool is_new = rows.back().values.emplace(item.name, std::move(item.inputs)).second;
    REQUIRE(is_new, where, ": ", escape_control(item.name), " is there twice");
  }
  return rows;
}

class Reader {
 public:
  Status read(CatalogueRow& row) {
    Taker taker(row);
    TRY_VOID(read_entry(row, taker));
    return taker.end(all.sources);
  }

  Status read_source(CatalogueRow& row) {
    const auto text = [&](const char* key) {
      const auto found = row.values.find(key);
      return found == row.values.end() || found->second.empty() ? "" : found->second.front();
    };
    const Source source = {text("title"), text("date"), text("checked")};
    REQUIRE(!source.title.empty() && !source.date.empty() && row.values.size() == 3, row.where,
            " must have a title, a date and checked");
    REQUIRE(
        source.checked == "document" || source.checked == "table" || source.checked == kUnchecked,
        row.where, ": checked must be document, table or no, got '",
        escape_control(source.checked.substr(0, kKeyBytes)), "'");
    REQUIRE(all.sources.emplace(row.key, source).second, row.where, " is there twice");
    return ok_status();
  }

  Catalogue all;

 private:
  Status read_entry(const CatalogueRow& row, Taker& taker) {
    if (row.kind == "card") return read_card(row, taker, all.cards.emplace_back());
    if (row.kind == "network") return read_network(row, taker);
    if (row.kind == "host") {
      Host& host = all.hosts.emplace_back();
      host.key = row.key;
      TRY_VOID(taker.counts(host, kHostCounts));
      REQUIRE(host.cards >= 1, row.where, ": cards must be at least 1");
      TRY_VOID(taker.flags(host, kHostFlags));
      return taker.numbers(host, kHostNumbers);
    }
    if (row.kind == "electricity") {
      Electricity& electricity = all.electricity.emplace_back();
      electricity.key = row.key;
      return taker.numbers(electricity, kElectricityNumbers);
    }
    if (row.kind == "quant") {
      Quant& quant = all.quants.emplace_back();
      quant.key = row.key;
      TRY(quant.type, taker.text_of("type"));
      TRY_VOID(taker.numbers(quant, kQuantNumbers));
      REQUIRE(quant.bits >= 1.0 && quant.bits <= 32.0, row.where, ": bits must be from 1 to 32");
      return ok_status();
    }
    if (row.kind == "model") return read_shape(row, taker);
    return Error::invalid(row.where, ": unknown kind of table");
  }

  Status read_card(const CatalogueRow& row, Taker& taker, Card& card) const {
    card.key = row.key;
    TRY(card.title, taker.text_of("title"));
    TRY_VOID(taker.numbers(card, kCardNumbers));
    TRY_VOID(taker.flags(card, kCardFlags));
    REQUIRE(!card.title.empty() && card.memory_bytes > 0.0 && card.memory_bytes_per_second > 0.0,
            row.where, " must have title, memory and memory_gb_per_second");
    card.unchecked = taker.unchecked(all.sources);
    return ok_status();
  }

  Status read_network(const CatalogueRow& row, Taker& taker) {
    Network& network = all.networks.emplace_back();
    network.key = row.key;
    network.priced = row.values.contains("port_usd");
    TRY_VOID(taker.numbers(network, kNetworkNumbers));
    REQUIRE(network.bytes_per_second > 0.0, row.where, ": gbit_per_second must be above 0");
    return ok_status();
  }

  Status read_shape(const CatalogueRow& row, Taker& taker) {
    Shape& shape = all.shapes.emplace_back();
    shape.key = row.key;
    TRY(shape.title, taker.text_of("title"));
    TRY(shape.architecture, taker.text_of("architecture"));
    TRY_VOID(taker.counts(shape, kShapeCounts));
    TRY_VOID(taker.numbers(shape, kShapeNumbers));
    TRY_VOID(taker.flags(shape, kShapeFlags));
    REQUIRE(shape.layers >= 1 && shape.hidden >= 1 && shape.kv_heads >= 1 && shape.head_dim >= 1 &&
                shape.heads >= shape.kv_heads && shape.feed_forward >= 1 && shape.vocabulary >= 1 &&
                shape.context >= 1 && shape.experts_used <= shape.experts,
            row.where,
            " must have layers, hidden, kv_heads, head_dim, feed_forward, vocabulary and context "
            "of at least 1, heads of at least kv_heads, and experts_used of at most experts");
    return ok_status();
  }
};

}  // namespace

Result<Catalogue> read_catalogue(std::span<const CatalogueFile> files) {
  std::vector<CatalogueRow> rows;
  for (const CatalogueFile& file : files) {
    TRY(std::vector<CatalogueRow> more, rows_of(file));
    for (CatalogueRow& row : more) rows.push_back(std::move(row));
  }
  Reader reader;
  std::set<std::pair<std::string, std::string>> seen;
  for (CatalogueRow& row : rows) {
    REQUIRE(seen.emplace(row.kind, row.key).second, row.where, " is there twice");
    if (row.kind == "source") TRY_VOID(reader.read_source(row));
  }
  for (CatalogueRow& row : rows) {
    if (row.kind != "source") TRY_VOID(reader.read(row));
  }
  return std::move(reader.all);
}

Result<Card> read_card_figures(const std::string& name, std::string_view json) {
  const auto figures = nlohmann::json::parse(json, nullptr, false);
  REQUIRE(figures.is_object(), name,
          " must be a JSON object of a GPU's figures, for example {\"memory_gb\": 24, "
          "\"memory_gb_per_second\": 1008, \"fp16_tflops\": 165.2}");
  const std::string source = "figures";
  CatalogueRow row{name, "card", "custom", {{"title", {"GPU of " + name, source}}}};
  for (const auto& [key, value] : figures.items()) {
    REQUIRE(value.is_number(), name, ": ", escape_control(key.substr(0, kKeyBytes)),
            " must be a number");
    row.values[key] = {value.dump(), source};
  }
  Reader reader;
  reader.all.sources.emplace(source, Source{name, "", std::string(kUnchecked)});
  TRY_VOID(reader.read(row));
  return std::move(reader.all.cards.front());
}

const Catalogue& catalogue() {
  static const Catalogue read = [] {
    auto result = read_catalogue(embedded_catalogue());
    INVARIANT(result.ok(), "the program's own catalogue is well-formed");
    return std::move(*result);
  }();
  return read;
}

template <typename Entry>
Result<Entry> find_entry(const std::vector<Entry>& entries, const std::string& key,
                         std::string_view what) {
  std::string lower = key.substr(0, kKeyBytes);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::vector<std::string> known;
  for (const Entry& entry : entries) {
    if (entry.key == lower) return entry;
    known.push_back(entry.key);
  }
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  const std::string near = did_you_mean(lower, known);
  return Error::of(ErrorCode::kInvalidInput, what, " '", escape_control(lower),
                   "' is not in the catalogue", near,
                   near.empty() ? "; known: " : " Known: ", names);
}

template Result<Card> find_entry(const std::vector<Card>&, const std::string&, std::string_view);
template Result<Quant> find_entry(const std::vector<Quant>&, const std::string&, std::string_view);
template Result<Host> find_entry(const std::vector<Host>&, const std::string&, std::string_view);
template Result<Shape> find_entry(const std::vector<Shape>&, const std::string&, std::string_view);
template Result<Network> find_entry(const std::vector<Network>&, const std::string&,
                                    std::string_view);

}  // namespace hearth::cli
