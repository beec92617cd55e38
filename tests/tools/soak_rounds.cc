#include "tests/tools/soak_rounds.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model/spec.h"
#include "model/synthetic.h"
#include "node/engine/device.h"

namespace hearth::cli {
namespace {

constexpr const char* kTypes[] = {
    "F32",   "F16",     "BF16",  "Q8_0",  "Q4_0",   "Q4_1",   "Q5_0",  "Q5_1",    "Q2_K",
    "Q3_K",  "Q4_K",    "Q5_K",  "Q6_K",  "IQ4_NL", "IQ4_XS", "MXFP4", "IQ2_XXS", "IQ2_XS",
    "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M",  "TQ1_0",  "TQ2_0", "Q4_K_M",  "Q5_K_M"};

// For each on the scalar table, which takes a hundred times as long.
constexpr int kFastLoneRuns = 7;
constexpr int kFastCrowdSteps = 12;  // on each fast table

struct OwnedModel {
  Bytes bytes;  // what the file reads
  SoakModel model;
};

// Small, so that the scalar table keeps up: widths that are whole super-blocks and widths that are
// not, and numbers of rows that are no multiple of a row group.
Result<std::unique_ptr<OwnedModel>> random_model(std::string_view family, const char* type,
                                                 Random& random) {
  model::SyntheticOptions options;
  TRY_VOID(model::set_weight_types(options, type));
  options.family = family;
  options.seed = random.next();
  const std::uint32_t period = model::find_family(family)->period();
  options.layers = period > 1 ? period : 2 + random.next() % 2;
  options.kv_heads = 1 + random.next() % 2;
  options.heads = 2 * options.kv_heads;
  options.head_dim = random.next() % 2 == 0 ? 32 : 64;
  options.hidden = random.next() % 4 == 0 ? 256 : 96;
  options.feed_forward = random.next() % 4 == 0 ? 256 : 160;
  options.vocabulary = 360 + static_cast<std::uint32_t>(random.next() % 40);
  options.context = 256;
  options.tied_output = random.next() % 2 == 0;
  auto owned = std::make_unique<OwnedModel>();
  TRY(owned->bytes, model::synthetic_model_bytes(options));
  owned->model.name = std::string(family) + " " + type;
  TRY(owned->model.file, model::GgufFile::parse(owned->bytes, owned->model.name));
  return owned;
}

// A family and a weight type.
struct Kind {
  std::string_view family;
  const char* type;
};

bool card_computes(const Kind& kind) {
  if (!node::what_no_card_computes(*model::find_family(kind.family), 0).empty()) return false;
  model::SyntheticOptions options;
  if (!model::set_weight_types(options, kind.type).ok()) return false;
  const model::TensorType types[] = {options.attention_type, options.feed_forward_type,
                                     options.embedding_type, options.output_type,
                                     options.finer_type.value_or(options.attention_type)};
  return std::all_of(std::begin(types), std::end(types), [](model::TensorType type) {
    const Result<kernels::WeightType> weights = model::weight_type(type, "a tensor");
    return weights.ok() && node::card_computes(*weights);
  });
}

// Every family with every weight type; with a GPU, those that it computes.
std::vector<Kind> kinds_of(const node::Device* device) {
  std::vector<Kind> kinds;
  for (const char* type : kTypes) {
    for (const std::string_view family : model::known_families()) {
      const Kind kind{family, type};
      if (device == nullptr || card_computes(kind)) kinds.push_back(kind);
    }
  }
  return kinds;
}

class Soak {
 public:
  explicit Soak(const SoakOptions& options)
      : options_(options), kinds_(kinds_of(options.tables.device)) {}

  Result<SoakResult> run() {
    std::vector<std::thread> helpers;
    for (std::uint32_t i = 1; i < options_.workers; ++i) helpers.emplace_back([this] { work(); });
    work();
    for (std::thread& helper : helpers) helper.join();
    if (!failed_.ok()) return failed_.error();
    return result_;
  }

 private:
  void work() {
    while (!done_.load()) {
      const std::uint64_t index = next_.fetch_add(1);
      finish(index, round(index));
    }
  }

  // All that a round does comes from the seed and its index.
  Result<SoakCount> round(std::uint64_t index) {
    SeededRandom random(SeededRandom(SeededRandom(options_.seed).next() + index).next());
    std::uint64_t turn = index % (options_.models.size() + kinds_.size());
    const auto stop = [this] { return done_.load() || (options_.stop && options_.stop()); };
    if (turn < options_.models.size()) {
      return soak_round(options_.models[turn], options_.model_tables, random, stop);
    }
    turn -= options_.models.size();
    TRY(const auto owned, random_model(kinds_[turn].family, kinds_[turn].type, random));
    return soak_round(owned->model, options_.tables, random, stop);
  }

  // Rounds count in their order, up to the one that is enough, whichever thread is first.
  void finish(std::uint64_t index, Result<SoakCount> count) {
    const std::lock_guard lock(mutex_);
    finished_.emplace(index, std::move(count));
    for (auto found = finished_.begin();
         !done_.load() && found != finished_.end() && found->first == result_.rounds;
         found = finished_.erase(found)) {
      if (found->second.ok()) {
        count_round(*found->second);
      } else {
        end_with(found->first, found->second.error());
      }
    }
  }

  void count_round(const SoakCount& count) {
    const bool first = result_.count.unequal == 0 && count.unequal > 0;
    result_.count.add(count);
    if (first) result_.count.first = "round " + std::to_string(result_.rounds) + ", " + count.first;
    ++result_.rounds;
    if (options_.on_progress) options_.on_progress(result_.count);
    if (result_.count.compared >= options_.tokens) done_.store(true);
  }

  void end_with(std::uint64_t round, const Error& error) {
    done_.store(true);
    if (error.code == ErrorCode::kCancelled) {
      result_.interrupted = true;
    } else {
      failed_ = Error{error.code, "round " + std::to_string(round) + ": " + error.message};
    }
  }

  const SoakOptions& options_;
  const std::vector<Kind> kinds_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> done_{false};
  std::mutex mutex_;  // of what follows
  std::map<std::uint64_t, Result<SoakCount>> finished_;
  SoakResult result_;
  Status failed_ = ok_status();
};

}  // namespace

void use_soak_tables(SoakOptions& options) {
  const std::vector<const kernels::Kernels*> all = kernels::available_kernels();
  const std::vector<const kernels::Kernels*> fast(all.begin() + (all.size() > 1 ? 1 : 0),
                                                  all.end());
  options.tables.lone.assign(kFastLoneRuns, all.back());
  options.tables.lone.push_back(all.front());
  options.tables.crowd = {all.front()};
  for (int i = 0; i < kFastCrowdSteps; ++i) {
    options.tables.crowd.insert(options.tables.crowd.end(), fast.begin(), fast.end());
  }
  options.model_tables = {fast, fast};
}

Result<SoakResult> soak(const SoakOptions& options) { return Soak(options).run(); }

}  // namespace hearth::cli
