#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/worker/worker_model.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr Duration kEvery = std::chrono::milliseconds(500);

void say(const OrderedJson& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

OrderedJson json_of(LayerRange layers) {
  return OrderedJson::array({layers.begin, layers.end - 1});
}

}  // namespace

void HoldReport::plan(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  bar_.reset();
  if (json_) {
    return say({{"event", "hold"},
                {"layers", json_of(plan.layers)},
                {"model_layers", plan.model_layers},
                {"why", plan.why},
                {"bytes", plan.bytes},
                {"memory", plan.memory},
                {"memory_budget", plan.budget}});
  }
  std::string text = "this machine will hold layers " + text_of(plan.layers) + " of " +
                     std::to_string(plan.model_layers) + ": " + format_bytes(plan.bytes) +
                     " on disk, " + format_bytes(plan.memory) + " of memory";
  if (plan.budget > 0) text += " of the " + format_bytes(plan.budget) + " that it may use";
  std::fprintf(stderr, "%s\nwhy: %s\n", text.c_str(), plan.why.c_str());
}

void HoldReport::bar(const std::string& message, std::uint64_t done, std::uint64_t total) {
  if (!bar_ || message_ != message) bar_.emplace(message, total, done);
  message_ = message;
  bar_->set(done);
}

void HoldReport::progress(const node::Holding& holding) {
  const std::lock_guard lock(mutex_);
  if (!json_) return bar("layers " + text_of(holding.layers), holding.done, holding.total);
  const TimePoint now = clock_.now();
  if (since_ == TimePoint{} || holding.done < from_) {
    since_ = now;
    from_ = holding.done;
  }
  if (now - said_ < kEvery) return;
  said_ = now;
  const double seconds = std::chrono::duration<double>(now - since_).count();
  const double rate = seconds > 0.05 ? static_cast<double>(holding.done - from_) / seconds : 0.0;
  OrderedJson left;
  if (rate > 0.0) left = static_cast<double>(holding.total - holding.done) / rate;
  say({{"event", "fetch"},
       {"layers", json_of(holding.layers)},
       {"done", holding.done},
       {"total", holding.total},
       {"bytes_per_second", rate},
       {"seconds_left", left}});
}

void HoldReport::done(LayerRange layers, std::uint64_t bytes, std::uint64_t fetched,
                      const std::string& in_place) {
  const std::lock_guard lock(mutex_);
  since_ = TimePoint{};
  if (json_) {
    return say({{"event", "held"},
                {"layers", json_of(layers)},
                {"bytes", bytes},
                {"fetched", fetched},
                {"in_place", in_place}});
  }
  if (bar_ && fetched > 0) bar_->finish();
  bar_.reset();
  std::fprintf(stderr, "layers %s are complete and verified: %s fetched%s%s\n",
               text_of(layers).c_str(), format_bytes(fetched).c_str(),
               in_place.empty() ? "" : ", used where they lie: ", in_place.c_str());
}

void HoldReport::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  bar_.reset();
  if (json_) return say({{"event", "failed"}, {"error", error.message}});
  std::fprintf(stderr, "%s\n", error.message.c_str());
}

void HoldReport::hashing(std::uint64_t done, std::uint64_t total) {
  const std::lock_guard lock(mutex_);
  if (json_) return say({{"event", "hashing"}, {"done", done}, {"total", total}});
  bar("the coordinator hashes its model", done, total);
}

}  // namespace hearth::cli
