#include "tests/articles/words.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "cli/terminal/table.h"

namespace hearth::cli {
namespace {

using placement::ArticleFigure;
using placement::ArticleInputs;
using placement::Card;

// The program's own catalogue has these entries; a test reads them.
template <typename Entry>
Entry entry_of(const std::vector<Entry>& entries, const std::string& key) {
  const auto found = find_entry(entries, key, "catalogue");
  INVARIANT(found.ok(), "the catalogue has what the articles need");
  return *found;
}

Card printed_of(const std::string& key) { return entry_of(printed_cards(), key); }

std::string number_text(double value) {
  return value >= 1e4 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string figure_text(double value, const std::string& unit) {
  return number_text(value) + (unit.empty() ? "" : " " + unit);
}

const char* kind_text(ArticleFigure::Kind kind) {
  switch (kind) {
    case ArticleFigure::Kind::kComputed: return "computed";
    case ArticleFigure::Kind::kGiven: return "given";
    case ArticleFigure::Kind::kFitted: return "fitted";
  }
  return "";
}

std::string mark_of(ArticleFigure::Kind kind) {
  if (kind == ArticleFigure::Kind::kComputed) return "";
  return std::string(" (") + kind_text(kind) + ")";
}

std::string part_text(double value, double scale) {
  return value > 0.0 ? number_text(value / scale) : "-";
}

// "1979 (989.5)": the printed figure and, in brackets, the catalogue's if it differs.
std::string pair_text(double printed, double real, double scale) {
  std::string text = part_text(printed, scale);
  const bool same = printed == real || (real > 0.0 && std::abs(printed / real - 1.0) < 0.005);
  if (!same && real > 0.0) text += " (" + part_text(real, scale) + ")";
  return text;
}

void append_cards(std::vector<std::string>& lines, const Catalogue& catalogue) {
  lines.emplace_back("");
  lines.emplace_back(
      "GPUs as the articles print them; in brackets the catalogue's figure where it "
      "differs (dense rates, sums in FP32; memory in GiB).");
  Table table({"GPU", "FP16 TFLOPS", "SUMS IN FP16", "INT8", "FP32", "MEMORY", "GB/S",
               "LINK GB/S ONE WAY", "LINK US", "USD", "ROWS OF BALANCE"});
  for (const Card& card : printed_cards()) {
    const Card real = entry_of(catalogue.cards, card.key);
    const double balance = card.fp16_flops / card.memory_bytes_per_second;
    table.add({card.title, pair_text(card.fp16_flops, real.fp16_flops, 1e12),
               pair_text(card.fp16_short_flops, real.fp16_short_flops, 1e12),
               pair_text(card.int8_flops, real.int8_flops, 1e12),
               pair_text(card.fp32_flops, real.fp32_flops, 1e12), part_text(card.memory_bytes, 1e9),
               pair_text(card.memory_bytes_per_second, real.memory_bytes_per_second, 1e9),
               pair_text(card.link_bytes_per_second, real.link_bytes_per_second, 1e9),
               pair_text(card.link_seconds, real.link_seconds, 1e-6),
               pair_text(card.usd, real.usd, 1.0),
               pair_text(balance, real.fp16_flops / real.memory_bytes_per_second, 1.0)});
  }
  for (std::string& line : table.lines()) lines.push_back(std::move(line));
}

}  // namespace

std::vector<Card> printed_cards() {
  std::ifstream file(HEARTH_ARTICLES_FOLDER "/printed.toml");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::array files = {CatalogueFile{"printed.toml", text}};
  const auto read = read_catalogue(files);
  INVARIANT(read.ok() && !read->cards.empty(), "printed.toml is a file of the catalogue's form");
  return read->cards;
}

ArticleInputs article_inputs(const Catalogue& catalogue) {
  ArticleInputs inputs;
  inputs.printed_4090 = printed_of("rtx4090");
  inputs.printed_h100 = printed_of("h100");
  inputs.rtx4090 = entry_of(catalogue.cards, "rtx4090");
  inputs.h100 = entry_of(catalogue.cards, "h100");
  inputs.roce = entry_of(catalogue.networks, "200g");
  inputs.llama70b = entry_of(catalogue.shapes, "llama2-70b");
  inputs.qwen72b = entry_of(catalogue.shapes, "qwen15-72b");
  for (const placement::Electricity& each : catalogue.electricity) {
    if (each.key == "article") inputs.usd_per_kwh = each.usd_per_kwh;
  }
  return inputs;
}

std::vector<std::string> article_lines(const Catalogue& catalogue) {
  std::vector<std::string> lines;
  lines.emplace_back(
      "Figures of four articles on Llama 2 70B (2023-09 to 2024-09), computed from "
      "their formulas.");
  lines.emplace_back(
      "ARTICLE: under their assumptions; (given): the articles state it and it is an input here; "
      "(fitted): an assumption is chosen so that it results. CORRECTED: with what changed.");
  lines.emplace_back("");
  Table table({"FIGURE", "WHAT", "ARTICLE", "CORRECTED", "WHAT CHANGED"});
  for (const ArticleFigure& each : article_figures(article_inputs(catalogue))) {
    table.add({each.id, each.text, figure_text(each.value, each.unit) + mark_of(each.kind),
               each.corrected ? figure_text(*each.corrected, each.unit) : "-", each.changed});
  }
  for (std::string& line : table.lines()) lines.push_back(std::move(line));
  append_cards(lines, catalogue);
  return lines;
}

std::string article_json(const Catalogue& catalogue) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ArticleFigure& each : article_figures(article_inputs(catalogue))) {
    nlohmann::ordered_json figure = {{"id", each.id}, {"what", each.text}, {"unit", each.unit}};
    figure["article"] = each.value;
    figure["kind"] = kind_text(each.kind);
    if (each.corrected) figure["corrected"] = *each.corrected;
    if (!each.changed.empty()) figure["changed"] = each.changed;
    json.push_back(std::move(figure));
  }
  return json.dump();
}

}  // namespace hearth::cli
