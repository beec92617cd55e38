#include "cli/plan/catalogue/catalogue.h"

#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "placement/estimate/cost.h"
#include "placement/estimate/memory.h"

namespace hearth::cli {
namespace {

constexpr std::string_view kSource =
    "[source.a]\ntitle = \"A, with a comma\"\ndate = \"2026-01\"\nchecked = \"table\"\n"
    "[source.m]\ntitle = \"Memory\"\ndate = \"2026-01\"\nchecked = \"no\"\n";

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

// The ratios that cards of a kind have in NVIDIA's whitepapers: matrix units to ordinary ones.
TEST(Catalogue, RatesOfMatrixUnitsAreMultiplesOfTheFp32Rate) {
  constexpr double kRounding = 0.008;  // of printed rates
  const auto near = [](const placement::Card& card, double rate, double times) {
    EXPECT_NEAR(rate / card.fp32_flops / times, 1.0, kRounding) << card.key;
  };
  std::size_t compared = 0;
  for (const placement::Card& card : catalogue().cards) {
    const bool geforce = card.title.find("GeForce") != std::string::npos;
    const bool workstation = card.key == "a6000" || card.key == "a4000" ||
                             card.key == "rtx6000ada" || card.key == "rtxpro6000" ||
                             card.key == "l4";
    if (!geforce && !workstation) continue;
    near(card, card.fp16_flops, geforce ? 2.0 : 4.0);
    near(card, card.int8_flops, 8.0);
    if (geforce) near(card, card.fp16_short_flops, 4.0);
    ++compared;
  }
  EXPECT_EQ(compared, 18U);
}

// The articles' totals for eight RTX 4090 of 1,600 USD, from which the prices are derived.
TEST(Catalogue, MachinesCostWhatTheArticlesSay) {
  const auto total = [](const char* host, const char* network) {
    placement::CardSet set = {*find_entry(catalogue().cards, "rtx4090", "GPU"), 8};
    set.card.usd = 1600.0;
    return placement::purchase_of({&set, 1}, *find_entry(catalogue().hosts, host, "host"),
                                  *find_entry(catalogue().networks, network, "network"));
  };
  EXPECT_EQ(total("server", "1g").usd, 40'000.0);
  EXPECT_NEAR(total("desktop", "1g").usd, 20'000.0, 50.0);  // with ports
  EXPECT_EQ(total("desktop", "200g").usd, 30'000.0);
  EXPECT_EQ(total("server", "1g").watts, 5'000.0);
  EXPECT_EQ(total("desktop", "1g").watts, 5'000.0);
}

TEST(Catalogue, MachinesOfMoreCardsCostLessThanServers) {
  std::vector<placement::Host> hosts = catalogue().hosts;
  ASSERT_EQ(hosts.size(), 4U);
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    EXPECT_GT(hosts[i].cards, hosts[i - 1].cards) << hosts[i].key;
    EXPECT_GT(hosts[i].usd, hosts[i - 1].usd) << hosts[i].key;
    EXPECT_GT(hosts[i].watts, hosts[i - 1].watts) << hosts[i].key;
  }
  EXPECT_EQ(hosts[1].cards, 2U);
  EXPECT_EQ(hosts[2].cards, 4U);
  EXPECT_LT(hosts[2].usd, hosts[3].usd / 4.0);
}

// Hearth sends over TCP at every rate.
TEST(Catalogue, NetworksHaveTheDelayOfProtocolStacks) {
  for (const placement::Network& network : catalogue().networks) {
    EXPECT_DOUBLE_EQ(network.delay_seconds, 0.5e-3) << network.key;
  }
}

TEST(Catalogue, SaysWhichFiguresNothingConfirms) {
  const std::string text =
      kCard + "watts = [5, \"m\"]\nusd = [5, \"m\"]\nfp32_tflops = [5, \"a\"]\n";
  const std::vector<CatalogueFile> files = {{"s.toml", kSource}, {"x.toml", text}};
  const auto read = read_catalogue(files);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->cards[0].unchecked, (std::vector<std::string>{"usd", "watts"}));
  const auto known = find_entry(catalogue().cards, "rtx4090", "GPU");
  EXPECT_EQ(known->unchecked, std::vector<std::string>{"usd"});
}

TEST(Catalogue, FamiliesAndTypesAreThoseOfTheProgram) {
  for (const placement::Shape& shape : catalogue().shapes) {
    EXPECT_NE(model::find_family(shape.architecture), nullptr) << shape.key;
  }
  for (const placement::Quant& quant : catalogue().quants) {
    bool known = false;
    for (std::uint32_t type = 0; type < model::kTensorTypeNumbers; ++type) {
      const model::TensorTypeInfo* info = model::tensor_type_info(type);
      known = known || (info != nullptr && info->name == quant.type);
    }
    EXPECT_TRUE(known) << quant.key;
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
  EXPECT_EQ(refusal_of("[source.x]\ntitle = \"X\"\ndate = \"2026\"\n"),
            "x.toml: source.x must have a title, a date and checked");
  EXPECT_EQ(refusal_of("[source.x]\ntitle = \"X\"\ndate = \"2026\"\nchecked = \"yes\"\n"),
            "x.toml: source.x: checked must be document, table or no, got 'yes'");
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

TEST(Catalogue, ReadsACardOfAFile) {
  const auto read = read_card_figures(
      "pebble.json", R"({"memory_gb": 8, "memory_gb_per_second": 25.5, "fp16_tflops": 2e-1})");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->title, "GPU of pebble.json");
  EXPECT_DOUBLE_EQ(read->memory_bytes, 8e9);
  EXPECT_DOUBLE_EQ(read->memory_bytes_per_second, 25.5e9);
  EXPECT_DOUBLE_EQ(read->fp16_flops, 2e11);
}

TEST(Catalogue, RefusesACardOfAFileByName) {
  for (const auto& [text, named] : {
           std::pair{"", "JSON object"},
           {"[1]", "JSON object"},
           {R"({"memory_gb": 8})", "memory_gb_per_second"},
           {R"({"memory_gb": 8, "memory_gb_per_second": -1})", "from 0 to"},
           {R"({"memory_gb": "8", "memory_gb_per_second": 1})", "memory_gb must be a number"},
           {R"({"memory_gb": 8, "memory_gb_per_second": 1, "price": 3})", "unknown key 'price'"},
           {R"({"memory_gb": 8, "memory_gb_per_second": 1e300})", "from 0 to"},
       }) {
    const auto read = read_card_figures("pebble.json", text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().message.find(named), std::string::npos) << read.error().message;
    EXPECT_NE(read.error().message.find("pebble.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace hearth::cli
