// How often a lie is found: real engines serve many windows on one pipeline, one of whose stages
// lies in some of them, and what the policy's draws select is computed again on another one. Of the
// windows with a lie as many are found as the rates say that their workers had earned, within four
// standard deviations; each names the stage that lied; and where no stage lied nothing is found.
//
// Keys, requests and seals follow from their numbers, so every run is the same run; but any byte of
// the log that becomes another one draws all windows anew, and one of seven intervals of 99 % would
// then fail by chance one time in fourteen. So they are wider, and there are as many requests as
// make them as narrow, beside what is expected, as those of 99 % of 300 would be.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/attacks/real_swarm.h"

namespace hearth::attacks {
namespace {

constexpr unsigned kRequests = 750;

struct Detection : ::testing::Test {
  // `lied`: whether there was a lie in the request that was answered last.
  void measure(std::uint16_t stage, const std::function<bool(const RealSwarm::Answer&)>& lied,
               unsigned requests = kRequests, std::uint32_t prompt_tokens = 12) {
    double expected = 0;
    double variance = 0;
    std::set<ledger::RequestId> must;
    for (unsigned i = 1; i <= requests; ++i) {
      const RealSwarm::Answer answer = swarm.ask(i, prompt_tokens);
      ASSERT_TRUE(swarm.unseen.contains(answer.request));
      if (!lied(answer)) continue;
      const double seen = 1 - swarm.unseen.at(answer.request);
      expected += seen;
      variance += seen * (1 - seen);
      if (swarm.drawn.contains(answer.request)) must.insert(answer.request);
    }
    std::set<ledger::RequestId> found;
    for (const std::uint64_t entry : swarm.books.disputes()) {
      const ledger::Slot& slot = swarm.books.receipt(entry)->slot;
      EXPECT_EQ(slot.stage, stage);
      EXPECT_EQ(slot.epoch, swarm.pipelines[0]->epoch.value);
      found.insert(slot.request);
    }
    EXPECT_EQ(found, must) << "every lie that was drawn, and nothing else";
    EXPECT_EQ(swarm.books.audits().missed, 0u);
    const double interval = 4.0 * std::sqrt(variance) + 0.5;
    EXPECT_NEAR(static_cast<double>(found.size()), expected, interval);
    EXPECT_GT(variance, 1) << "enough windows at a rate below one";
    RecordProperty("found", static_cast<int>(found.size()));
    std::printf("found %zu; computed %.1f, standard deviation %.1f\n", found.size(), expected,
                std::sqrt(variance));
  }
  static bool always(const RealSwarm::Answer&) { return true; }
  static void one_off(StepBatch& batch, std::size_t row) {
    set_residual(batch, row, 9, residual(batch, row, 9) ^ 1);
  }

  RealSwarm swarm{coordinator::AuditMode::kSpot};
};

TEST_F(Detection, NobodyLies) {
  for (unsigned i = 1; i <= kRequests; ++i) swarm.ask(i);
  EXPECT_TRUE(swarm.books.disputes().empty());
  EXPECT_GT(swarm.books.audits().agreed, 100u);
  EXPECT_EQ(swarm.books.audits().missed, 0u);
}

TEST_F(Detection, WeightsOfFewerBits) {
  model::SyntheticOptions coarse = small_model();
  coarse.attention_type = model::TensorType::kQ4_0;
  swarm.stage(0, 1).engine =
      load_engine(parse_model(model::synthetic_model_bytes(coarse).value()), {2, 4}, 1);
  measure(1, always);
}

TEST_F(Detection, ALayerLeftOut) {
  swarm.stage(0, 0).engine = load_engine(swarm.file, {0, 1}, 0);
  measure(0, always);
}

TEST_F(Detection, OneUnitOffInOneOfAThousandTokens) {
  std::uint64_t rows = 0;
  bool lied = false;
  swarm.stage(0, 1).lie = [&](StepBatch& batch, const Bytes&) {
    for (std::size_t row = 0; row < batch.rows.size(); ++row) {
      if (++rows % 1'000 != 0) continue;
      one_off(batch, row);
      lied = true;
    }
  };
  measure(
      1, [&lied](const RealSwarm::Answer&) { return std::exchange(lied, false); }, 900, 96);
}

TEST_F(Detection, RowsOfTheRequestBefore) {
  // In every third answer, what it said of the same positions the time before.
  std::map<Position, Bytes> before;
  unsigned number = 0;
  swarm.stage(0, 1).lie = [&](StepBatch& batch, const Bytes&) {
    if (batch.rows.empty()) return;
    if (batch.rows.front().position == 0) ++number;
    const std::size_t each = batch.activations.size() / batch.rows.size();
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const auto row = batch.activations.begin() + static_cast<std::ptrdiff_t>(i * each);
      Bytes& kept = before[batch.rows[i].position];
      if (number % 3 == 0) {
        std::copy(kept.begin(), kept.end(), row);
      } else {
        kept.assign(row, row + static_cast<std::ptrdiff_t>(each));
      }
    }
  };
  measure(1, [&number](const RealSwarm::Answer&) { return number % 3 == 0; });
}

TEST_F(Detection, TheLikeliestTokenInsteadOfADraw) {
  RealPipeline reference(swarm.file, Epoch(9), "r", 60, swarm.clock);
  swarm.stage(0, 2).compute = [](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
    const std::vector<SequenceOpen> opens = batch.opens;
    for (SequenceOpen& open : batch.opens) open.sampling.temperature = 0;
    const Status done = engine.step(batch, result);
    batch.opens = opens;
    return done;
  };
  unsigned number = 0;
  measure(2, [&](const RealSwarm::Answer& answer) {
    // The last token is in no receipt: it was never fed.
    SamplingParams sampling;
    sampling.temperature = 0.8F;
    sampling.seed = ++number;
    sampling.max_tokens = 4;
    auto right = reference.compute(swarm.open(answer.prompt, sampling, {}), answer.prompt).value();
    std::vector<TokenId> said = answer.tokens;
    right.pop_back();
    said.pop_back();
    return said != right;
  });
}

TEST_F(Detection, AMaskThatIsIgnored) {
  // In every third answer.
  swarm.grammar = any_object_grammar();
  unsigned number = 0;
  swarm.stage(0, 2).compute = [&number](node::Engine& engine, StepBatch& batch,
                                        node::StepResult& result) {
    number += static_cast<unsigned>(batch.opens.size());
    return number % 3 == 0 ? compute_without_mask(engine, batch, result)
                           : engine.step(batch, result);
  };
  measure(2, [&number](const RealSwarm::Answer&) { return number % 3 == 0; });
}

TEST_F(Detection, InThePromptAlone) {
  unsigned number = 0;
  swarm.stage(0, 0).lie = [&](StepBatch& batch, const Bytes&) {
    if (batch.rows.empty() || batch.rows.front().position > 0) return;
    if (++number % 2 == 0) one_off(batch, 4);
  };
  measure(0, [&number](const RealSwarm::Answer&) { return number % 2 == 0; });
}

}  // namespace
}  // namespace hearth::attacks
