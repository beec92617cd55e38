#include "cli/plan/catalogue/catalogue.h"

#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "placement/estimate/memory.h"

namespace hearth::cli {
namespace {

constexpr std::string_view kSource =
    "[source.a]\ntitle = \"A, with a comma\"\ndate = \"2026-01\"\n";

std::string refusal_of(const std::string& text) {
  const std::vector<CatalogueFile> files = {{"s.toml", kSource}, {"x.toml", text}};
  const auto read = read_catalogue(files);
  return read.ok() ? "" : read.error().message;
}

const std::string kCard =
    "[card.c]\ntitle = [\"C\", \"a\"]\nmemory_gib = [1, \"a\"]\n"
    "memory_gb_per_second = [100, \"a\"]\n";

TEST(Catalogue, TheProgramsOwnIsWellFormed) {
  const auto read = read_catalogue(embedded_catalogue());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_FALSE(read->electricity.empty());
  for (const auto& [key, source] : read->sources) EXPECT_FALSE(source.date.empty()) << key;
  for (const placement::Card& card : read->cards) {
    EXPECT_GT(card.fp16_flops, 0.0) << card.key;
    EXPECT_GT(card.link_bytes_per_second, 0.0) << card.key;
    if (card.fp16_short_flops > 0.0) {
      EXPECT_GE(card.fp16_short_flops, card.fp16_flops);
    }
  }
}

TEST(Catalogue, EveryShapeHasThePublishedNumberOfParameters) {
  for (const placement::Shape& shape : catalogue().shapes) {
    EXPECT_NEAR(parameters(shape) / shape.published_parameters, 1.0, 0.002) << shape.key;
  }
}

TEST(Catalogue, KvIsAsTheKernelsKeepIt) {
  for (const placement::Shape& shape : catalogue().shapes) {
    const kernels::KvLayout layout = {shape.kv_heads, shape.head_dim};
    EXPECT_EQ(placement::kv_bytes_int8(shape) * kernels::kPageTokens,
              static_cast<double>(layout.page_bytes()))
        << shape.key;
  }
}

TEST(Catalogue, SparseRatesAreHalvedAndLinksOfBothDirectionsToo) {
  const std::string text = kCard +
                           "fp16_sparse_tflops = [10, \"a\"]\n"
                           "link_both_gb_per_second = [64, \"a\"]\nruns = [1, \"a\"]\n";
  const std::vector<CatalogueFile> files = {{"s.toml", kSource}, {"x.toml", text}};
  const auto read = read_catalogue(files);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->cards[0].fp16_flops, 5e12);
  EXPECT_EQ(read->cards[0].link_bytes_per_second, 32e9);
  EXPECT_TRUE(read->cards[0].runs);
  EXPECT_EQ(read->sources.at("a").title, "A, with a comma");
}

TEST(Catalogue, RefusesByTableAndKey) {
  EXPECT_EQ(refusal_of(kCard), "");
  EXPECT_EQ(refusal_of(kCard + "colour = [1, \"a\"]\n"), "x.toml: card.c: unknown key 'colour'");
  EXPECT_EQ(refusal_of(kCard + "usd = [1, \"b\"]\n"),
            "x.toml: card.c: unknown source 'b'; add a table [source.b]");
  EXPECT_EQ(refusal_of(kCard + "usd = 1\n"), "x.toml: card.c: usd must be [figure, source]");
  EXPECT_EQ(refusal_of(kCard + "runs = [2, \"a\"]\n"),
            "x.toml: card.c: runs must be 0 or 1, got '2'");
  for (const char* wrong : {"-1", "x", "1e99", "nan", "inf", "1x"}) {
    EXPECT_EQ(refusal_of(kCard + "usd = [" + wrong + ", \"a\"]\n"),
              std::string("x.toml: card.c: usd must be a number from 0 to 1000000000, got '") +
                  wrong + "'");
  }
  EXPECT_EQ(refusal_of(kCard + "usd = [1, \"a\"]\nwatts = [1, \"a\"]\nusd = [2, \"a\"]\n"),
            "x.toml: card.c: usd is there twice");
  EXPECT_EQ(refusal_of(kCard + "[host.h]\ncards = [1, \"a\"]\n" + kCard),
            "x.toml: card.c is there twice");
  EXPECT_EQ(refusal_of("[animal.cat]\nlegs = [4, \"a\"]\n"),
            "x.toml: animal.cat: unknown kind of table");
  EXPECT_EQ(refusal_of("usd = [1, \"a\"]\n"), "x.toml: 'usd' must be in a table [kind.key]");
  EXPECT_EQ(refusal_of("[host.h]\ncards = [0, \"a\"]\n"),
            "x.toml: host.h: cards must be at least 1");
  EXPECT_EQ(refusal_of("[host.h]\ncards = [1.5, \"a\"]\n"),
            "x.toml: host.h: cards must be a whole number, got 1.5");
  EXPECT_NE(refusal_of("[model.m]\ntitle = [\"M\", \"a\"]\nlayers = [2, \"a\"]\n"), "");
}

TEST(Catalogue, AnUnknownEntryNamesTheNearest) {
  const auto near = find_entry(catalogue().cards, "RTX4900", "GPU");
  ASSERT_FALSE(near.ok());
  EXPECT_NE(near.error().message.find("GPU 'rtx4900' is not in the catalogue; did you mean 'rtx4"),
            std::string::npos)
      << near.error().message;
  const auto same = find_entry(catalogue().cards, "RTX4090", "GPU");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->key, "rtx4090");
  EXPECT_FALSE(find_entry(catalogue().cards, std::string(100'000, 'x') + "\x1b", "GPU").ok());
}

}  // namespace
}  // namespace hearth::cli
