// hearth plan --gpus and --for: predicts the speed and cost of GPUs that the user does not have
// yet, from the figures of cli/plan/catalogue and the formulas of placement/estimate. Contacts no
// server. GPUs of several kinds are nodes for the search of placement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/plan/catalogue/catalogue.h"
#include "placement/estimate/cost.h"
#include "placement/estimate/purchase.h"
#include "placement/estimate/speed.h"
#include "placement/problem.h"

namespace hearth::cli {

struct ForecastOptions {
  std::string gpus;  // "8xrtx4090", "2xrtx4090,1xrtx3090"
  std::string link = "10G";
  std::string quant;  // of a shape of the catalogue; empty: kDefaultQuant
  std::uint32_t batch = 1;
  // Without it: as many as a machine has that takes the GPU in no desktop, else 1.
  std::optional<std::uint32_t> per_machine;
  std::optional<placement::Objective> objective;  // of GPUs of several kinds; else auto
  std::string speed;                              // "5tok/s", of each user
  std::uint64_t users = 1;
  double budget_usd = 0.0;   // 0: none
  double usd_per_kwh = 0.0;  // 0: that of the catalogue for the U.S.
};
// Refuses an option that would have no effect, because the option that it belongs to is absent.
Status check_used(const ForecastOptions& options);

// "8xrtx4090", the name alone for one, several kinds with commas. kInvalidInput names the form and
// the limit.
Result<std::vector<placement::CardSet>> parse_gpus(const std::string& text);
// "10G", "2.5G", "100M" (bits a second). A rate of the catalogue has its own delay and price. Any
// other rate has the delay of the usual network, and no price. "card": the GPUs' own links, in one
// machine.
Result<placement::Network> parse_link(const std::string& text);
inline constexpr const char* kCardLink = "card";
// "5tok/s" or "5".
Result<double> parse_speed(const std::string& text);

// A model by its shape: of the catalogue, or read from a file.
struct ForecastModel {
  placement::Shape shape;
  double bits = 0.0;    // of a weight
  std::string format;   // "q4_k_m", or of a file its name
  std::string refused;  // why Hearth's GPUs do not compute it; empty: they do
};
// A pulled model goes before a shape of the same name, unless a format is given.
Result<ForecastModel> forecast_model(const std::string& name, const std::string& quant);

struct Forecast {
  ForecastModel model;
  std::vector<placement::CardSet> sets;
  placement::EstimateInput setup;  // with the card of the first set
  placement::Host host;
  placement::Purchase purchase;
  double usd_per_kwh = 0.0;
  std::vector<placement::Estimate> estimates;  // of equal GPUs
  bool is_mixed() const { return sets.size() > 1; }
  // Hearth computes the model on these GPUs.
  bool runs() const;
  // Of equal GPUs: Hearth computes the model on them, and the weights and the KV of one user fit a
  // layout that it runs.
  bool fits() const;
};
// `context`: 0: 4,096 positions, or the model's if it has fewer.
Result<Forecast> make_forecast(const std::string& model, const ForecastOptions& options,
                               std::uint64_t context);
std::vector<std::string> forecast_lines(const Forecast& forecast);
std::string forecast_json(const Forecast& forecast);
// Of GPUs of several kinds: with the plan of placement, in which each GPU is a node. kNoCapacity
// says what they lack.
struct MixedTexts {
  std::vector<std::string> lines;
  std::string json;
};
Result<MixedTexts> mixed_texts(const Forecast& forecast, placement::Objective objective);

struct PurchaseForecast {
  ForecastModel model;
  placement::Goal goal;
  std::uint32_t context = 0;
  double usd_per_kwh = 0.0;
  placement::PurchasePlan plan;
};
Result<PurchaseForecast> make_purchase(const std::string& model, const ForecastOptions& options,
                                       std::uint64_t context);
std::vector<std::string> purchase_lines(const PurchaseForecast& forecast);
std::string purchase_json(const PurchaseForecast& forecast);

int run_forecast(const std::string& model, const ForecastOptions& options, std::uint64_t context,
                 bool json);

}  // namespace hearth::cli
