#include "cli/plan/forecast.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/limits.h"
#include "cli/command/nearest.h"
#include "cli/models/models.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/emulation/model_shape.h"
#include "node/engine/device.h"
#include "node/engine/placement_model.h"

namespace hearth::cli {
namespace {

using placement::Card;
using placement::CardSet;
using placement::EstimateInput;
using placement::Network;
using placement::Shape;

constexpr std::size_t kShownBytes = 64;   // of a refused text
constexpr double kLinkLeast = 1e6 / 8.0;  // bytes a second
constexpr double kLinkMost = 1e12 / 8.0;
constexpr const char* kUsualNetwork = "10g";  // whose delay another rate has
constexpr const char* kElectricity = "us";

std::string quoted_start(const std::string& text) {
  return "'" + escape_control(text.substr(0, kShownBytes)) + "'";
}

// The number at the beginning, and what follows it.
struct Measure {
  double value = 0.0;
  std::string unit;
};

bool measure_of(const std::string& text, Measure& measure) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, measure.value);
  if (error != std::errc() || !std::isfinite(measure.value)) return false;
  measure.unit.assign(at, end);
  return true;
}

// Why GPUs do not compute models of the family with weights of these types; empty where they do.
std::string gpus_refuse(const model::FamilyTraits& family, std::uint32_t experts,
                        const std::vector<model::TensorType>& types) {
  const auto sentence = [](auto&&... what) {
    return message_of("Hearth computes ", what..., " on processors only, not on GPUs");
  };
  const std::string_view part = node::what_no_card_computes(family, experts);
  if (!part.empty()) return sentence(family.architecture, " models with ", part);
  for (const model::TensorType type : types) {
    const auto weights = model::weight_type(type, "");
    if (weights.ok() && node::card_computes(*weights)) continue;
    const std::string name = model::tensor_type_name(static_cast<std::uint32_t>(type));
    return sentence("weights of the type ", name);
  }
  return "";
}

Result<ForecastModel> model_of_file(const std::filesystem::path& path) {
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(const placement::Model model, node::placement_model(*file, spec));
  ForecastModel found;
  found.shape = node::shape_of(spec, path.filename().string());
  found.format = path.filename().string();
  double bytes = 0.0;
  for (const std::uint64_t each : model.layer_bytes) bytes += static_cast<double>(each);
  found.bits = 8.0 * bytes / (found.shape.layers * layer_parameters(found.shape));
  std::vector<model::TensorType> types;
  for (const model::TensorInfo& tensor : file->tensors()) types.push_back(tensor.type);
  found.refused = gpus_refuse(*spec.family, spec.experts, types);
  return found;
}

// The catalogue's own entries name families and types that the program knows: a test reads them.
model::TensorType tensor_type_of(const std::string& name) {
  for (std::uint32_t type = 0; type < model::kTensorTypeNumbers; ++type) {
    const model::TensorTypeInfo* info = model::tensor_type_info(type);
    if (info != nullptr && info->name == name) return static_cast<model::TensorType>(type);
  }
  INVARIANT(false, "the program knows the types of its catalogue");
}

Result<ForecastModel> model_of_shape(const Shape& shape, const std::string& quant) {
  const std::string format = quant.empty() ? kDefaultQuant : quant;
  TRY(const placement::Quant found, find_entry(catalogue().quants, format, "--quant: format"));
  ForecastModel model = {shape, found.bits, found.key, {}};
  const model::FamilyTraits* family = model::find_family(shape.architecture);
  INVARIANT(family != nullptr, "the program knows the families of its catalogue");
  model.refused = gpus_refuse(*family, shape.experts, {tensor_type_of(found.type)});
  return model;
}

Result<std::uint32_t> context_of(const Shape& shape, std::uint64_t wanted) {
  REQUIRE(wanted <= shape.context, "--context is ", wanted, "; the limit is ", shape.context,
          ", the context of ", escape_control(shape.title));
  if (wanted > 0) return static_cast<std::uint32_t>(wanted);
  return std::min(shape.context, limits::kDefaultMaxTokens);
}

double electricity_of(const ForecastOptions& options) {
  if (options.usd_per_kwh > 0.0) return options.usd_per_kwh;
  for (const placement::Electricity& each : catalogue().electricity) {
    if (each.key == kElectricity) return each.usd_per_kwh;
  }
  return 0.0;
}

// The host with the fewest places that takes every card and has as many places as asked.
Result<placement::Host> host_of(const std::vector<CardSet>& sets, std::uint32_t per_machine,
                                bool in_one) {
  std::vector<placement::Host> hosts = catalogue().hosts;
  std::ranges::sort(hosts, {}, &placement::Host::cards);
  const auto found = std::ranges::find_if(hosts, [&](const placement::Host& host) {
    return host.cards >= per_machine &&
           std::ranges::all_of(sets, [&](const CardSet& set) { return takes(host, set.card); });
  });
  const std::uint32_t most = hosts.back().cards;
  REQUIRE(found != hosts.end() || !in_one, "--link card puts all ", per_machine,
          " GPUs into one machine; a machine of the catalogue has at most ", most,
          ": pass a rate between machines, for example --link 10G");
  REQUIRE(found != hosts.end(), "--per-machine is ", per_machine,
          "; a machine of the catalogue has at most ", most, " GPUs");
  placement::Host host = *found;
  host.cards = per_machine;
  return host;
}

// GPUs that no desktop takes stand in machines that are made for them.
std::uint32_t usual_per_machine(const std::vector<CardSet>& sets) {
  const bool server =
      std::ranges::any_of(sets, [](const CardSet& set) { return set.card.needs_server; });
  std::uint32_t most = 1;
  for (const placement::Host& host : catalogue().hosts) {
    if (server && host.server) most = std::max(most, host.cards);
  }
  return most;
}

std::uint32_t number_of_gpus(const std::vector<CardSet>& sets) {
  std::uint32_t count = 0;
  for (const CardSet& set : sets) count += set.count;
  return count;
}

constexpr const char* kGpuLimits = "the number of GPUs must be from 1 to ";

// "8xrtx4090", or the name alone for one.
Result<CardSet> gpus_of_a_kind(const std::string& text) {
  CardSet set;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  set.count = 1;
  std::string key = text;
  const bool counted = digits > 0 && digits + 1 < text.size() && text[digits] == 'x';
  if (counted) {
    const auto [at, error] = std::from_chars(text.data(), text.data() + digits, set.count);
    REQUIRE(error == std::errc() && set.count >= 1 && set.count <= limits::kPlannedCards,
            kGpuLimits, limits::kPlannedCards, ", got ", quoted_start(text.substr(0, digits)));
    key = text.substr(digits + 1);
  }
  REQUIRE(!key.empty() && (counted || digits == 0),
          "must be COUNTxGPU, for example 8xrtx4090 or 2xrtx4090,1xrtx3090, got ",
          quoted_start(text));
  TRY(set.card, find_entry(catalogue().cards, key, "GPU"));
  return set;
}

int print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  return kExitDone;
}

int run_mixed(const Forecast& forecast, const ForecastOptions& options, bool json) {
  const auto texts = mixed_texts(forecast, options.objective.value_or(placement::Objective::kAuto));
  if (!texts.ok()) return fail(texts.error());
  print_lines(json ? std::vector{texts->json} : texts->lines);
  return forecast.runs() ? kExitDone : kExitNoCapacity;
}

}  // namespace

Status check_used(const ForecastOptions& options) {
  const ForecastOptions unset;
  const bool gpus = !options.gpus.empty();
  const bool search = !options.speed.empty();
  REQUIRE(gpus || options.link == unset.link,
          "--link needs --gpus: add --gpus COUNTxGPU, or omit it");
  REQUIRE(gpus || options.batch == unset.batch,
          "--batch needs --gpus: add --gpus COUNTxGPU, or omit it");
  REQUIRE(gpus || !options.per_machine,
          "--per-machine needs --gpus: add --gpus COUNTxGPU, or omit it");
  REQUIRE(!options.per_machine || options.link != kCardLink,
          "--per-machine: --link card puts all GPUs into one machine; leave one of the two out");
  REQUIRE(!options.objective || !gpus || options.gpus.find(',') != std::string::npos,
          "--optimise needs --gpus of several kinds, or nodes; equal GPUs show every layout");
  REQUIRE(search || options.users == unset.users,
          "--users needs --for: add --for SPEED, or omit it");
  REQUIRE(search || options.budget_usd <= 0.0, "--budget needs --for: add --for SPEED, or omit it");
  REQUIRE(gpus || search || options.quant.empty(),
          "--quant needs --gpus or --for: add one of them, or omit it");
  REQUIRE(gpus || search || options.usd_per_kwh <= 0.0,
          "--electricity needs --gpus or --for: add one of them, or omit it");
  return ok_status();
}

Result<std::vector<CardSet>> parse_gpus(const std::string& text) {
  std::vector<CardSet> sets;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    TRY(CardSet set, gpus_of_a_kind(text.substr(begin, end - begin)));
    for (const CardSet& other : sets) {
      REQUIRE(other.card.key != set.card.key, "names ", set.card.key, " twice, got ",
              quoted_start(text), "; give its whole number once");
    }
    sets.push_back(std::move(set));
    REQUIRE(number_of_gpus(sets) <= limits::kPlannedCards, kGpuLimits, limits::kPlannedCards,
            ", got ", quoted_start(text));
    begin = end + 1;
  }
  return sets;
}

Result<Network> parse_link(const std::string& text) {
  const std::string form = "must be a rate in bits a second, for example 10G or 100M, or 'card'";
  Measure measure;
  if (text == kCardLink) return find_entry(catalogue().networks, kUsualNetwork, "network");
  REQUIRE(measure_of(text, measure), form, ", got ", quoted_start(text));
  const std::string& unit = measure.unit;
  const bool giga = unit == "G" || unit == "g";
  REQUIRE(giga || unit == "M" || unit == "m", form, ", got ", quoted_start(text));
  const double rate = measure.value * (giga ? 1e9 : 1e6) / 8.0;
  REQUIRE(rate >= kLinkLeast && rate <= kLinkMost, "must be from 1M to 1000G, got ",
          quoted_start(text));
  for (const Network& network : catalogue().networks) {
    if (std::abs(network.bytes_per_second / rate - 1.0) < 1e-6) return network;
  }
  TRY(Network network, find_entry(catalogue().networks, kUsualNetwork, "network"));
  network.key = text;
  network.bytes_per_second = rate;
  network.priced = false;
  return network;
}

Result<double> parse_speed(const std::string& text) {
  Measure measure;
  REQUIRE(measure_of(text, measure) && (measure.unit.empty() || measure.unit == "tok/s"),
          "must be tokens a second of each user, for example 5tok/s, got ", quoted_start(text));
  REQUIRE(measure.value > 0.0 && measure.value <= limits::kPlannedRate,
          "must be above 0 and at most ", static_cast<std::uint64_t>(limits::kPlannedRate),
          " tok/s, got ", quoted_start(text));
  return measure.value;
}

Result<ForecastModel> forecast_model(const std::string& name, const std::string& quant) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(name, ignored);
  const auto shape = find_entry(catalogue().shapes, name, "model");
  const auto path = resolve_model(name);
  const bool wants_shape = shape.ok() && !is_file && !quant.empty();
  if (path.ok() && !wants_shape) {
    REQUIRE(quant.empty(), "--quant is for shapes of the catalogue; the file ",
            escape_control(name), " has its own weights");
    return model_of_file(*path);
  }
  if (shape.ok()) return model_of_shape(*shape, quant);
  return Error{path.error().code,
               path.error().message + "; or name a shape: " + shape.error().message};
}

bool Forecast::runs() const {
  return model.refused.empty() &&
         std::ranges::all_of(sets, [](const CardSet& set) { return set.card.runs; });
}

bool Forecast::fits() const {
  return runs() && std::ranges::any_of(estimates, [](const placement::Estimate& each) {
           const bool layout_runs = each.layout.ranks == 1 || placement::kRunsTensorParallel;
           return layout_runs && each.users_room > 0;
         });
}

Result<Forecast> make_forecast(const std::string& model, const ForecastOptions& options,
                               std::uint64_t context) {
  Forecast forecast;
  TRY(forecast.model, forecast_model(model, options.quant));
  TRY(forecast.sets, parse_gpus(options.gpus));
  EstimateInput& setup = forecast.setup;
  setup.shape = forecast.model.shape;
  setup.weight_bits = forecast.model.bits;
  TRY(setup.network, parse_link(options.link));
  TRY(setup.context, context_of(setup.shape, context));
  setup.cards = number_of_gpus(forecast.sets);
  setup.batch = options.batch;
  const bool in_one = options.link == kCardLink;
  setup.cards_per_machine =
      in_one ? setup.cards : options.per_machine.value_or(usual_per_machine(forecast.sets));
  for (const CardSet& set : forecast.sets) {
    setup.card = set.card;
    TRY_VOID(check(setup));
    REQUIRE(!in_one || !set.card.whole_machine || setup.cards == 1, "--link card: ", set.card.title,
            " is a whole machine; pass a rate between machines, for example --link 10G");
  }
  setup.card = forecast.sets.front().card;
  TRY(forecast.host, host_of(forecast.sets, setup.cards_per_machine, in_one));
  forecast.purchase = purchase_of(forecast.sets, forecast.host, setup.network);
  forecast.usd_per_kwh = electricity_of(options);
  if (forecast.is_mixed()) return forecast;
  if (setup.card.whole_machine) setup.cards_per_machine = 1;
  for (const placement::Layout& layout : layouts(setup)) {
    forecast.estimates.push_back(estimate(setup, layout));
  }
  return forecast;
}

Result<PurchaseForecast> make_purchase(const std::string& model, const ForecastOptions& options,
                                       std::uint64_t context) {
  PurchaseForecast forecast;
  TRY(forecast.model, forecast_model(model, options.quant));
  TRY(forecast.goal.per_user, parse_speed(options.speed));
  forecast.goal.users = options.users;
  forecast.goal.usd = options.budget_usd > 0.0 ? options.budget_usd : limits::kPlannedUsd;
  TRY(forecast.context, context_of(forecast.model.shape, context));
  forecast.usd_per_kwh = electricity_of(options);
  placement::Market market = {catalogue().cards, {}, catalogue().hosts};
  for (const Network& network : catalogue().networks) {
    if (network.priced) market.networks.push_back(network);
  }
  EstimateInput setup;
  setup.shape = forecast.model.shape;
  setup.weight_bits = forecast.model.bits;
  setup.context = forecast.context;
  if (forecast.model.refused.empty()) {
    forecast.plan = plan_purchase(setup, market, forecast.goal);
  }
  return forecast;
}

int run_forecast(const std::string& model, const ForecastOptions& options, std::uint64_t context,
                 bool json) {
  if (!options.gpus.empty()) {
    const auto forecast = make_forecast(model, options, context);
    if (!forecast.ok()) return fail(forecast.error());
    if (forecast->is_mixed()) return run_mixed(*forecast, options, json);
    print_lines(json ? std::vector{forecast_json(*forecast)} : forecast_lines(*forecast));
    return forecast->fits() ? kExitDone : kExitNoCapacity;
  }
  const auto purchase = make_purchase(model, options, context);
  if (!purchase.ok()) return fail(purchase.error());
  print_lines(json ? std::vector{purchase_json(*purchase)} : purchase_lines(*purchase));
  return purchase->plan.cheapest ? kExitDone : kExitNoCapacity;
}

}  // namespace hearth::cli
