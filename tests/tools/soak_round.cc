#include "tests/tools/soak_round.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "base/crypto.h"
#include "base/limits.h"
#include "model/spec.h"
#include "node/engine/stage_memory.h"
#include "node/runner/local_runner.h"
#include "proto/split.h"

namespace hearth::cli {
namespace {

constexpr std::uint32_t kMostPositions = 192;  // of a sequence: several KV pages
constexpr std::uint32_t kMostGuests = 33;
constexpr std::uint32_t kMostGenerated = 40;
constexpr std::uint32_t kLeastContext = 64;

// Uniform enough: the bounds are small.
std::uint32_t below(Random& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random.next() % bound);
}

template <typename Value, std::size_t kCount>
Value pick(Random& random, const Value (&choices)[kCount]) {
  return choices[random.next() % kCount];
}

const kernels::Kernels* draw(Random& random, const std::vector<const kernels::Kernels*>& tables) {
  return tables[random.next() % tables.size()];
}

struct Guest {
  SequenceOpen open;
  std::vector<TokenId> prompt;
  std::uint32_t joins_at = 0;   // step of the crowd
  std::uint32_t leaves_at = 0;  // 0: stays to its end
};

// What the lone run of a guest left.
struct Reference {
  std::vector<std::vector<Hash256>> boundaries;  // (layers + 1) x positions
  std::vector<SampledToken> tokens;
  std::vector<Hash256> kv;  // of every layer, at the end
};

// A hash of the logits of every row that is sampled.
class LogitsHashes final : public node::LogitsObserver {
 public:
  explicit LogitsHashes(const std::vector<Guest>& guests) : guests_(guests) {}
  bool wants(SequenceId sequence, Position position) const override {
    return position + 1 >= guests_[sequence.value - 1].open.prompt_tokens;
  }
  void on_logits(SequenceId sequence, Position position, std::span<const float> logits) override {
    const Hash256 hash = blake2b(std::as_bytes(logits));
    const std::lock_guard lock(mutex_);
    hashes_[{sequence.value, position}] = hash;
  }
  // Not while a runner steps. Null when none was seen.
  const Hash256* find(SequenceId sequence, Position position) const {
    const auto found = hashes_.find({sequence.value, position});
    return found == hashes_.end() ? nullptr : &found->second;
  }

 private:
  const std::vector<Guest>& guests_;
  std::map<std::pair<std::uint64_t, Position>, Hash256> hashes_;
  std::mutex mutex_;  // of hashes_, while a runner steps
};

SamplingParams sampling_of(Random& random) {
  SamplingParams sampling;
  sampling.max_tokens = 1 + below(random, kMostGenerated);
  sampling.seed = random.next();
  sampling.logprobs = true;
  sampling.top_logprobs = below(random, 4);
  if (below(random, 3) == 0) {
    sampling.temperature = 0.0F;
    return sampling;
  }
  sampling.temperature = 0.25F * static_cast<float>(1 + below(random, 6));
  sampling.top_k = pick(random, {0U, 1U, 20U, 100U});
  sampling.top_p = pick(random, {1.0F, 0.9F, 0.5F});
  sampling.min_p = pick(random, {0.0F, 0.0F, 0.05F});
  sampling.repetition_penalty = pick(random, {1.0F, 1.1F});
  sampling.presence_penalty = pick(random, {0.0F, 0.5F});
  sampling.frequency_penalty = pick(random, {0.0F, 0.25F});
  return sampling;
}

std::vector<Guest> guests_of(const model::ModelSpec& spec, Random& random) {
  const std::uint32_t most = std::min(kMostPositions, spec.context);
  std::vector<Guest> guests(1 + below(random, kMostGuests));
  for (std::size_t i = 0; i < guests.size(); ++i) {
    Guest& guest = guests[i];
    guest.open.sequence = SequenceId(i + 1);
    guest.open.report_hashes = true;
    guest.open.sampling = sampling_of(random);
    const std::uint32_t longest = most - guest.open.sampling.max_tokens;
    guest.prompt.resize(1 + below(random, std::min(longest, pick(random, {8U, 40U, longest}))));
    for (TokenId& token : guest.prompt) {
      token = static_cast<TokenId>(below(random, spec.vocabulary));
    }
    guest.open.prompt_tokens = static_cast<std::uint32_t>(guest.prompt.size());
    guest.joins_at = below(random, 40);
    if (below(random, 5) == 0) guest.leaves_at = guest.joins_at + 1 + below(random, 30);
  }
  return guests;
}

node::LocalOptions lone_options(const model::ModelSpec& spec, const kernels::Kernels* table) {
  node::LocalOptions options;
  options.stages = spec.layers;
  options.prefill_rows = limits::kBatchRows;
  options.kernels = table;
  options.sequences = 1;
  options.kv_budget_bytes = node::kv_budget_of(
      spec, {0, spec.layers}, pages_for(kMostPositions, kernels::kPageTokens), options.sequences);
  return options;
}

// Pages and states are for some of the guests only: the others wait until these come back.
node::LocalOptions crowd_options(const model::ModelSpec& spec, std::size_t guests, Random& random) {
  node::LocalOptions options;
  options.stages = 1 + below(random, std::min(spec.layers, limits::kStages));
  options.threads = pick(random, {1U, 1U, 2U, 4U});
  options.batch_rows = pick(random, {33U, 64U, 200U, limits::kBatchRows});
  options.prefill_rows = pick(random, {1U, 5U, 16U, 31U, 64U, 130U, limits::kBatchRows});
  const std::size_t together = 1 + guests / pick(random, {1U, 2U, 4U});
  options.sequences = static_cast<std::uint32_t>(together);
  options.kv_budget_bytes = node::kv_budget_of(
      spec, {0, spec.layers}, together * pages_for(kMostPositions, kernels::kPageTokens), together);
  return options;
}

Result<Reference> run_alone(node::LocalRunner& runner, const Guest& guest) {
  Reference reference;
  const std::size_t positions = guest.prompt.size() + guest.open.sampling.max_tokens - 1;
  reference.boundaries.resize(runner.spec().layers + 1, std::vector<Hash256>(positions));
  node::LocalRunner::Events events;
  Status kv_read = ok_status();
  events.on_token = [&](const SampledToken& token) {
    reference.tokens.push_back(token);
    if (token.finish == FinishReason::kNone || token.finish == FinishReason::kError) return;
    auto kv = runner.kv_hashes(token.sequence);
    if (kv.ok()) {
      reference.kv = std::move(*kv);
    } else {
      kv_read = kv.error();
    }
  };
  events.on_hash = [&](const RowHash& hash) {
    reference.boundaries[hash.layers.begin][hash.position] = hash.in;
    reference.boundaries[hash.layers.end][hash.position] = hash.out;
  };
  TRY_VOID(runner.submit(guest.open, guest.prompt, events));
  for (bool more = true; more;) {
    TRY(more, runner.step());
  }
  for (const SampledToken& token : reference.tokens) {
    if (token.finish == FinishReason::kError) {
      return Error{token.error, "the lone run failed at position " +
                                    std::to_string(token.position) +
                                    ": there is nothing to compare"};
    }
  }
  TRY_VOID(kv_read);
  const std::size_t read = guest.prompt.size() + reference.tokens.size() - 1;
  for (auto& boundary : reference.boundaries) boundary.resize(read);
  return reference;
}

// Holds what the crowd says of one guest against its lone run.
class Comparison {
 public:
  Comparison(const Guest& guest, Reference reference, std::uint32_t stages)
      : guest_(guest),
        reference_(std::move(reference)),
        stages_(stages),
        hashed_(positions(), 0),
        wrong_(positions(), false) {}

  void on_hash(const RowHash& hash) {
    if (hash.position >= positions()) {
      ++beyond_;
      note(hash.position, "a position that the lone run has not");
      return;
    }
    ++hashed_[hash.position];
    const std::uint32_t ends[] = {hash.layers.begin, hash.layers.end};
    const Hash256* found[] = {&hash.in, &hash.out};
    for (int i = 0; i < 2; ++i) {
      if (reference_.boundaries[ends[i]][hash.position] == *found[i]) continue;
      wrong_[hash.position] = true;
      note(hash.position, "the hash at layer " + std::to_string(ends[i]));
    }
  }

  void on_token(const SampledToken& token) {
    const std::size_t index = tokens_++;
    if (index >= reference_.tokens.size() || token == reference_.tokens[index]) return;
    wrong_[row_of(index)] = true;
    note(static_cast<Position>(row_of(index)), "the sampled token or its log probabilities");
  }

  // Of a guest that has just finished.
  void on_kv(const Result<std::vector<Hash256>>& kv) {
    if (kv.ok() && *kv == reference_.kv) return;
    wrong_.back() = true;
    note(static_cast<Position>(positions() - 1), "the keys or values");
  }

  void compare_logits(const LogitsHashes& lone, const LogitsHashes& crowd) {
    for (std::size_t i = guest_.prompt.size() - 1; i < row_of(tokens_); ++i) {
      const auto position = static_cast<Position>(i);
      const Hash256* wanted = lone.find(guest_.open.sequence, position);
      const Hash256* found = crowd.find(guest_.open.sequence, position);
      if (wanted != nullptr && found != nullptr && *wanted == *found) continue;
      if (i >= positions()) break;  // counted as beyond
      wrong_[i] = true;
      note(position, "the logits");
    }
  }

  void leave() { left_ = true; }
  bool over() const { return left_ || tokens_ >= reference_.tokens.size(); }

  // A guest that stayed must have every position of its lone run; one that left, whole ones.
  SoakCount count() {
    SoakCount counted;
    for (std::size_t i = 0; i < positions(); ++i) {
      const bool samples = i + 1 >= guest_.prompt.size();
      const bool whole = hashed_[i] == stages_ && (!samples || i < row_of(tokens_));
      if (!whole && !left_) {
        wrong_[i] = true;
        note(static_cast<Position>(i), "hashes or tokens are missing");
      }
      if (!whole && left_ && !wrong_[i]) continue;
      ++counted.compared;
      if (samples) ++counted.sampled;
      if (wrong_[i]) ++counted.unequal;
    }
    counted.compared += beyond_;
    counted.unequal += beyond_;
    counted.first = first_;
    return counted;
  }

 private:
  std::size_t positions() const { return reference_.boundaries.front().size(); }
  std::size_t row_of(std::size_t token) const { return guest_.prompt.size() - 1 + token; }
  void note(Position position, const std::string& what) {
    if (!first_.empty()) return;
    first_ = "sequence " + std::to_string(guest_.open.sequence.value) + ", position " +
             std::to_string(position) + ": " + what;
  }

  const Guest& guest_;
  const Reference reference_;
  const std::uint32_t stages_;
  std::vector<std::uint32_t> hashed_;  // by how many stages
  std::vector<bool> wrong_;
  std::size_t tokens_ = 0;
  std::uint64_t beyond_ = 0;
  bool left_ = false;
  std::string first_;
};

Result<std::vector<Reference>> run_all_alone(const SoakModel& model, const model::ModelSpec& spec,
                                             const kernels::Kernels* table,
                                             const std::vector<Guest>& guests, LogitsHashes& logits,
                                             const std::function<bool()>& stop) {
  node::LocalOptions options = lone_options(spec, table);
  options.logits = &logits;
  TRY(const auto runner, node::LocalRunner::load(model.file, options));
  std::vector<Reference> references;
  for (const Guest& guest : guests) {
    if (stop()) return Error{ErrorCode::kCancelled, "interrupted"};
    TRY(references.emplace_back(), run_alone(*runner, guest));
  }
  return references;
}

// False when there is no page or no state for it yet.
Result<bool> join(node::LocalRunner& runner, const Guest& guest, Comparison& comparison) {
  node::LocalRunner::Events events;
  events.on_hash = [&comparison](const RowHash& hash) { comparison.on_hash(hash); };
  events.on_token = [&comparison, &runner](const SampledToken& token) {
    comparison.on_token(token);
    if (token.finish != FinishReason::kNone) comparison.on_kv(runner.kv_hashes(token.sequence));
  };
  const Status joined = runner.submit(guest.open, guest.prompt, events);
  if (joined.ok()) return true;
  if (joined.error().code == ErrorCode::kNoCapacity) return false;
  return joined.error();
}

Status run_crowd(const SoakModel& model, const SoakTables& tables, const std::vector<Guest>& guests,
                 std::vector<Comparison>& comparisons, node::LocalOptions options, Random& random,
                 const std::function<bool()>& stop) {
  kernels::Kernels table = *tables.crowd.front();
  options.kernels = &table;
  if (tables.device != nullptr) options.devices = {tables.device};
  TRY(const auto runner, node::LocalRunner::load(model.file, options));
  std::vector<bool> joined(guests.size(), false);
  bool waiting = true;
  bool more = true;
  for (std::uint32_t step = 0; waiting || more; ++step) {
    if (stop()) return Error{ErrorCode::kCancelled, "interrupted"};
    waiting = false;
    for (std::size_t i = 0; i < guests.size(); ++i) {
      const Guest& guest = guests[i];
      if (!joined[i] && guest.joins_at <= step) {
        TRY(joined[i], join(*runner, guest, comparisons[i]));
      }
      waiting = waiting || !joined[i];
      if (joined[i] && guest.leaves_at != 0 && guest.leaves_at <= step && !comparisons[i].over()) {
        runner->cancel(guest.open.sequence);
        comparisons[i].leave();
      }
    }
    table = *draw(random, tables.crowd);
    TRY(more, runner->step());
  }
  return ok_status();
}

}  // namespace

void SoakCount::add(const SoakCount& other) {
  compared += other.compared;
  sampled += other.sampled;
  unequal += other.unequal;
  if (first.empty()) first = other.first;
}

Result<SoakCount> soak_round(const SoakModel& model, const SoakTables& tables, SeededRandom random,
                             const std::function<bool()>& stop) {
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*model.file));
  REQUIRE(spec.context >= kLeastContext, model.name + " has a context of " +
                                             std::to_string(spec.context) + ", the soak takes " +
                                             std::to_string(kLeastContext));
  const std::vector<Guest> guests = guests_of(spec, random);
  LogitsHashes lone_logits(guests);
  LogitsHashes crowd_logits(guests);
  node::LocalOptions options = crowd_options(spec, guests.size(), random);
  const kernels::Kernels* lone = draw(random, tables.lone);
  TRY(std::vector<Reference> references,
      run_all_alone(model, spec, lone, guests, lone_logits, stop));
  std::vector<Comparison> comparisons;
  comparisons.reserve(guests.size());
  for (std::size_t i = 0; i < guests.size(); ++i) {
    comparisons.emplace_back(guests[i], std::move(references[i]), options.stages);
  }
  options.logits = &crowd_logits;
  TRY_VOID(run_crowd(model, tables, guests, comparisons, options, random, stop));
  SoakCount count;
  for (Comparison& comparison : comparisons) {
    comparison.compare_logits(lone_logits, crowd_logits);
    count.add(comparison.count());
  }
  if (!count.first.empty()) count.first = model.name + ", " + count.first;
  return count;
}

}  // namespace hearth::cli
