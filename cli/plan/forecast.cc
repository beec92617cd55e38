#include "cli/plan/forecast.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "cli/command/nearest.h"
#include "cli/models/models.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/placement_model.h"

namespace hearth::cli {
namespace {

using placement::Card;
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

Shape shape_of(const model::ModelSpec& spec, const std::string& key) {
  Shape shape;
  shape.key = key;
  shape.title = spec.name.empty() ? key : spec.name;
  shape.layers = spec.layers;
  shape.hidden = spec.hidden;
  shape.heads = spec.heads;
  shape.kv_heads = spec.kv_heads;
  shape.head_dim = spec.head_dim;
  shape.feed_forward = spec.feed_forward;
  shape.experts = spec.experts;
  shape.experts_used = spec.experts_used;
  shape.shared_feed_forward = spec.shared_feed_forward;
  shape.vocabulary = spec.vocabulary;
  shape.context = spec.context;
  shape.tied = spec.tied_embeddings;
  return shape;
}

Result<ForecastModel> model_of_file(const std::string& name) {
  TRY(const auto path, resolve_model(name));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(const placement::Model model, node::placement_model(*file, spec));
  ForecastModel found;
  found.shape = shape_of(spec, path.filename().string());
  found.format = path.filename().string();
  double bytes = 0.0;
  for (const std::uint64_t each : model.layer_bytes) bytes += static_cast<double>(each);
  found.bits = 8.0 * bytes / (found.shape.layers * layer_parameters(found.shape));
  return found;
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

// The host with the fewest places that has as many as asked.
Result<placement::Host> host_of(const Card& card, std::uint32_t per_machine) {
  std::vector<placement::Host> hosts = catalogue().hosts;
  std::ranges::sort(hosts, {}, &placement::Host::cards);
  const auto found = std::ranges::find_if(hosts, [&](const placement::Host& host) {
    return host.cards >= per_machine && takes(host, card);
  });
  REQUIRE(found != hosts.end(), "--per-machine: a machine of the catalogue has at most ",
          hosts.back().cards, " GPUs, got ", per_machine, "; pass --link with a rate for more");
  placement::Host host = *found;
  host.cards = per_machine;
  return host;
}

int print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  return kExitDone;
}

}  // namespace

Status check_used(const ForecastOptions& options) {
  const ForecastOptions unset;
  const bool gpus = !options.gpus.empty();
  const bool search = !options.speed.empty();
  REQUIRE(gpus || options.link == unset.link, "--link needs --gpus");
  REQUIRE(gpus || options.batch == unset.batch, "--batch needs --gpus");
  REQUIRE(gpus || options.per_machine == unset.per_machine, "--per-machine needs --gpus");
  REQUIRE(search || options.users == unset.users, "--users needs --for");
  REQUIRE(search || options.budget_usd <= 0.0, "--budget needs --for");
  REQUIRE(gpus || search || options.quant.empty(), "--quant needs --gpus or --for");
  REQUIRE(gpus || search || options.usd_per_kwh <= 0.0, "--electricity needs --gpus or --for");
  return ok_status();
}

Result<GpuSet> parse_gpus(const std::string& text) {
  GpuSet set;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  set.count = 1;
  set.key = text;
  const bool counted = digits > 0 && digits + 1 < text.size() && text[digits] == 'x';
  if (counted) {
    const auto [at, error] = std::from_chars(text.data(), text.data() + digits, set.count);
    REQUIRE(error == std::errc() && set.count >= 1 && set.count <= limits::kPlannedCards,
            "the number of GPUs must be from 1 to ", limits::kPlannedCards, ", got ",
            quoted_start(text.substr(0, digits)));
    set.key = text.substr(digits + 1);
  }
  REQUIRE(set.key.find(',') == std::string::npos, "takes one kind of GPU, got ", quoted_start(text),
          "; describe unequal nodes in a file and pass it with --nodes");
  REQUIRE(!set.key.empty() && (counted || digits == 0),
          "must be COUNTxGPU, for example 8xrtx4090, got ", quoted_start(text));
  TRY(const Card card, find_entry(catalogue().cards, set.key, "GPU"));
  set.key = card.key;
  return set;
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
  if (is_file || !shape.ok()) {
    auto file = model_of_file(name);
    if (!file.ok() && !is_file) {
      return Error{file.error().code,
                   file.error().message + "; or name a shape: " + shape.error().message};
    }
    if (file.ok()) {
      REQUIRE(quant.empty(), "--quant is for shapes of the catalogue; the file ",
              escape_control(name), " has its own weights");
    }
    return file;
  }
  const std::string format = quant.empty() ? kDefaultQuant : quant;
  TRY(const placement::Quant found, find_entry(catalogue().quants, format, "--quant: format"));
  return ForecastModel{*shape, found.bits, found.key};
}

bool Forecast::fits() const {
  return std::ranges::any_of(estimates, [](const placement::Estimate& each) {
    const bool runs = each.layout.ranks == 1 || placement::kRunsTensorParallel;
    return runs && each.holds_weights && each.users_room > 0;
  });
}

Result<Forecast> make_forecast(const std::string& model, const ForecastOptions& options,
                               std::uint64_t context) {
  Forecast forecast;
  TRY(forecast.model, forecast_model(model, options.quant));
  TRY(const GpuSet gpus, parse_gpus(options.gpus));
  EstimateInput& setup = forecast.setup;
  setup.shape = forecast.model.shape;
  setup.weight_bits = forecast.model.bits;
  TRY(setup.card, find_entry(catalogue().cards, gpus.key, "--gpus: GPU"));
  TRY(setup.network, parse_link(options.link));
  TRY(setup.context, context_of(setup.shape, context));
  setup.cards = gpus.count;
  setup.batch = options.batch;
  setup.cards_per_machine = options.link == kCardLink ? gpus.count : options.per_machine;
  if (setup.card.whole_machine) setup.cards_per_machine = 1;
  TRY_VOID(check(setup));
  TRY(forecast.host, host_of(setup.card, setup.cards_per_machine));
  forecast.purchase = purchase_of(setup.card, setup.cards, forecast.host, setup.network);
  forecast.usd_per_kwh = electricity_of(options);
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
  forecast.plan = plan_purchase(setup, market, forecast.goal);
  return forecast;
}

int run_forecast(const std::string& model, const ForecastOptions& options, std::uint64_t context,
                 bool json) {
  if (!options.gpus.empty()) {
    const auto forecast = make_forecast(model, options, context);
    if (!forecast.ok()) return fail(forecast.error());
    print_lines(json ? std::vector{forecast_json(*forecast)} : forecast_lines(*forecast));
    return forecast->fits() ? kExitDone : kExitNoCapacity;
  }
  const auto purchase = make_purchase(model, options, context);
  if (!purchase.ok()) return fail(purchase.error());
  print_lines(json ? std::vector{purchase_json(*purchase)} : purchase_lines(*purchase));
  return purchase->plan.cheapest ? kExitDone : kExitNoCapacity;
}

}  // namespace hearth::cli
