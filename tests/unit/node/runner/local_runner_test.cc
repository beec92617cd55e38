#include "node/runner/local_runner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "kernels/kernels.h"
#include "model/grammar/grammar.h"
#include "model/synthetic.h"
#include "tests/e2e/trace.h"

namespace hearth::node {
namespace {

SamplingParams sampled(std::uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  params.temperature = 0.9F;
  params.top_k = 40;
  params.top_p = 0.95F;
  params.min_p = 0.01F;
  params.repetition_penalty = 1.1F;
  params.presence_penalty = 0.3F;
  params.frequency_penalty = 0.2F;
  params.logit_bias = {{5, 1.0F}, {6, -3.0F}};
  return params;
}

const Bytes& grammar_bytes() {
  static const Bytes bytes =
      model::compile_grammar({model::GrammarSource::Kind::kJsonSchema,
                              R"({"type":"array","items":{"enum":["red","green",12]}})"})
          .value()
          ->bytes();
  return bytes;
}

std::vector<Request> requests_of(std::uint64_t seed, std::uint32_t count, std::uint64_t first_id,
                                 std::uint32_t vocabulary) {
  SeededRandom random(seed);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request;
    request.id = SequenceId(first_id + i);
    const std::uint64_t length = 1 + random.next() % (i % 3 == 0 ? 80 : 20);
    for (std::uint64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.next() % vocabulary));
    }
    if (i % 3 == 1) request.sampling = sampled(random.next());
    if (i % 3 == 0) request.sampling.temperature = 0.0F;
    request.sampling.seed = random.next();
    request.sampling.max_tokens = 6 + random.next() % 8;
    request.sampling.logprobs = i % 2 == 0;
    if (i % 4 == 1) {
      request.sampling.grammar = grammar_bytes();
      request.sampling.max_tokens = 14;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

class LocalRunnerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model::SyntheticOptions options;
    options.layers = 5;
    bytes_ = new Bytes(model::synthetic_model_bytes(options).value());
  }

  void SetUp() override {
    file_ = model::GgufFile::parse(*bytes_, "tiny").value();
    requests_ = requests_of(1, 6, 1, 400);
    strangers_ = requests_of(2, 16, 100, 400);
  }

  static RunPlan plan_of(std::uint32_t stages, std::uint32_t threads, std::uint32_t prefill_rows,
                         std::string_view isa) {
    RunPlan plan;
    plan.options.stages = stages;
    plan.options.threads = threads;
    plan.options.prefill_rows = prefill_rows;
    plan.options.kv_budget_bytes = 16 << 20;
    plan.options.kernels = kernels::kernels_named(isa).value();
    return plan;
  }

  const Traces& base() {
    if (base_.empty()) {
      RunPlan plan = plan_of(5, 1, 512, "scalar");
      plan.one_by_one = true;
      base_ = run_plan(file_, plan, requests_);
    }
    return base_;
  }

  void expect_base(const RunPlan& plan, const std::string& what) {
    expect_same(run_plan(file_, plan, requests_), base(), plan.options.stages, what);
  }

  static Bytes* bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  std::vector<Request> requests_;
  std::vector<Request> strangers_;
  Traces base_;
};
Bytes* LocalRunnerTest::bytes_ = nullptr;

TEST_F(LocalRunnerTest, TheAnswerDoesNotDependOnInstructionsThreadsStagesOrChunks) {
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const std::uint32_t threads : {1U, 2U, 4U}) {
      for (const std::uint32_t stages : {1U, 2U, 3U, 5U}) {
        const std::uint32_t rows =
            std::vector<std::uint32_t>{512, 64, 7, 1}[(stages + threads) % 4];
        const std::string what = std::string(table->name) + ", threads " + std::to_string(threads) +
                                 ", stages " + std::to_string(stages) + ", chunk " +
                                 std::to_string(rows);
        expect_base(plan_of(stages, threads, rows, table->name), what);
      }
    }
  }
}

TEST_F(LocalRunnerTest, TheAnswerDoesNotDependOnChunksAlone) {
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const std::uint32_t rows : {1U, 7U, 64U, 512U}) {
      RunPlan plan = plan_of(2, 1, rows, table->name);
      plan.one_by_one = true;
      expect_base(plan, std::string(table->name) + ", alone, chunk " + std::to_string(rows));
    }
  }
}

TEST_F(LocalRunnerTest, TheAnswerDoesNotDependOnStrangers) {
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const std::uint32_t join_every : {0U, 3U}) {
      RunPlan plan = plan_of(3, 2, 33, table->name);
      plan.strangers = strangers_;
      plan.join_every = join_every;
      expect_base(plan, std::string(table->name) + ", among strangers");
    }
  }
}

// A prompt that is scored, and what its sequence says.
struct Scored {
  std::vector<SampledToken> scores;
  std::vector<SampledToken> tokens;
  std::vector<RowHash> hashes;
};

// `id` is new to the runner. What comes back has 0, so that runs compare.
Scored run_scored(LocalRunner& runner, const std::vector<TokenId>& prompt, bool scored,
                  std::uint64_t id = 1) {
  Scored out;
  SequenceOpen open;
  open.sequence = SequenceId(id);
  open.report_hashes = true;
  open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  open.sampling = sampled(11);
  open.sampling.logprobs = true;
  open.sampling.top_logprobs = 3;
  open.sampling.max_tokens = 5;
  if (scored) open.scored = prompt;
  LocalRunner::Events events;
  events.on_token = [&out](const SampledToken& token) {
    out.tokens.emplace_back(token).sequence = SequenceId(0);
  };
  events.on_score = [&out](const SampledToken& score) {
    EXPECT_TRUE(out.tokens.empty()) << "scores come before the first token";
    out.scores.emplace_back(score).sequence = SequenceId(0);
  };
  events.on_hash = [&out](const RowHash& hash) {
    out.hashes.emplace_back(hash).sequence = SequenceId(0);
  };
  EXPECT_TRUE(runner.submit(open, prompt, events).ok());
  while (step(runner)) {
  }
  return out;
}

// The score of a prompt's token is the log probability that it has as a token of an answer.
TEST_F(LocalRunnerTest, ScoresAreThoseOfTheTokensAsAnswers) {
  const std::vector<TokenId>& prompt = requests_[0].prompt;
  ASSERT_GT(prompt.size(), 2U);
  auto runner = LocalRunner::load(file_, plan_of(1, 1, 128, "scalar").options).value();
  const Scored scored = run_scored(*runner, prompt, true);
  ASSERT_EQ(scored.scores.size(), prompt.size() - 1);
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    SequenceOpen open;
    open.sequence = SequenceId(1 + i);
    open.prompt_tokens = static_cast<std::uint32_t>(i);
    open.sampling.max_tokens = 1;
    open.sampling.logprobs = true;
    open.sampling.top_logprobs = 3;
    open.sampling.temperature = 0.0F;
    open.sampling.logit_bias = {{prompt[i], 100.0F}};
    SampledToken answer;
    const std::vector<TokenId> before(prompt.begin(),
                                      prompt.begin() + static_cast<std::ptrdiff_t>(i));
    ASSERT_TRUE(
        runner->submit(open, before, {[&](const SampledToken& token) { answer = token; }, nullptr})
            .ok());
    while (step(*runner)) {
    }
    ASSERT_EQ(answer.token, prompt[i]);
    answer.finish = FinishReason::kNone;  // of the one-token answer
    answer.sequence = SequenceId(0);
    EXPECT_EQ(scored.scores[i - 1], answer) << i;
  }
}

TEST_F(LocalRunnerTest, ScoresDependOnNothingAndChangeNothing) {
  const std::vector<TokenId>& prompt = requests_[0].prompt;
  auto plain = LocalRunner::load(file_, plan_of(1, 1, 512, "scalar").options).value();
  const Scored base = run_scored(*plain, prompt, true);
  const Scored without = run_scored(*plain, prompt, false, 2);
  EXPECT_TRUE(without.scores.empty());
  EXPECT_EQ(without.tokens, base.tokens);
  EXPECT_EQ(without.hashes, base.hashes) << "receipts are of the same work";
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const std::uint32_t rows : {1U, 7U, 512U}) {
      for (const std::uint32_t stages : {1U, 3U}) {
        auto runner =
            LocalRunner::load(file_, plan_of(stages, 2, rows, table->name).options).value();
        for (const Request& stranger : strangers_) submit(*runner, stranger, nullptr);
        const Scored got = run_scored(*runner, prompt, true);
        const std::string what = std::string(table->name) + ", chunk " + std::to_string(rows) +
                                 ", stages " + std::to_string(stages);
        EXPECT_EQ(got.scores, base.scores) << what;
        EXPECT_EQ(got.tokens, base.tokens) << what;
      }
    }
  }
}

// The embedding of a prompt, of so many values.
std::vector<float> run_embedded(LocalRunner& runner, const std::vector<TokenId>& prompt,
                                std::uint32_t values, std::uint64_t id = 1) {
  std::vector<float> out;
  SequenceOpen open;
  open.sequence = SequenceId(id);
  open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  open.sampling.max_tokens = 1;
  open.sampling.temperature = 0.0F;
  open.embedding = values;
  std::uint32_t tokens = 0;
  LocalRunner::Events events;
  events.on_token = [&](const SampledToken& token) {
    EXPECT_EQ(token.finish, FinishReason::kLength);
    ++tokens;
  };
  events.on_embedding = [&](const PromptEmbedding& embedding) {
    EXPECT_TRUE(tokens == 0 && out.empty()) << "once, before the token";
    out = embedding.values;
  };
  EXPECT_TRUE(runner.submit(open, prompt, events).ok());
  while (step(runner)) {
  }
  EXPECT_EQ(tokens, 1U);
  EXPECT_EQ(out.size(), values);
  return out;
}

TEST_F(LocalRunnerTest, AnEmbeddingDependsOnThePromptAlone) {
  const std::vector<TokenId>& prompt = requests_[0].prompt;
  auto plain = LocalRunner::load(file_, plan_of(1, 1, 512, "scalar").options).value();
  const std::uint32_t hidden = plain->spec().hidden;
  const std::vector<float> base = run_embedded(*plain, prompt, hidden);
  double length = 0.0;
  for (const float value : base) length += double{value} * double{value};
  EXPECT_NEAR(length, 1.0, 1e-6);
  EXPECT_NE(run_embedded(*plain, requests_[1].prompt, hidden, 2), base);
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const std::uint32_t rows : {1U, 7U, 512U}) {
      for (const std::uint32_t stages : {1U, 3U}) {
        auto runner =
            LocalRunner::load(file_, plan_of(stages, 2, rows, table->name).options).value();
        for (const Request& stranger : strangers_) submit(*runner, stranger, nullptr);
        EXPECT_EQ(run_embedded(*runner, prompt, hidden), base)
            << table->name << ", chunk " << rows << ", stages " << stages;
      }
    }
  }
}

TEST_F(LocalRunnerTest, AShorterEmbeddingIsTheBeginningAtLengthOne) {
  const std::vector<TokenId>& prompt = requests_[0].prompt;
  auto runner = LocalRunner::load(file_, plan_of(1, 1, 512, "scalar").options).value();
  const std::vector<float> all = run_embedded(*runner, prompt, runner->spec().hidden);
  const std::vector<float> some = run_embedded(*runner, prompt, 33, 2);
  double squares = 0.0;
  for (std::size_t i = 0; i < some.size(); ++i) squares += double{all[i]} * double{all[i]};
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_NEAR(some[i], all[i] / std::sqrt(squares), 1e-6) << i;
  }
}

TEST_F(LocalRunnerTest, DifferentSeedsAndPromptsGiveDifferentTraces) {
  std::vector<Request> changed = requests_;
  for (Request& request : changed) {
    request.prompt[0] = (request.prompt[0] + 1) % 400;
    request.sampling.seed += 1;
  }
  const Traces traces = run_plan(file_, plan_of(1, 1, 128, "scalar"), changed);
  for (const auto& [id, trace] : traces) {
    EXPECT_NE(trace.boundaries.at({0, 0}), base().at(id).boundaries.at({0, 0}));
  }
  EXPECT_NE(traces.at(2).tokens, base().at(2).tokens);
}

TEST_F(LocalRunnerTest, RefusesWhatDoesNotFitAndTakesItWhenPagesComeBack) {
  RunPlan plan = plan_of(2, 1, 128, "scalar");
  plan.options.kv_budget_bytes = 16 << 20;
  auto probe = LocalRunner::load(file_, plan.options).value();
  SequenceOpen open;
  open.sequence = SequenceId(1);
  open.prompt_tokens = 400;
  open.sampling.max_tokens = 200;
  const std::vector<TokenId> prompt(400, 7);
  EXPECT_EQ(probe->submit(open, prompt, {}).error().code, ErrorCode::kNoCapacity);  // context
  open.sampling.temperature = -1.0F;
  EXPECT_EQ(probe->submit(open, prompt, {}).error().code, ErrorCode::kInvalidInput);

  plan.options.kv_budget_bytes = 300 << 10;
  auto runner = LocalRunner::load(file_, plan.options).value();
  open.sampling = {};
  open.sampling.max_tokens = 2;
  std::uint64_t taken = 0;
  std::uint64_t id = 1;
  int tokens = 0;
  for (; id < 100; ++id) {
    open.sequence = SequenceId(id);
    const Status status =
        runner->submit(open, prompt, {[&](const SampledToken&) { ++tokens; }, nullptr});
    if (!status.ok()) {
      EXPECT_EQ(status.error().code, ErrorCode::kNoCapacity);
      break;
    }
    ++taken;
  }
  ASSERT_GE(taken, 1U);
  ASSERT_LT(id, 100U);
  runner->cancel(SequenceId(1));
  while (step(*runner)) {
  }
  EXPECT_EQ(tokens, static_cast<int>(taken - 1) * 2);
  for (std::uint64_t i = 0; i < taken; ++i) {
    open.sequence = SequenceId(id + i);
    EXPECT_TRUE(runner->submit(open, prompt, {}).ok());
  }
}

// What failover rests upon: prompt and answer so far give the tokens that would have come, with
// their log probabilities, ends and penalties.
TEST_F(LocalRunnerTest, AnAnswerGoesOnFromAnyOfItsTokens) {
  auto runner = LocalRunner::load(file_, plan_of(2, 1, 7, "scalar").options).value();
  std::uint64_t id = 1;
  const auto answer = [&](const Request& request, const std::vector<SampledToken>& known) {
    SequenceOpen open{SequenceId(id++), static_cast<std::uint32_t>(request.prompt.size()), false,
                      request.sampling};
    std::vector<TokenId> tokens = request.prompt;
    for (const SampledToken& token : known) tokens.push_back(token.token);
    std::vector<SampledToken> got = known;
    const auto take = [&](const SampledToken& token) {
      got.push_back(token);
      got.back().sequence = request.id;
    };
    EXPECT_TRUE(runner->submit(open, std::move(tokens), {take, nullptr}).ok());
    while (step(*runner)) {
    }
    return got;
  };
  std::size_t cuts = 0;
  for (const Request& request : requests_) {
    const std::vector<SampledToken> whole = answer(request, {});
    ASSERT_NE(whole.back().finish, FinishReason::kNone);
    for (std::size_t cut = 1; cut < whole.size(); ++cut, ++cuts) {
      const auto known = static_cast<std::ptrdiff_t>(cut);
      EXPECT_EQ(answer(request, {whole.begin(), whole.begin() + known}), whole) << cut;
    }
  }
  EXPECT_GT(cuts, 30U);
}

TEST_F(LocalRunnerTest, ListenersMayCancelAndSubmit) {
  auto runner = LocalRunner::load(file_, plan_of(1, 1, 128, "scalar").options).value();
  SequenceOpen open;
  open.prompt_tokens = 3;
  open.sampling.max_tokens = 50;
  int own = 0;
  int other = 0;
  int later = 0;
  const std::vector<TokenId> prompt = {3, 4, 5};
  open.sequence = SequenceId(1);
  const auto on_own = [&](const SampledToken&) {
    if (++own != 4) return;
    runner->cancel(SequenceId(1));
    runner->cancel(SequenceId(2));
    SequenceOpen next = open;
    next.sequence = SequenceId(3);
    EXPECT_TRUE(runner->submit(next, prompt, {[&](const SampledToken&) { ++later; }, {}}).ok());
  };
  ASSERT_TRUE(runner->submit(open, prompt, {on_own, nullptr}).ok());
  open.sequence = SequenceId(2);
  ASSERT_TRUE(runner->submit(open, prompt, {[&](const SampledToken&) { ++other; }, {}}).ok());
  while (step(*runner)) {
  }
  EXPECT_EQ(own, 4);
  EXPECT_EQ(other, 3);
  EXPECT_EQ(later, 50);
}

TEST_F(LocalRunnerTest, RefusesOptionsThatCannotWork) {
  EXPECT_FALSE(LocalRunner::load(file_, plan_of(0, 1, 128, "scalar").options).ok());
  EXPECT_FALSE(LocalRunner::load(file_, plan_of(6, 1, 128, "scalar").options).ok());
  EXPECT_FALSE(LocalRunner::load(file_, plan_of(1, 0, 128, "scalar").options).ok());
  EXPECT_FALSE(LocalRunner::load(file_, plan_of(1, 1, 0, "scalar").options).ok());
  LocalOptions split = plan_of(2, 1, 128, "scalar").options;
  for (const auto& layers : std::vector<std::vector<LayerRange>>{
           {{0, 4}}, {{0, 4}, {4, 6}}, {{0, 2}, {3, 5}}, {{0, 3}, {2, 5}}, {{0, 5}, {5, 5}}}) {
    split.layers = layers;
    EXPECT_FALSE(LocalRunner::load(file_, split).ok());
  }
  split.layers = {{0, 4}, {4, 5}};
  EXPECT_TRUE(LocalRunner::load(file_, split).ok());
}

// Of a model whose sequences keep a state no token is drafted, and no more sequences run than have
// one.
TEST(LocalRunnerState, RunsAsManySequencesAsHaveAStateAndDraftsNone) {
  model::SyntheticOptions made;
  made.family = "qwen35";
  made.layers = 2;
  made.head_dim = 64;
  const Bytes bytes = model::synthetic_model_bytes(made).value();
  const auto file = model::GgufFile::parse(bytes, "qwen35").value();
  LocalOptions options;
  options.sequences = 2;
  options.draft_rows = 4;
  options.draft = [](const SequenceOpen&, Position) { return std::vector<TokenId>{7, 7}; };
  const Bytes draft_bytes = model::synthetic_model_bytes({}).value();
  const auto draft = model::GgufFile::parse(draft_bytes, "draft").value();
  EngineOptions small;
  small.kv_budget_bytes = 8 << 20;
  options.draft_model = DraftModel::load(DraftModel::open(draft, *draft, small).value()).value();
  options.draft_model_plan = ModelDrafts::Plan{2, false};
  auto runner = LocalRunner::load(file, options).value();
  std::uint32_t tokens = 0;
  const auto submit = [&](std::uint64_t id) {
    SequenceOpen open;
    open.sequence = SequenceId(id);
    open.prompt_tokens = 3;
    open.sampling.max_tokens = 4;
    LocalRunner::Events events;
    events.on_token = [&tokens](const SampledToken& token) {
      EXPECT_NE(token.finish, FinishReason::kError);
      ++tokens;
    };
    events.on_drafts = [](const DraftCounts&) { ADD_FAILURE() << "a token was drafted"; };
    return runner->submit(open, {5, 7, 7}, std::move(events));
  };
  ASSERT_TRUE(submit(1).ok());
  ASSERT_TRUE(submit(2).ok());
  const Status third = submit(3);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kNoCapacity);
  EXPECT_NE(third.error().message.find("wait until one ends"), std::string::npos);
  while (runner->step().value()) {
  }
  EXPECT_EQ(tokens, 8U);
  EXPECT_TRUE(submit(4).ok());
}

}  // namespace
}  // namespace hearth::node
