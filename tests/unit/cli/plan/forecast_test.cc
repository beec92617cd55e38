#include "cli/plan/forecast.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "model/synthetic.h"

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
  const auto sets = parse_gpus("8xRTX4090");
  ASSERT_TRUE(sets.ok() && sets->size() == 1);
  EXPECT_EQ(sets->front().count, 8U);
  EXPECT_EQ(sets->front().card.key, "rtx4090");
  ASSERT_TRUE(parse_gpus("h100").ok());
  EXPECT_EQ(parse_gpus("h100")->front().count, 1U);
  const auto mixed = parse_gpus("2xh100,a100");
  ASSERT_TRUE(mixed.ok() && mixed->size() == 2);
  EXPECT_EQ(mixed->at(0).count, 2U);
  EXPECT_EQ(mixed->at(1).card.key, "a100");
}

TEST(Forecast, RefusesHostileGpusByTheLimit) {
  EXPECT_EQ(refusal_of(parse_gpus("0xh100")), "the number of GPUs must be from 1 to 1024, got '0'");
  EXPECT_EQ(refusal_of(parse_gpus("1025xh100")),
            "the number of GPUs must be from 1 to 1024, got '1025'");
  EXPECT_EQ(refusal_of(parse_gpus("99999999999999999999xh100")),
            "the number of GPUs must be from 1 to 1024, got '99999999999999999999'");
  EXPECT_EQ(refusal_of(parse_gpus("1024xh100,1xa100")),
            "the number of GPUs must be from 1 to 1024, got '1024xh100,1xa100'");
  EXPECT_EQ(refusal_of(parse_gpus("1xh100,2xH100")),
            "names h100 twice, got '1xh100,2xH100'; give its whole number once");
  EXPECT_NE(refusal_of(parse_gpus("8xrtx4091")).find("did you mean 'rtx409"), std::string::npos);
  for (const char* wrong : {"", "8", "8x", "x", "-1xh100", "8 xh100", "\x1b[31m", ",", "h100,",
                            ",h100", "h100,,a100"}) {
    const std::string message = refusal_of(parse_gpus(wrong));
    EXPECT_FALSE(message.empty()) << wrong;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  EXPECT_LT(refusal_of(parse_gpus(std::string(1'000'000, '9'))).size(), 300U);
  EXPECT_LT(refusal_of(parse_gpus("h100," + std::string(1'000'000, ','))).size(), 300U);
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
  EXPECT_EQ(refusal_of(check_used(options)),
            "--batch needs --gpus: add --gpus COUNTxGPU, or omit it");
  options.gpus = "h100";
  EXPECT_TRUE(check_used(options).ok());
  options.users = 2;
  EXPECT_EQ(refusal_of(check_used(options)), "--users needs --for: add --for SPEED, or omit it");
  ForecastOptions quant;
  quant.quant = "q8_0";
  EXPECT_EQ(refusal_of(check_used(quant)),
            "--quant needs --gpus or --for: add one of them, or omit it");
  ForecastOptions crowded;
  crowded.per_machine = 1;
  EXPECT_EQ(refusal_of(check_used(crowded)),
            "--per-machine needs --gpus: add --gpus COUNTxGPU, or omit it");
  crowded.gpus = "2xrtx4090";
  EXPECT_TRUE(check_used(crowded).ok());
  crowded.link = "card";
  EXPECT_EQ(refusal_of(check_used(crowded)),
            "--per-machine: --link card puts all GPUs into one machine; leave one of the two out");
  ForecastOptions optimised;
  optimised.objective = placement::Objective::kLatency;
  EXPECT_TRUE(check_used(optimised).ok()) << "of nodes";
  optimised.gpus = "2xrtx4090";
  EXPECT_EQ(refusal_of(check_used(optimised)),
            "--optimise needs --gpus of several kinds, or nodes; equal GPUs show every layout");
  optimised.gpus = "2xrtx4090,rtx3090";
  EXPECT_TRUE(check_used(optimised).ok());
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
        "Hearth runs tensor parallel only on processors", "real kernels reach a part",
        "for weights", "USD/h", "kW"}) {
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

// 2,400 tokens/s at 5 tokens/s a user over 1 Gbit/s with FP16 weights, with eight steps in flight.
// Here the users of nine are divided between more, so each gets a little more.
TEST(Forecast, PredictsTheArticlesPipelineOverASlowLink) {
  const auto forecast = make_forecast("llama2-70b", options_of("8xrtx4090", "1G", "f16", 57), 1);
  ASSERT_TRUE(forecast.ok());
  const placement::Estimate& pipeline = forecast->estimates.front();
  EXPECT_EQ(pipeline.layout, (placement::Layout{8, 1, 1}));
  EXPECT_GT(pipeline.total, 2400.0);
  EXPECT_NEAR(pipeline.per_user, 5.33, 0.02);
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
  const auto forecast =
      make_forecast("llama3-8b", options_of("1xrtx3060", "10G", "q4_k_m", 1), 131'072);
  EXPECT_NE(joined(forecast_lines(*forecast)).find("no room for the context of one user"),
            std::string::npos);
}

// In desktops and rigs, not in servers for 27,200 USD.
TEST(Forecast, AFewGpusStandInAMachineOfTheirSize) {
  const auto usd = [](const std::string& gpus, std::uint32_t per_machine) {
    ForecastOptions options = options_of(gpus, "10G", "", 1);
    options.per_machine = per_machine;
    const auto forecast = make_forecast("llama3-8b", options, 0);
    EXPECT_TRUE(forecast.ok()) << refusal_of(forecast);
    return forecast.ok() ? forecast->purchase.usd - 1599.0 * forecast->setup.cards : 0.0;
  };
  EXPECT_EQ(usd("2xrtx4090", 2), 1300.0);
  EXPECT_EQ(usd("4xrtx4090", 4), 1714.0);
  EXPECT_EQ(usd("3xrtx4090", 3), 1714.0);
  EXPECT_NEAR(usd("4xrtx4090", 2), 2 * 1300.0 + 2 * 104.9, 1e-6);
  EXPECT_EQ(usd("5xrtx4090", 5), 27'200.0);
}

TEST(Forecast, GpusForServersStandInOneByDefault) {
  const auto forecast = make_forecast("llama3-8b", options_of("8xh100", "10G", "", 1), 0);
  ASSERT_TRUE(forecast.ok());
  EXPECT_EQ(forecast->purchase.machines, 1U);
  EXPECT_EQ(forecast->host.key, "server");
  EXPECT_EQ(nlohmann::json::parse(forecast_json(*forecast))["setup"]["gpus_per_machine"], 8);
  const auto desktops = make_forecast("llama3-8b", options_of("2xrtx4090", "10G", "", 1), 0);
  ASSERT_TRUE(desktops.ok());
  EXPECT_EQ(desktops->purchase.machines, 2U);
}

TEST(Forecast, WeightsOf32BitsAreSlowerThanThoseOf16) {
  const auto total = [](const std::string& quant) {
    const auto forecast = make_forecast("llama32-3b", options_of("h100", "10G", quant, 512), 16);
    EXPECT_TRUE(forecast.ok() && forecast->estimates.front().users == 512U);
    return forecast.ok() ? forecast->estimates.front().total : 0.0;
  };
  // 67 TFLOPS in place of 989.5, for steps that are bound by computing.
  EXPECT_LT(total("f32"), total("f16") / 8.0);
  const auto f16 = make_forecast("llama32-3b", options_of("h100", "10G", "f16", 1), 0);
  EXPECT_NE(joined(forecast_lines(*f16)).find("weights of 16 bits at the FP32 rate"),
            std::string::npos);
}

TEST(Forecast, WhatGpusRefuseDoesNotFit) {
  struct Case {
    const char* model;
    const char* quant;
    const char* reason;
  };
  const Case cases[] = {
      {"qwen3-30b-a3b", "", "Hearth computes qwen3moe models with experts on processors only"},
      {"mixtral-8x7b", "", "Hearth computes llama models with experts on processors only"},
      {"phi-4", "", "Hearth computes phi3 models with fused matrices on processors only"},
      {"llama3-8b", "mxfp4",
       "Hearth computes weights of the type MXFP4 on processors only, not on GPUs"}};
  for (const Case& each : cases) {
    const auto forecast =
        make_forecast(each.model, options_of("8xh100", "10G", each.quant, 1), 4096);
    ASSERT_TRUE(forecast.ok()) << refusal_of(forecast);
    EXPECT_FALSE(forecast->fits()) << each.model;
    EXPECT_NE(joined(forecast_lines(*forecast)).find(each.reason), std::string::npos)
        << joined(forecast_lines(*forecast));
    ForecastOptions options;
    options.speed = "5tok/s";
    options.quant = each.quant;
    const auto purchase = make_purchase(each.model, options, 4096);
    ASSERT_TRUE(purchase.ok()) << refusal_of(purchase);
    EXPECT_FALSE(purchase->plan.cheapest) << each.model;
    EXPECT_NE(joined(purchase_lines(*purchase)).find(each.reason), std::string::npos);
    const auto json = nlohmann::json::parse(purchase_json(*purchase));
    EXPECT_NE(json["reason"].get<std::string>().find(each.reason), std::string::npos);
    EXPECT_EQ(json["reached"], false);
  }
  const auto computed = make_forecast("qwen3-8b", options_of("rtx4090", "10G", "", 1), 4096);
  ASSERT_TRUE(computed.ok());
  EXPECT_TRUE(computed->fits());
}

struct ForecastOfAPulledModel : ::testing::Test {
  ForecastOfAPulledModel() {
    std::filesystem::create_directories(folder);
    setenv("HEARTH_MODELS", folder.c_str(), 1);
  }
  ~ForecastOfAPulledModel() override {
    std::filesystem::remove_all(folder);
    unsetenv("HEARTH_MODELS");
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hearth-forecast-" + std::to_string(getpid()));
};

TEST_F(ForecastOfAPulledModel, ItGoesBeforeAShapeOfItsName) {
  const auto shape = forecast_model("llama3-8b", "");
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(shape->shape.layers, 32U);
  model::SyntheticOptions options;
  options.layers = 4;
  ASSERT_TRUE(model::write_synthetic_model((folder / "llama3-8b.gguf").string(), options).ok());
  const auto pulled = forecast_model("llama3-8b", "");
  ASSERT_TRUE(pulled.ok()) << pulled.error().message;
  EXPECT_EQ(pulled->shape.layers, 4U);
  EXPECT_EQ(pulled->format, "llama3-8b.gguf");
  EXPECT_EQ(pulled->refused, "");
  const auto wanted = forecast_model("llama3-8b", "q8_0");
  ASSERT_TRUE(wanted.ok()) << wanted.error().message;
  EXPECT_EQ(wanted->shape.layers, 32U) << "a format is one of the shape";
}

TEST_F(ForecastOfAPulledModel, ItsTypesAreCheckedToo) {
  model::SyntheticOptions options;
  options.feed_forward_type = model::TensorType::kMXFP4;
  ASSERT_TRUE(model::write_synthetic_model((folder / "m.gguf").string(), options).ok());
  const auto pulled = forecast_model("m", "");
  ASSERT_TRUE(pulled.ok()) << pulled.error().message;
  EXPECT_NE(pulled->refused.find("weights of the type MXFP4"), std::string::npos);
}

TEST(Forecast, AnUnknownPowerIsADashAndInNoCost) {
  const auto forecast = make_forecast("llama3-8b", options_of("2xm2ultra", "10G", "", 1), 0);
  ASSERT_TRUE(forecast.ok());
  const std::string text = joined(forecast_lines(*forecast));
  EXPECT_NE(text.find("power -: the catalogue lacks it for a part, and no cost has electricity"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("0.00 USD/h"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(forecast_json(*forecast));
  EXPECT_TRUE(json["price"]["watts"].is_null());
  EXPECT_TRUE(json["price"]["usd_per_hour"].is_null());
  EXPECT_FALSE(forecast->fits()) << "Hearth does not compute on it";
}

TEST(Forecast, SaysWhichFiguresAreNotConfirmed) {
  const auto forecast = make_forecast("llama3-8b", options_of("rtx4090", "10G", "", 1), 0);
  ASSERT_TRUE(forecast.ok());
  EXPECT_NE(joined(forecast_lines(*forecast))
                .find("Figures of NVIDIA GeForce RTX 4090 not confirmed by a document or table: "
                      "usd."),
            std::string::npos);
}

TEST(Forecast, PlacesGpusOfSeveralKindsUnevenly) {
  const auto forecast =
      make_forecast("llama3-70b", options_of("2xrtx4090,1xrtx3060", "10G", "q4_k_m", 2), 4096);
  ASSERT_TRUE(forecast.ok()) << refusal_of(forecast);
  EXPECT_TRUE(forecast->is_mixed());
  EXPECT_TRUE(forecast->runs());
  EXPECT_EQ(forecast->purchase.machines, 3U);
  const auto texts = mixed_texts(*forecast, placement::Objective::kThroughput);
  ASSERT_TRUE(texts.ok()) << texts.error().message;
  const auto json = nlohmann::json::parse(texts->json);
  EXPECT_GT(json["usd_per_million_tokens"], 0.0);
  EXPECT_EQ(json["setup"]["gpus"][1]["gpu"], "rtx3060");
  std::map<std::string, int> layers;
  for (const auto& stage : json["plan"]["pipelines"][0]["stages"]) {
    layers[stage["node"]] = stage["layers"][1].get<int>() - stage["layers"][0].get<int>();
  }
  EXPECT_EQ(layers["rtx4090-1"] + layers["rtx4090-2"] + layers["rtx3060-1"], 80);
  EXPECT_GT(layers["rtx4090-1"], layers["rtx3060-1"]);
  EXPECT_GT(layers["rtx3060-1"], 0);
  const std::string text = joined(texts->lines);
  for (const char* part :
       {"2 x NVIDIA GeForce RTX 4090, 1 x NVIDIA GeForce RTX 3060 12 GB in 3 machines",
        "step batches of 2 rows", "rtx3060-1", "USD for a million tokens", "real kernels"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Forecast, GpusOfSeveralKindsServeNoMoreUsersThanTheirKvHolds) {
  const auto of = [](std::uint32_t batch) {
    const auto forecast = make_forecast(
        "llama3-70b", options_of("2xrtx4090,1xrtx3060", "10G", "q4_k_m", batch), 4096);
    EXPECT_TRUE(forecast.ok());
    const auto texts = mixed_texts(*forecast, placement::Objective::kThroughput);
    EXPECT_TRUE(texts.ok());
    return nlohmann::json::parse(texts.ok() ? texts->json : "{}");
  };
  const auto crowded = of(512);
  const int rows = crowded["setup"]["batch"];
  EXPECT_LT(rows, 512);
  const auto& pipeline = crowded["plan"]["pipelines"][0];
  EXPECT_LE(pipeline["streams"].get<double>() * 4096, pipeline["kv_tokens"].get<double>());
  EXPECT_EQ(of(static_cast<std::uint32_t>(rows))["usd_per_million_tokens"],
            crowded["usd_per_million_tokens"]);
}

TEST(Forecast, AWholeMachineHasNoLinkInside) {
  EXPECT_EQ(refusal_of(make_forecast("llama3-8b", options_of("2xdgx-spark", "card", "", 1), 0)),
            "--link card: NVIDIA DGX Spark is a whole machine; pass a rate between machines, for "
            "example --link 10G");
}

TEST(Forecast, GpusOfSeveralKindsMayNotHoldTheModel) {
  const auto forecast =
      make_forecast("llama3-405b", options_of("rtx4090,rtx3060", "10G", "", 1), 4096);
  ASSERT_TRUE(forecast.ok());
  const auto texts = mixed_texts(*forecast, placement::Objective::kAuto);
  ASSERT_FALSE(texts.ok());
  EXPECT_EQ(texts.error().code, ErrorCode::kNoCapacity);
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
}

TEST(Forecast, MoreGpusThanAMachineTakesAreRefusedByTheirFlag) {
  EXPECT_EQ(refusal_of(make_forecast("llama2-70b", options_of("64xh100", "card", "", 1), 0)),
            "--link card puts all 64 GPUs into one machine; a machine of the catalogue has at most "
            "8: pass a rate between machines, for example --link 10G");
  ForecastOptions crowded = options_of("64xh100", "10G", "", 1);
  crowded.per_machine = 9;
  EXPECT_EQ(refusal_of(make_forecast("llama2-70b", crowded, 0)),
            "--per-machine is 9; a machine of the catalogue has at most 8 GPUs");
}

TEST(Forecast, WarnsOfGpusAndModelsThatHearthDoesNotRun) {
  const auto forecast = make_forecast("gpt-oss-120b", options_of("strix-halo", "10G", "", 1), 0);
  ASSERT_TRUE(forecast.ok());
  const std::string text = joined(forecast_lines(*forecast));
  EXPECT_NE(text.find("does not compute on AMD"), std::string::npos);
  EXPECT_NE(text.find("gpt-oss models with experts on processors only"), std::string::npos);
  EXPECT_FALSE(forecast->fits());
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

TEST(Forecast, WithoutASetThereIsNoBottleneck) {
  ForecastOptions options;
  options.speed = "1000000";
  const auto purchase = make_purchase("llama2-70b", options, 0);
  ASSERT_TRUE(purchase.ok());
  const auto json = nlohmann::json::parse(purchase_json(*purchase));
  for (const char* key : {"offer", "bottleneck", "next"}) {
    EXPECT_TRUE(json.contains(key) && json[key].is_null()) << key;
  }
  EXPECT_EQ(json["reason"], "no set within the budget serves one user at this speed");
}

}  // namespace
}  // namespace hearth::cli
