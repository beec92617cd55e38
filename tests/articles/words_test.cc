#include "tests/articles/words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace hearth::cli {
namespace {

using placement::ArticleFigure;

// What the articles print, with the unit of the last printed digit. Some figures are cut off there
// and not rounded.
enum class Digits { kRounded, kCut };
struct Printed {
  const char* id;
  double value;
  double last;
  Digits digits = Digits::kRounded;
};

const Printed kPrinted[] = {
    {"training.weights", 140, 10},
    {"training.gradients", 140, 10},
    {"training.optimizer", 840, 10},
    {"training.activations", 730, 10},
    {"training.total", 1850, 10},
    {"training.cards_80", 24, 1},
    {"training.cards_24", 78, 1},
    {"training.small", 3.42, 0.01},
    {"memory.kv_8", 80, 1},
    {"memory.kv_8_grouped", 10, 1},
    {"memory.kv_4", 40, 1},
    {"memory.inference", 180, 10},
    {"memory.cards_24", 8, 1},
    {"memory.cards_80", 3, 1},
    {"memory.int4", 33.6, 0.1, Digits::kCut},
    {"memory.int4_runner", 40, 1, Digits::kCut},
    {"memory.int4_engine", 42, 1},
    {"pipeline.stage", 17.5, 0.1},
    {"pipeline.token", 140, 1},
    {"pipeline.rate", 7, 1},
    {"pipeline.balance", 330, 1},
    {"pipeline.stacks_all", 4, 1},
    {"pipeline.bytes_8", 128, 1},
    {"pipeline.time_8", 4, 1},
    {"pipeline.bytes_330", 5.28, 0.01},
    {"pipeline.pcie", 0.16, 0.01, Digits::kCut},
    {"pipeline.1g", 41, 1},
    {"pipeline.10g", 5, 1},
    {"slow.left", 60, 1},
    {"slow.hop", 7.5, 0.1},
    {"slow.bytes", 960, 1},
    {"slow.batch", 60, 1},
    {"slow.total", 2400, 10},
    {"fast.transfer", 40, 10},
    {"fast.rate", 5, 1, Digits::kCut},
    {"tensor.transfers", 160, 1},
    {"tensor.small", 4.8, 0.1},
    {"tensor.small_token", 22.3, 0.1},
    {"tensor.small_rate", 45, 1},
    {"tensor.pcie_each", 0.17, 0.01},
    {"tensor.pcie_all", 27, 1},
    {"tensor.pcie_step", 44.5, 0.1},
    {"tensor.pcie_rate", 22, 1},
    {"tensor.roce_each", 0.22, 0.01},
    {"tensor.roce_all", 35, 1},
    {"tensor.roce_step", 52.5, 0.1},
    {"tensor.roce_rate", 19, 1},
    {"tensor.h100_batch", 590, 10},
    {"tensor.h100_all", 3.2, 0.1},
    {"tensor.h100_read", 5.2, 0.1},
    {"tensor.h100_step", 8.4, 0.1},
    {"tensor.h100_rate", 119, 1},
    {"tensor.limit_4090", 2.4, 0.1},
    {"tensor.limit_h100", 5.5, 0.1, Digits::kCut},
    {"cost.server_hour", 1.52, 0.01},
    {"cost.power_hour", 0.5, 0.1},
    {"cost.rate", 12'200, 100},
    {"cost.tokens_hour", 44, 1},
    {"cost.server_tokens", 22, 1},
    {"cost.home_hour", 0.76, 0.01},
    {"cost.home_all", 1.26, 0.01},
    {"cost.home_tokens", 35, 1},
    {"serving.two", 30, 1},
    {"serving.no_batching", 30, 1},
    {"serving.more_kv", 25, 1, Digits::kCut},
};

std::map<std::string, ArticleFigure> figures() {
  std::map<std::string, ArticleFigure> found;
  for (ArticleFigure& each : article_figures(article_inputs(catalogue()))) {
    std::string id = each.id;
    const bool is_new = found.emplace(std::move(id), std::move(each)).second;
    EXPECT_TRUE(is_new);
  }
  return found;
}

TEST(ArticleWords, EveryFigureIsReproducedWithinItsPrintedRounding) {
  const auto found = figures();
  std::size_t compared = 0;
  for (const Printed& printed : kPrinted) {
    const auto figure = found.find(printed.id);
    ASSERT_NE(figure, found.end()) << printed.id;
    const double beyond = (figure->second.value - printed.value) / printed.last;
    constexpr double kBinary = 1e-6;  // of decimal fractions
    if (printed.digits == Digits::kRounded) {
      EXPECT_LE(std::abs(beyond), 0.5 + kBinary) << printed.id << ": " << figure->second.value;
    } else {
      EXPECT_GE(beyond, -kBinary) << printed.id << ": " << figure->second.value;
      EXPECT_LT(beyond, 1.0) << printed.id << ": " << figure->second.value;
    }
    ++compared;
  }
  // The share of compute is printed as "under 20 %"; the time of a token at 10 Gbit/s is not
  // printed.
  EXPECT_LT(found.at("slow.share").value, 20.0);
  std::size_t others = 2;
  for (const auto& [id, figure] : found) {
    if (figure.kind != ArticleFigure::Kind::kComputed) ++others;
  }
  // And serving.batching: see below.
  EXPECT_EQ(compared + others + 1, found.size());
}

// These are inputs, not results: the articles state them.
TEST(ArticleWords, WhatIsGivenOrFittedIsMarked) {
  const auto found = figures();
  for (const char* id : {"pipeline.stacks", "cost.server", "cost.home", "cost.roce"}) {
    EXPECT_EQ(found.at(id).kind, ArticleFigure::Kind::kGiven) << id;
  }
  const ArticleFigure& one = found.at("serving.one");
  EXPECT_EQ(one.kind, ArticleFigure::Kind::kFitted);
  EXPECT_DOUBLE_EQ(one.value, 15.0);
  EXPECT_NE(one.changed.find("61 % of it, which is fitted"), std::string::npos) << one.changed;
}

// The formula leaves out reading KV and the time between steps. At the article's 300 tokens/s a
// step of 32 rows takes 106.7 ms; reading weights and multiplying take 93.8 ms of them.
TEST(ArticleWords, ContinuousBatchingIsBoundedFromAbove) {
  const double most = figures().at("serving.batching").value;
  const double unexplained = 32.0 / 300.0 - 32.0 / most;
  EXPECT_GT(unexplained, 0.0);
  EXPECT_NEAR(unexplained, 12.9e-3, 0.1e-3);
}

TEST(ArticleWords, MoreKvIsWorthLessOnTheTrueCards) {
  // 90 % of 2 x 24 GiB less weights of 41.24 GB and runtimes of 1 GB.
  EXPECT_NEAR(figures().at("serving.more_kv").corrected.value_or(0.0), 12.1, 0.1);
}

TEST(ArticleWords, CorrectionsAreAsTheReferenceStatesThem) {
  const auto found = figures();
  const auto corrected = [&](const char* id) { return found.at(id).corrected.value_or(0.0); };
  EXPECT_NEAR(corrected("memory.kv_8"), 10.0, 0.01);                     // grouped KV heads
  EXPECT_NEAR(corrected("memory.kv_8_grouped") / 10.0, 0.5, 0.05);       // 8-bit KV
  EXPECT_NEAR(corrected("pipeline.balance"), 165.2e12 / 1008e9, 0.01);   // FP32 accumulate
  EXPECT_NEAR(corrected("tensor.h100_batch"), 989.5e12 / 3350e9, 0.01);  // dense
  for (const auto& [id, figure] : found) {
    if (figure.corrected) {
      EXPECT_FALSE(figure.changed.empty()) << id;
    }
  }
}

TEST(ArticleWords, TheCardsAreAsPrinted) {
  struct Row {
    const char* key;
    double fp16, fp32, memory, bandwidth, link;
  };
  const Row rows[] = {{"rtx4090", 165, 83, 24, 1008, 64},  {"a100", 312, 19.5, 80, 2039, 900},
                      {"h100", 1979, 67, 80, 3350, 900},   {"a6000", 77.4, 38.7, 48, 768, 0},
                      {"a4000", 19.17, 19.17, 16, 448, 0}, {"v100", 125, 15.7, 32, 900, 0},
                      {"p6000", 12, 12, 24, 432, 0},       {"rtx4000", 14.2, 7.1, 8, 416, 0},
                      {"l40s", 731, 91.6, 48, 864, 0},     {"l4", 242, 30, 24, 300, 0}};
  const std::vector<placement::Card> printed = printed_cards();
  ASSERT_EQ(printed.size(), std::size(rows));
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const placement::Card& card = printed[i];
    EXPECT_EQ(card.key, rows[i].key);
    EXPECT_DOUBLE_EQ(card.fp16_flops / 1e12, rows[i].fp16);
    EXPECT_DOUBLE_EQ(card.fp32_flops / 1e12, rows[i].fp32);
    EXPECT_DOUBLE_EQ(card.memory_bytes / 1e9, rows[i].memory);
    EXPECT_DOUBLE_EQ(card.memory_bytes_per_second / 1e9, rows[i].bandwidth);
    EXPECT_DOUBLE_EQ(card.link_bytes_per_second * 2 / 1e9, rows[i].link);
  }
}

TEST(ArticleWords, ShowsBothFiguresAndWhatChanged) {
  std::string text;
  for (const std::string& line : article_lines(catalogue())) text += line + "\n";
  for (const char* part : {"slow.total", "2400 tokens/s", "40000 USD (given)",
                           "15 tokens/s (fitted)", "GB for 2^30 bytes", "8 KV heads in place of 64",
                           "FP32 accumulate", "1979 (989.5)", "900", "the article prints 1 GB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(article_json(catalogue()));
  EXPECT_EQ(json.size(), figures().size());
  EXPECT_EQ(json[0]["kind"], "computed");
}

TEST(Article, TrainsWithSixteenBytesAParameter) {
  const placement::Training training = placement::training_bytes(10.0, 7.0);
  EXPECT_EQ(training.total(), 10.0 * 16.0 + 7.0);
  EXPECT_EQ(training.optimizer, 120.0);
  EXPECT_EQ(placement::activation_bytes(2.0, 3.0, 5.0, 7.0, 1.0), 2.0 * 3.0 * 5.0 * 7.0 * 34.0);
  EXPECT_EQ(placement::activation_bytes(2.0, 3.0, 5.0, 7.0, 8.0), 2.0 * 3.0 * 5.0 * 7.0 * 13.0);
}

TEST(Article, TakesWholeCards) {
  EXPECT_EQ(placement::cards_for(160.0, 80.0), 2.0);
  EXPECT_EQ(placement::cards_for(160.5, 80.0), 3.0);
}

}  // namespace
}  // namespace hearth::cli
