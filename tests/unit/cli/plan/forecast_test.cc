#include "cli/plan/forecast.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hearth::cli {
namespace {

template <typename Parsed>
std::string refusal_of(const Parsed& parsed) {
  return parsed.ok() ? "" : parsed.error().message;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

ForecastOptions options_of(const std::string& gpus, const std::string& link,
                           const std::string& quant, std::uint32_t batch) {
  ForecastOptions options;
  options.gpus = gpus;
  options.link = link;
  options.quant = quant;
  options.batch = batch;
  return options;
}

TEST(Forecast, ReadsGpus) {
  const auto set = parse_gpus("8xRTX4090");
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->count, 8U);
  EXPECT_EQ(set->key, "rtx4090");
  ASSERT_TRUE(parse_gpus("h100").ok());
  EXPECT_EQ(parse_gpus("h100")->count, 1U);
}

TEST(Forecast, RefusesHostileGpusByTheLimit) {
  EXPECT_EQ(refusal_of(parse_gpus("0xh100")), "the number of GPUs must be from 1 to 1024, got '0'");
  EXPECT_EQ(refusal_of(parse_gpus("1025xh100")),
            "the number of GPUs must be from 1 to 1024, got '1025'");
  EXPECT_EQ(refusal_of(parse_gpus("99999999999999999999xh100")),
            "the number of GPUs must be from 1 to 1024, got '99999999999999999999'");
  EXPECT_NE(refusal_of(parse_gpus("8xrtx4091")).find("did you mean 'rtx409"), std::string::npos);
  EXPECT_NE(refusal_of(parse_gpus("2xh100,2xa100")).find("--nodes"), std::string::npos);
  for (const char* wrong : {"", "8", "8x", "x", "-1xh100", "8 xh100", "\x1b[31m"}) {
    const std::string message = refusal_of(parse_gpus(wrong));
    EXPECT_FALSE(message.empty()) << wrong;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  EXPECT_LT(refusal_of(parse_gpus(std::string(1'000'000, '9'))).size(), 300U);
}

TEST(Forecast, ReadsLinks) {
  const auto known = parse_link("2.5G");
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->key, "2g5");
  EXPECT_TRUE(known->priced);
  const auto other = parse_link("400M");
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->bytes_per_second, 50e6);
  EXPECT_FALSE(other->priced);
  for (const char* wrong : {"", "G", "10", "0G", "-1G", "1e30G", "nanG", "infG", "10GB", "0.5M"}) {
    EXPECT_FALSE(parse_link(wrong).ok()) << wrong;
  }
  EXPECT_EQ(refusal_of(parse_link("1001G")), "must be from 1M to 1000G, got '1001G'");
}

TEST(Forecast, ReadsSpeeds) {
  EXPECT_EQ(*parse_speed("5tok/s"), 5.0);
  EXPECT_EQ(*parse_speed("0.5"), 0.5);
  for (const char* wrong : {"", "tok/s", "0", "-5tok/s", "nan", "inf", "1e9", "5tok/h"}) {
    EXPECT_FALSE(parse_speed(wrong).ok()) << wrong;
  }
}

TEST(Forecast, AnOptionWithoutItsQuestionIsRefused) {
  EXPECT_TRUE(check_used({}).ok());
  ForecastOptions options;
  options.batch = 8;
  EXPECT_EQ(refusal_of(check_used(options)), "--batch needs --gpus");
  options.gpus = "h100";
  EXPECT_TRUE(check_used(options).ok());
  options.users = 2;
  EXPECT_EQ(refusal_of(check_used(options)), "--users needs --for");
  ForecastOptions quant;
  quant.quant = "q8_0";
  EXPECT_EQ(refusal_of(check_used(quant)), "--quant needs --gpus or --for");
}

TEST(Forecast, AnUnknownModelOrFormatNamesTheNearest) {
  EXPECT_NE(refusal_of(forecast_model("llama3-71b", "")).find("did you mean 'llama3-70b'"),
            std::string::npos);
  EXPECT_NE(refusal_of(forecast_model("llama3-70b", "q4_km")).find("did you mean 'q4_k_m'"),
            std::string::npos);
}

TEST(Forecast, ShowsEveryLayoutAndWhatHearthDoesNotRun) {
  const auto forecast =
      make_forecast("llama2-70b", options_of("8xrtx4090", "10G", "q4_k_m", 8), 4096);
  ASSERT_TRUE(forecast.ok()) << forecast.error().message;
  EXPECT_TRUE(forecast->fits());
  const std::string text = joined(forecast_lines(*forecast));
  for (const char* part :
       {"Llama 2 70B, q4_k_m (4.89 bits a weight): 42.2 GB of weights, 80 layers",
        "8 x NVIDIA GeForce RTX 4090 in 8 machines", "pipeline ", "tensor parallel", "hybrid",
        "Hearth does not run tensor parallel yet", "real kernels reach a part", "for weights",
        "USD/h", "kW"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(forecast_json(*forecast));
  bool runs = false;
  for (const auto& layout : json["layouts"]) {
    EXPECT_EQ(layout["layout"]["runs"], layout["layout"]["ranks"] == 1);
    EXPECT_GT(layout["usd_per_million_tokens"], 0.0);
    runs = runs || layout["layout"]["runs"];
  }
  EXPECT_TRUE(runs);
  EXPECT_EQ(json["setup"]["gpu"], "rtx4090");
}

// 2,400 tokens/s at 5 tokens/s a user over 1 Gbit/s with FP16 weights.
TEST(Forecast, PredictsTheArticlesPipelineOverASlowLink) {
  const auto forecast = make_forecast("llama2-70b", options_of("8xrtx4090", "1G", "f16", 57), 1);
  ASSERT_TRUE(forecast.ok());
  const placement::Estimate& pipeline = forecast->estimates.front();
  EXPECT_EQ(pipeline.layout, (placement::Layout{8, 1, 1}));
  EXPECT_GT(pipeline.total, 2400.0);
  EXPECT_NEAR(pipeline.per_user, 5.0, 0.2);
}

TEST(Forecast, WeightsWithoutRoomForOneUsersContextDoNotFit) {
  const auto fits = [](std::uint64_t context) {
    const auto forecast =
        make_forecast("llama3-8b", options_of("1xrtx3060", "10G", "q4_k_m", 1), context);
    EXPECT_TRUE(forecast.ok() && forecast->estimates.front().holds_weights);
    return forecast.ok() && forecast->fits();
  };
  EXPECT_TRUE(fits(4096));
  EXPECT_FALSE(fits(131'072));
}

TEST(Forecast, SaysWhatDoesNotFit) {
  const auto forecast = make_forecast("llama2-70b", options_of("2xrtx4090", "10G", "f16", 1), 0);
  ASSERT_TRUE(forecast.ok());
  EXPECT_FALSE(forecast->fits());
  EXPECT_NE(joined(forecast_lines(*forecast)).find("the weights do not fit"), std::string::npos);
}

TEST(Forecast, RefusesAContextBeyondTheModels) {
  EXPECT_EQ(refusal_of(make_forecast("llama2-70b", options_of("h100", "10G", "", 1), 4097)),
            "--context is 4097; the limit is 4096, the context of Llama 2 70B");
  ForecastOptions crowded = options_of("64xh100", "card", "", 1);
  EXPECT_NE(refusal_of(make_forecast("llama2-70b", crowded, 0)).find("at most 8 GPUs"),
            std::string::npos);
}

TEST(Forecast, WarnsOfGpusAndModelsThatHearthDoesNotRun) {
  const auto forecast = make_forecast("gpt-oss-120b", options_of("strix-halo", "10G", "", 1), 0);
  ASSERT_TRUE(forecast.ok());
  const std::string text = joined(forecast_lines(*forecast));
  EXPECT_NE(text.find("does not compute on AMD"), std::string::npos);
  EXPECT_NE(text.find("mixture of experts on processors only"), std::string::npos);
}

TEST(Forecast, SearchesTheCheapestSetAndTheNextDollar) {
  ForecastOptions options;
  options.speed = "5tok/s";
  options.users = 60;
  options.budget_usd = 20'000;
  const auto purchase = make_purchase("llama2-70b", options, 2048);
  ASSERT_TRUE(purchase.ok()) << purchase.error().message;
  const placement::PurchasePlan& plan = purchase->plan;
  ASSERT_TRUE(plan.cheapest);
  EXPECT_GE(plan.cheapest->users_most, 60U);
  EXPECT_LE(plan.cheapest->purchase.usd, 20'000.0);
  EXPECT_TRUE(plan.cheapest->setup.card.runs);
  const std::string text = joined(purchase_lines(*purchase));
  for (const char* part : {"goal: 60 users at 5", "cheapest: ", "bottleneck: ", "next: "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(purchase_json(*purchase));
  EXPECT_EQ(json["reached"], true);
  EXPECT_GT(json["next"]["usd"], 0.0);
}

TEST(Forecast, SaysThatNoSetReachesTheGoal) {
  ForecastOptions options;
  options.speed = "5";
  options.users = 1000;
  options.budget_usd = 4000;
  const auto purchase = make_purchase("llama2-70b", options, 0);
  ASSERT_TRUE(purchase.ok());
  EXPECT_FALSE(purchase->plan.cheapest);
  EXPECT_NE(joined(purchase_lines(*purchase)).find("no set within the budget"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(purchase_json(*purchase))["reached"], false);
}

}  // namespace
}  // namespace hearth::cli
