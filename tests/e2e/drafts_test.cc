// Drafts that are verified in one pass, and dropped where they are wrong, leave what a plain run
// leaves: tokens, log probabilities, keys and values, and the hash at every boundary. Schedules are
// random: how much is drafted and how much of it is right, what is dropped beyond that, who else is
// in the batch, how prompts are cut. Small random models of every family with drafts; a prompt is
// longer than the window of local layers and than a KV page.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "kernels/kernels.h"
#include "model/synthetic.h"
#include "node/engine/engine.h"
#include "node/engine/kv_cache.h"
#include "proto/split.h"
#include "tests/e2e/trace.h"
#include "tests/unit/model/family_name.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kLayers = 7;  // of a family with local layers, one sees everything
constexpr std::uint32_t kVocabulary = 400;
constexpr std::uint32_t kBatchRows = 64;
constexpr std::uint32_t kMostDrafts = 8;

std::shared_ptr<const model::GgufFile> model_of(std::string_view family, Bytes& bytes) {
  model::SyntheticOptions options;
  options.family = family;
  options.layers = kLayers;
  options.hidden = 96;
  options.feed_forward = 160;
  options.head_dim = 32;
  options.vocabulary = kVocabulary;
  options.sliding_window = 40;
  bytes = model::synthetic_model_bytes(options).value();
  return model::GgufFile::parse(bytes, "synthetic").value();
}

std::vector<Request> requests_of(SeededRandom& random, std::uint32_t count) {
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request;
    request.id = SequenceId(1 + i);
    const std::uint64_t length = i == 0 ? 90 : 1 + random.next() % 40;
    for (std::uint64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.next() % kVocabulary));
    }
    SamplingParams& sampling = request.sampling;
    sampling.max_tokens = static_cast<std::uint32_t>(1 + random.next() % 50);
    sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
    sampling.seed = random.next();
    sampling.logprobs = true;
    if (i % 2 == 1) {
      sampling.repetition_penalty = 1.3F;
      sampling.frequency_penalty = 0.8F;
      sampling.presence_penalty = 0.4F;
      sampling.top_p = 0.9F;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

// A sequence on its way, whose answer is known.
struct Sequence {
  const Request* request = nullptr;
  const Trace* wanted = nullptr;
  std::vector<TokenId> tokens;  // prompt and answer
  bool opened = false;
  bool done = false;
  Position next = 0;                                        // rows sent
  Position right = 0;                                       // of those, the first that were right
  std::set<std::pair<std::uint32_t, Position>> boundaries;  // whose hash was compared

  Position prompt() const { return static_cast<Position>(request->prompt.size()); }
  // The rows of a plain run: the last token of the answer is never read.
  Position end() const { return static_cast<Position>(tokens.size()) - 1; }
  SequenceOpen open() const { return {request->id, prompt(), true, request->sampling}; }
};

// Stages one after the other; batches travel as they do on a link.
class Ring {
 public:
  Ring(const std::shared_ptr<const model::GgufFile>& file, std::uint32_t stages,
       std::uint32_t pages, SeededRandom& random) {
    const model::ModelSpec spec = model::ModelSpec::read(*file).value();
    const auto tables = kernels::available_kernels();
    for (const LayerRange layers : split_layers(spec.layers, stages)) {
      EngineOptions options;
      options.layers = layers;
      options.stage = static_cast<std::uint32_t>(engines_.size());
      options.batch_rows = kBatchRows;
      options.threads = 1 + static_cast<std::uint32_t>(random.next() % 2);
      options.kernels = tables[random.next() % tables.size()];
      options.kv_budget_bytes = pages * KvCache::page_bytes(spec.kv_layouts(layers));
      engines_.push_back(Engine::load(file, spec, options).value());
      EXPECT_EQ(engines_.back()->kv_pages(), pages);
    }
  }

  StepResult step(const StepBatch& batch) {
    StepResult all;
    StepBatch travelling = batch;
    for (const auto& engine : engines_) {
      auto arrived = decode_step_batch(encode(travelling), engine->input_shape());
      EXPECT_TRUE(arrived.ok()) << (arrived.ok() ? "" : arrived.error().message);
      travelling = std::move(*arrived);
      StepResult result;
      const Status status = engine->step(travelling, result);
      EXPECT_TRUE(status.ok()) << status.error().message;
      all.hashes.insert(all.hashes.end(), result.hashes.begin(), result.hashes.end());
      all.tokens = std::move(result.tokens);
    }
    StepShape shape = engines_.back()->input_shape();
    const auto answer = decode_step_tokens(encode(StepTokens{{}, {}, all.tokens, {}}), shape);
    EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.error().message);
    return all;
  }

  std::vector<Hash256> kv_hashes(SequenceId sequence) const {
    std::vector<Hash256> hashes;
    for (const auto& engine : engines_) {
      const auto part = engine->kv_hashes(sequence);
      EXPECT_TRUE(part.ok()) << (part.ok() ? "" : part.error().message);
      hashes.insert(hashes.end(), part->begin(), part->end());
    }
    return hashes;
  }

  void expect_pages(std::uint32_t pages) const {
    for (const auto& engine : engines_) EXPECT_EQ(engine->kv_pages_used(), pages);
  }

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
};

class Schedule {
 public:
  Schedule(Ring& ring, const std::vector<Request>& requests, const Traces& traces,
           SeededRandom& random)
      : ring_(ring), random_(random) {
    acceptance_ = random_.next() % 101;
    for (const Request& request : requests) {
      Sequence& sequence = sequences_.emplace_back();
      sequence.request = &request;
      sequence.wanted = &traces.at(request.id.value);
      sequence.tokens = request.prompt;
      sequence.tokens.insert(sequence.tokens.end(), sequence.wanted->tokens.begin(),
                             sequence.wanted->tokens.end());
    }
  }

  void run() {
    while (!std::all_of(sequences_.begin(), sequences_.end(), [](auto& s) { return s.done; })) {
      StepBatch batch;
      std::vector<Sequence*> sent;
      for (Sequence& sequence : sequences_) {
        if (sequence.done || chance(40)) continue;
        if (sequence.right == sequence.end() && sequence.next == sequence.end()) {
          finish(sequence, batch);
        } else {
          add_rows(sequence, batch);
        }
        sent.push_back(&sequence);
      }
      const StepResult result = ring_.step(batch);
      for (const Sequence* sequence : sent) check_tokens(*sequence, result.tokens);
      for (const RowHash& hash : result.hashes) check_hash(hash);
      if (::testing::Test::HasFailure()) return;
      ring_.expect_pages(pages_held());
    }
    ring_.expect_pages(0);
  }

  std::uint32_t dropped() const { return dropped_; }
  std::uint32_t accepted() const { return accepted_; }

 private:
  bool chance(std::uint64_t percent) { return random_.next() % 100 < percent; }

  void add_rows(Sequence& sequence, StepBatch& batch) {
    if (!sequence.opened) batch.opens.push_back(sequence.open());
    sequence.opened = true;
    const bool may_drop = sequence.right > sequence.prompt();
    if (sequence.next > sequence.right || (may_drop && chance(10))) {
      Position length = sequence.right;
      if (may_drop && chance(2)) {  // as well as what was right: seldom, or nothing gets done
        length -= static_cast<Position>(random_.next() % (length - sequence.prompt() + 1));
      }
      batch.truncates.push_back({sequence.request->id, length});
      dropped_ += sequence.next - length;
      sequence.next = sequence.right = length;
    }
    if (sequence.right == sequence.end() && chance(70)) return;  // nothing is left to draft
    std::size_t room = kBatchRows - batch.rows.size();
    const std::size_t chunk = 1 + random_.next() % 50;
    for (std::size_t i = 0; i < chunk && room > 0 && sequence.next < sequence.prompt();
         ++i, --room) {
      add_row(sequence, batch, true);
    }
    if (sequence.next < sequence.prompt() || room == 0) return;
    const std::size_t drafts = 1 + random_.next() % kMostDrafts;
    const Position most = sequence.prompt() + sequence.request->sampling.max_tokens;
    for (std::size_t i = 0; i <= drafts && room > 0 && sequence.next < most; ++i, --room) {
      const bool right = sequence.next == sequence.right && sequence.next < sequence.end() &&
                         (i == 0 || chance(acceptance_));
      accepted_ += right && i > 0 ? 1 : 0;
      add_row(sequence, batch, right);
    }
  }

  void add_row(Sequence& sequence, StepBatch& batch, bool right) {
    const Position position = sequence.next++;
    TokenId token = sequence.tokens[position];
    if (!right) token = static_cast<TokenId>((token + 1 + random_.next() % 300) % kVocabulary);
    const bool sampled = sequence.next >= sequence.prompt();
    batch.rows.push_back(
        {sequence.request->id, position, token, sampled ? BatchRow::kSample : std::uint8_t{0}});
    if (right) sequence.right = sequence.next;
  }

  void finish(Sequence& sequence, StepBatch& batch) {
    EXPECT_EQ(ring_.kv_hashes(sequence.request->id), sequence.wanted->kv);
    std::set<std::uint32_t> cuts;
    for (const auto& [cut, position] : sequence.boundaries) cuts.insert(cut);
    EXPECT_EQ(sequence.boundaries.size(), cuts.size() * sequence.end());
    batch.releases.push_back(sequence.request->id);
    sequence.done = true;
  }

  // Every row that was right says what the plain run says.
  void check_tokens(const Sequence& sequence, const std::vector<SampledToken>& tokens) {
    for (const SampledToken& token : tokens) {
      if (token.sequence != sequence.request->id || token.position > sequence.right) continue;
      EXPECT_EQ(token.token, sequence.tokens[token.position]) << "position " << token.position;
      const std::size_t index = token.position - sequence.prompt();
      EXPECT_EQ(token.logprob, sequence.wanted->logprobs[index].logprob);
      EXPECT_EQ(token.finish,
                token.position == sequence.end() ? FinishReason::kLength : FinishReason::kNone);
    }
  }

  void check_hash(const RowHash& hash) {
    Sequence& sequence = sequences_[hash.sequence.value - 1];
    if (hash.position >= sequence.right) return;
    const auto check = [&](std::uint32_t boundary, const Hash256& value) {
      const std::pair place{boundary, hash.position};
      const auto wanted = sequence.wanted->boundaries.find(place);
      ASSERT_NE(wanted, sequence.wanted->boundaries.end());
      EXPECT_EQ(value, wanted->second) << "boundary " << boundary << ", " << hash.position;
      sequence.boundaries.insert(place);
    };
    check(hash.layers.begin, hash.in);
    check(hash.layers.end, hash.out);
  }

  std::uint32_t pages_held() const {
    std::uint32_t pages = 0;
    for (const Sequence& sequence : sequences_) {
      if (!sequence.done) pages += pages_for(sequence.next, kernels::kPageTokens);
    }
    return pages;
  }

  Ring& ring_;
  SeededRandom& random_;
  std::uint64_t acceptance_ = 0;  // percent
  std::vector<Sequence> sequences_;
  std::uint32_t dropped_ = 0;
  std::uint32_t accepted_ = 0;
};

class Drafts : public ::testing::TestWithParam<std::string_view> {};

TEST_P(Drafts, LeaveWhatAPlainRunLeaves) {
  Bytes bytes;
  const auto file = model_of(GetParam(), bytes);
  std::uint32_t dropped = 0;
  std::uint32_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    const std::vector<Request> requests =
        requests_of(random, 1 + static_cast<std::uint32_t>(random.next() % 6));
    RunPlan plan;
    plan.options.stages = kLayers;
    plan.options.prefill_rows = 512;
    plan.options.kernels = kernels::available_kernels().back();
    plan.one_by_one = true;
    const Traces traces = run_plan(file, plan, requests);
    std::uint32_t pages = 0;
    for (const Request& request : requests) {
      const std::size_t positions = request.prompt.size() + request.sampling.max_tokens;
      pages += pages_for(static_cast<std::uint32_t>(positions), kernels::kPageTokens);
    }
    Ring ring(file, 1 + static_cast<std::uint32_t>(seed % 3), pages, random);
    Schedule schedule(ring, requests, traces, random);
    schedule.run();
    ASSERT_FALSE(HasFailure());
    dropped += schedule.dropped();
    accepted += schedule.accepted();
  }
  EXPECT_GT(dropped, 200U);
  EXPECT_GT(accepted, 100U);
}

INSTANTIATE_TEST_SUITE_P(Families, Drafts, ::testing::ValuesIn(model::families_with_drafts()),
                         [](const auto& info) { return model::family_test_name(info.param); });

}  // namespace
}  // namespace hearth::node
