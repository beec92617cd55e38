#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "cli/plan/forecast.h"
#include "cli/plan/plan.h"
#include "cli/plan/words.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "coordinator/pipelines/placement_text.h"
#include "placement/estimate/memory.h"
#include "placement/estimate/mixed.h"

namespace hearth::cli {
namespace {

using coordinator::rate_text;
using placement::Bound;
using placement::CardSet;
using placement::Estimate;
using placement::EstimateInput;
using placement::Layout;
using placement::Offer;
using placement::Purchase;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kRoofline =
    "These are the speeds that the catalogue's rates allow; real kernels reach a part of them: on "
    "an H100, Hearth measured 0.54 of one stream's, 0.34 of 8 streams' and 0.12 of 64 streams' "
    "(8B, Q4_K_M).";
constexpr const char* kNoSet = "no set within the budget serves one user at this speed";
constexpr const char* kNoTensorParallel =
    "Hearth runs tensor parallel only on processors: rows with more than one rank are predictions "
    "only.";

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

const char* bound_text(Bound bound) {
  switch (bound) {
    case Bound::kCapacity: return "memory";
    case Bound::kBandwidth: return "reading weights and KV";
    case Bound::kCompute: return "computing";
    case Bound::kLinkRate: return "the rate of the link";
    case Bound::kLinkDelay: return "the delay of the link";
  }
  return "";
}

const char* kind_of(const Layout& layout) {
  if (layout.ranks > 1) return layout.stages > 1 ? "hybrid" : "tensor parallel";
  if (layout.stages > 1) return layout.replicas > 1 ? "pipelines" : "pipeline";
  return layout.replicas > 1 ? "copies" : "one GPU";
}

// 0: a part has no published price. Without electricity where the power is unknown.
double usd_per_million(const Purchase& purchase, double usd_per_kwh, double tokens_per_second) {
  if (purchase.usd <= 0.0 || tokens_per_second <= 0.0) return 0.0;
  const double hour = placement::usd_per_hour(purchase, usd_per_kwh);
  return 1e6 / placement::tokens_per_usd(tokens_per_second, hour);
}

// "-" where it is unknown.
std::string usd_text(double usd) { return usd > 0.0 ? plan_number(usd, 3) : "-"; }

std::string model_text(const ForecastModel& model) {
  const placement::Shape& shape = model.shape;
  return escape_control(shape.title) + ", " + escape_control(model.format) +
         fmt::format(" ({:.2f} bits a weight): ", model.bits) +
         bytes_text(placement::weight_bytes(parameters(shape), model.bits)) + " of weights, " +
         counted(shape.layers, "layer") + ", " +
         bytes_text(shape.layers * placement::kv_bytes_int8(shape)) + " of KV a position";
}

std::string cards_text(const std::vector<CardSet>& sets) {
  std::string text;
  for (const CardSet& set : sets) {
    text += (text.empty() ? "" : ", ") + std::to_string(set.count) + " x " + set.card.title;
  }
  return text;
}

std::string machines_text(const std::string& cards, const placement::Network& network,
                          const Purchase& purchase) {
  std::string text = cards + " in " + counted(purchase.machines, "machine");
  if (purchase.machines > 1) {
    text += ", " + bytes_text(network.bytes_per_second) + "/s and " +
            plan_milliseconds(network.delay_seconds) + " between them";
  }
  return text;
}

std::string power_text(const Purchase& purchase, double usd_per_kwh) {
  if (purchase.watts <= 0.0) {
    return "power -: the catalogue lacks it for a part, and no cost has electricity in it";
  }
  return "power " + plan_number(purchase.watts / 1e3, 2) + " kW" +
         fmt::format(", electricity at {} USD/kWh: {:.2f} USD/h", plan_number(usd_per_kwh, 3),
                     placement::electricity_usd(purchase.watts, usd_per_kwh));
}

std::string price_text(const Purchase& purchase, double usd_per_kwh) {
  const std::string power = power_text(purchase, usd_per_kwh);
  if (purchase.usd <= 0.0) {
    return power + "; the catalogue has no price for a part of the hardware";
  }
  const double hardware = placement::hardware_usd(purchase.usd, placement::kYearsOfUse);
  std::string text = power + fmt::format("; {:.0f} USD of hardware over {:.0f} years: {:.2f} USD/h",
                                         purchase.usd, placement::kYearsOfUse, hardware);
  if (purchase.watts <= 0.0) return text;
  return text +
         fmt::format(", together {:.2f} USD/h", placement::usd_per_hour(purchase, usd_per_kwh));
}

std::string memory_text(const Estimate& each, double capacity) {
  const placement::CardMemory& memory = each.memory;
  return std::string(kind_of(each.layout)) + ": the fullest GPU needs " +
         bytes_text(memory.weights) + " for weights, " + bytes_text(memory.kv) + " for KV of " +
         counted(std::max<std::uint64_t>(1, each.users / each.layout.replicas), "user") + ", " +
         bytes_text(memory.activations) + " for activations, and keeps " +
         bytes_text(memory.margin) + " free, of " + bytes_text(capacity);
}

void append_table(std::vector<std::string>& lines, const Forecast& forecast) {
  Table table({"LAYOUT", "STAGES", "RANKS", "COPIES", "WEIGHTS/GPU", "KV/GPU", "USERS", "KV ROOM",
               "ALONE", "A USER", "TOTAL", "USD/M TOKENS", "LIMIT"});
  for (const Estimate& each : forecast.estimates) {
    const Layout& layout = each.layout;
    std::vector<std::string> row = {kind_of(layout), std::to_string(layout.stages),
                                    std::to_string(layout.ranks), std::to_string(layout.replicas),
                                    bytes_text(each.memory.weights)};
    if (each.users == 0) {
      const char* lacks = each.holds_weights ? "memory: no room for the context of one user"
                                             : "memory: the weights do not fit";
      row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-", lacks});
    } else {
      const double usd = usd_per_million(forecast.purchase, forecast.usd_per_kwh, each.total);
      row.insert(row.end(),
                 {bytes_text(each.memory.kv), std::to_string(each.users),
                  std::to_string(each.users_room), rate_text(each.alone), rate_text(each.per_user),
                  rate_text(each.total), usd_text(usd), bound_text(each.bound)});
    }
    table.add(std::move(row));
  }
  for (std::string& line : table.lines()) lines.push_back(std::move(line));
}

// The first layout that serves a user; without one, the first layout.
const Estimate& usual_of(const std::vector<Estimate>& estimates) {
  const auto serves = [](const Estimate& each) { return each.users > 0; };
  const auto found = std::ranges::find_if(estimates, serves);
  return found == estimates.end() ? estimates.front() : *found;
}

// Unconfirmed figures of a GPU, and whether Hearth computes on it.
void warn_of_card(std::vector<std::string>& lines, const placement::Card& card) {
  if (!card.runs) lines.push_back("Hearth does not compute on " + card.title + " yet.");
  if (card.unchecked.empty()) return;
  std::string keys;
  for (const std::string& key : card.unchecked) keys += (keys.empty() ? "" : ", ") + key;
  lines.push_back("Figures of " + card.title + " not confirmed by a document or table: " + keys +
                  ".");
}

void warn_of_model(std::vector<std::string>& lines, const EstimateInput& setup,
                   const ForecastModel& model) {
  if (!model.refused.empty()) lines.push_back(model.refused + ".");
  const bool is_16_bits = setup.weight_bits >= 16.0 && !placement::is_f32(setup);
  if (is_16_bits) {
    lines.emplace_back(
        "Hearth multiplies weights of 16 bits at the FP32 rate: where the limit is computing, it "
        "is slower than this.");
  }
}

// Limits of the prediction that the user must know.
std::vector<std::string> warnings(const Forecast& forecast) {
  std::vector<std::string> lines;
  bool ranks = false;
  bool crowded = false;
  for (const Estimate& each : forecast.estimates) {
    ranks = ranks || each.layout.ranks > 1;
    crowded = crowded || (each.users > 0 && each.users < each.users_wanted);
  }
  if (ranks && !placement::kRunsTensorParallel) lines.emplace_back(kNoTensorParallel);
  if (crowded) {
    lines.emplace_back(
        "Where USERS equals KV ROOM, the step batches of --batch rows are not full: further users "
        "wait, or have shorter contexts.");
  }
  if (forecast.purchase.watts <= 0.0 && forecast.purchase.usd > 0.0) {
    lines.emplace_back("USD/M TOKENS is of the hardware alone, without electricity.");
  }
  for (const CardSet& set : forecast.sets) warn_of_card(lines, set.card);
  warn_of_model(lines, forecast.setup, forecast.model);
  lines.emplace_back(kRoofline);
  return lines;
}

OrderedJson layout_json(const Layout& layout) {
  return {{"kind", kind_of(layout)},
          {"stages", layout.stages},
          {"ranks", layout.ranks},
          {"replicas", layout.replicas},
          {"runs", layout.ranks == 1 || placement::kRunsTensorParallel}};
}

// null: unknown. An unknown part is in no sum.
OrderedJson price_json(const Purchase& purchase, double usd_per_kwh) {
  const auto known = [](double value) { return value > 0.0 ? OrderedJson(value) : OrderedJson(); };
  return {{"machines", purchase.machines},
          {"watts", known(purchase.watts)},
          {"usd_per_kwh", usd_per_kwh},
          {"usd", known(purchase.usd)},
          {"usd_per_hour", known(placement::usd_per_hour(purchase, usd_per_kwh))}};
}

OrderedJson estimate_json(const Estimate& each, const Purchase& purchase, double usd_per_kwh) {
  OrderedJson json = {{"layout", layout_json(each.layout)},
                      {"holds_weights", each.holds_weights},
                      {"memory_bytes",
                       {{"weights", each.memory.weights},
                        {"kv", each.memory.kv},
                        {"activations", each.memory.activations},
                        {"margin", each.memory.margin}}},
                      {"users", each.users},
                      {"users_wanted", each.users_wanted},
                      {"users_room", each.users_room},
                      {"alone_tokens_per_second", each.alone},
                      {"user_tokens_per_second", each.per_user},
                      {"all_tokens_per_second", each.total},
                      {"limit", bound_text(each.bound)}};
  const double usd = usd_per_million(purchase, usd_per_kwh, each.total);
  if (usd > 0.0) json["usd_per_million_tokens"] = usd;
  return json;
}

OrderedJson setup_json(const EstimateInput& setup) {
  return {{"gpu", setup.card.key},
          {"gpus", setup.cards},
          {"gpus_per_machine", setup.cards_per_machine},
          {"link", setup.network.key},
          {"batch", setup.batch},
          {"context", setup.context}};
}

OrderedJson model_json(const ForecastModel& model) {
  return {{"name", model.shape.key},
          {"format", model.format},
          {"bits", model.bits},
          {"weight_bytes", placement::weight_bytes(parameters(model.shape), model.bits)}};
}

std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string offer_text(const Offer& offer) {
  const EstimateInput& setup = offer.setup;
  const std::string cards = std::to_string(setup.cards) + " x " + setup.card.title;
  return machines_text(cards, setup.network, offer.purchase) +
         fmt::format(": {:.0f} USD", offer.purchase.usd);
}

std::string layout_text(const Offer& offer) {
  const Layout& layout = offer.best.layout;
  return counted(layout.replicas, "pipeline") + " of " + counted(layout.stages, "stage") +
         ", step batches of " + counted(offer.setup.batch, "row") + ": " +
         counted(offer.users_most, "user") + " at " + rate_text(offer.best.per_user) +
         " tokens/s each, " + rate_text(offer.best.total) + " in total";
}

std::string change_text(const placement::NextStep& next) {
  const EstimateInput& after = next.after.setup;
  switch (next.change) {
    case placement::NextStep::Change::kCards:
      return std::to_string(after.cards) + " x " + after.card.title + " in all";
    case placement::NextStep::Change::kNetwork:
      return bytes_text(after.network.bytes_per_second) + "/s between the machines";
    case placement::NextStep::Change::kCard: return after.card.title + " in place of each GPU";
  }
  return "";
}

OrderedJson offer_json(const Offer& offer, double usd_per_kwh) {
  OrderedJson json = setup_json(offer.setup);
  json["host"] = offer.host.key;
  json["price"] = price_json(offer.purchase, usd_per_kwh);
  json["estimate"] = estimate_json(offer.best, offer.purchase, usd_per_kwh);
  json["users_most"] = offer.users_most;
  return json;
}

void append_offer(std::vector<std::string>& lines, const PurchaseForecast& forecast,
                  const Offer& offer) {
  lines.push_back("  " + layout_text(offer));
  const double million = usd_per_million(offer.purchase, forecast.usd_per_kwh, offer.best.total);
  lines.push_back("  " + price_text(offer.purchase, forecast.usd_per_kwh) + "; " +
                  usd_text(million) + " USD for a million tokens");
  lines.push_back("  " + memory_text(offer.best, offer.setup.card.memory_bytes));
  const placement::PurchasePlan& plan = forecast.plan;
  if (plan.bound) {
    lines.push_back(std::string("bottleneck: ") + bound_text(*plan.bound) +
                    "; twice of it serves " + counted(plan.users_with_twice, "user"));
  }
  if (!plan.next) return;
  const double gain = static_cast<double>(plan.next->after.users_most - offer.users_most);
  lines.push_back("next: " + change_text(*plan.next) +
                  fmt::format(" for {:.0f} USD more: ", plan.next->usd) +
                  counted(plan.next->after.users_most, "user") + ", " +
                  plan_number(gain / plan.next->usd * 1e3, 2) + " more for each further 1000 USD");
}

}  // namespace

std::vector<std::string> forecast_lines(const Forecast& forecast) {
  const EstimateInput& setup = forecast.setup;
  std::vector<std::string> lines = {
      model_text(forecast.model),
      machines_text(cards_text(forecast.sets), setup.network, forecast.purchase)};
  lines.push_back("step batches of " + counted(setup.batch, "row") + ", contexts of " +
                  counted(setup.context, "position") + "; speeds in tokens/s");
  append_table(lines, forecast);
  lines.push_back(memory_text(usual_of(forecast.estimates), setup.card.memory_bytes));
  lines.push_back(price_text(forecast.purchase, forecast.usd_per_kwh));
  for (std::string& line : warnings(forecast)) lines.push_back(std::move(line));
  return lines;
}

std::string forecast_json(const Forecast& forecast) {
  OrderedJson json = {{"model", model_json(forecast.model)}, {"setup", setup_json(forecast.setup)}};
  json["price"] = price_json(forecast.purchase, forecast.usd_per_kwh);
  json["layouts"] = OrderedJson::array();
  for (const Estimate& each : forecast.estimates) {
    json["layouts"].push_back(estimate_json(each, forecast.purchase, forecast.usd_per_kwh));
  }
  json["warnings"] = warnings(forecast);
  return dump(json);
}

namespace {

struct PlannedMix {
  placement::Problem problem;
  PlanTexts plan;
};

// With the largest step batches, at most those asked for, whose streams have room for their KV.
Result<PlannedMix> plan_mix(EstimateInput setup, const std::vector<CardSet>& sets,
                            placement::Objective objective) {
  while (true) {
    PlannedMix mix;
    mix.problem = problem_of(setup, sets);
    mix.problem.objective = objective;
    TRY(mix.plan, plan_texts_of(mix.problem));
    const auto rows = static_cast<std::uint32_t>(mix.problem.batch_rows * mix.plan.served);
    const bool least = mix.problem.batch_rows == placement::kProblemRowsLeast;
    if (mix.plan.served >= 1.0 || least) return mix;
    setup.batch = std::max(rows, placement::kProblemRowsLeast);
  }
}

}  // namespace

Result<MixedTexts> mixed_texts(const Forecast& forecast, placement::Objective objective) {
  const EstimateInput& setup = forecast.setup;
  TRY(const PlannedMix mix, plan_mix(setup, forecast.sets, objective));
  const PlanTexts& plan = mix.plan;
  const double tokens = plan.all_tokens_per_second * plan.served;
  const double million = usd_per_million(forecast.purchase, forecast.usd_per_kwh, tokens);
  std::vector<std::string> warned = warnings(forecast);
  if (plan.served < 1.0) {
    warned.insert(warned.begin(),
                  "Not all of these streams have room for the KV of a full context: the cost of a "
                  "million tokens counts those that do.");
  } else if (mix.problem.batch_rows < setup.batch) {
    warned.insert(warned.begin(),
                  "More rows in a step batch have no room for the KV of full contexts.");
  }
  MixedTexts texts;
  texts.lines = {model_text(forecast.model),
                 machines_text(cards_text(forecast.sets), setup.network, forecast.purchase)};
  texts.lines.push_back("step batches of " + counted(mix.problem.batch_rows, "row") +
                        ", contexts of " + counted(setup.context, "position"));
  for (const std::string& line : plan.lines) texts.lines.push_back(line);
  texts.lines.push_back(price_text(forecast.purchase, forecast.usd_per_kwh) + "; " +
                        usd_text(million) + " USD for a million tokens");
  for (const std::string& line : warned) texts.lines.push_back(line);

  OrderedJson gpus = OrderedJson::array();
  for (const CardSet& set : forecast.sets) {
    gpus.push_back({{"gpu", set.card.key}, {"count", set.count}});
  }
  OrderedJson json = {{"model", model_json(forecast.model)}};
  json["setup"] = {{"gpus", gpus},
                   {"gpus_per_machine", setup.cards_per_machine},
                   {"link", setup.network.key},
                   {"batch", mix.problem.batch_rows},
                   {"context", setup.context}};
  json["price"] = price_json(forecast.purchase, forecast.usd_per_kwh);
  json["plan"] = OrderedJson::parse(plan.json);
  if (million > 0.0) json["usd_per_million_tokens"] = million;
  json["warnings"] = warned;
  texts.json = dump(json);
  return texts;
}

std::vector<std::string> purchase_lines(const PurchaseForecast& forecast) {
  const placement::PurchasePlan& plan = forecast.plan;
  std::vector<std::string> lines = {model_text(forecast.model)};
  lines.push_back("goal: " + counted(forecast.goal.users, "user") + " at " +
                  rate_text(forecast.goal.per_user) + " tokens/s each, contexts of " +
                  counted(forecast.context, "position") +
                  (forecast.goal.usd < limits::kPlannedUsd
                       ? fmt::format(", at most {:.0f} USD", forecast.goal.usd)
                       : ", without a budget"));
  if (!forecast.model.refused.empty()) {
    lines.push_back("no set reaches the goal: " + forecast.model.refused);
    return lines;
  }
  const std::optional<Offer>& offer = plan.cheapest ? plan.cheapest : plan.most;
  if (plan.cheapest) {
    lines.push_back("cheapest: " + offer_text(*offer));
  } else if (plan.most) {
    lines.push_back("no set within the budget reaches the goal; the one that serves most: " +
                    offer_text(*offer));
  } else {
    lines.emplace_back(kNoSet);
  }
  if (offer) append_offer(lines, forecast, *offer);
  lines.emplace_back(
      "Considered: pipelines on GPUs on which Hearth computes, at the prices of the catalogue.");
  if (offer) warn_of_card(lines, offer->setup.card);
  if (offer) warn_of_model(lines, offer->setup, forecast.model);
  lines.emplace_back(kRoofline);
  return lines;
}

std::string purchase_json(const PurchaseForecast& forecast) {
  const placement::PurchasePlan& plan = forecast.plan;
  OrderedJson json = {{"model", model_json(forecast.model)}};
  json["goal"] = {{"users", forecast.goal.users},
                  {"user_tokens_per_second", forecast.goal.per_user},
                  {"context", forecast.context},
                  {"usd", forecast.goal.usd}};
  json["reached"] = plan.cheapest.has_value();
  json["offer"] = nullptr;
  json["bottleneck"] = nullptr;
  json["next"] = nullptr;
  const std::optional<Offer>& offer = plan.cheapest ? plan.cheapest : plan.most;
  if (!offer) {
    json["reason"] = forecast.model.refused.empty() ? kNoSet : forecast.model.refused;
    return dump(json);
  }
  json["offer"] = offer_json(*offer, forecast.usd_per_kwh);
  if (plan.bound) {
    json["bottleneck"] = {{"what", bound_text(*plan.bound)},
                          {"users_with_twice", plan.users_with_twice}};
  }
  if (plan.next) {
    json["next"] = {{"change", change_text(*plan.next)},
                    {"usd", plan.next->usd},
                    {"offer", offer_json(plan.next->after, forecast.usd_per_kwh)}};
  }
  return dump(json);
}

}  // namespace hearth::cli
