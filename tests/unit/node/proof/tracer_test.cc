#include "node/proof/tracer.h"

#include <gtest/gtest.h>

#include "disputed.h"
#include "ledger/merkle.h"
#include "node/runner/local_runner.h"

namespace hearth::node {
namespace {

// What the engine says of the same tokens, by stage and position.
std::vector<std::vector<Hash256>> engine_rows(const Disputed& of, std::vector<LayerRange> split) {
  LocalOptions local;
  local.stages = static_cast<std::uint32_t>(split.size());
  local.layers = std::move(split);
  auto runner = LocalRunner::load(of.file, local).value();
  std::vector<std::vector<Hash256>> rows(local.stages, std::vector<Hash256>(Disputed::kPositions));
  SequenceOpen open;
  open.sequence = SequenceId(1);
  open.prompt_tokens = Disputed::kPrompt;
  open.report_hashes = true;
  open.sampling = of.input.sampling;
  open.sampling.max_tokens = 20;
  LocalRunner::Events events;
  events.on_hash = [&rows](const RowHash& hash) {
    if (hash.position < Disputed::kPositions) rows[hash.stage][hash.position] = hash.out;
  };
  EXPECT_TRUE(runner->submit(open, of.input.tokens, events).ok());
  for (bool more = true; more;) more = runner->step().value();
  return rows;
}

TEST(Tracer, RowsAreTheEnginesInEveryFamily) {
  for (const char* family : {"llama", "qwen2", "qwen3", "gemma3"}) {
    SCOPED_TRACE(family);
    const Disputed of(disputed_model(family), {1, 3});
    const auto first = Disputed::tracer(of, {0, 1}, {});
    const auto rows = engine_rows(of, {{0, 1}, {1, 3}});
    EXPECT_EQ(first->rows_out(), rows[0]);
    EXPECT_EQ(of.honest->rows_in(), rows[0]);
    // What the last stage samples is behind the prompt's last token.
    EXPECT_EQ(of.honest->rows_out(), rows[1]);
  }
}

TEST(Tracer, APositionIsComputedAgainAsItWas) {
  const Disputed of(disputed_model("gemma3"), {0, 2});
  for (const std::uint32_t position : {8U, 0U, 5U}) {
    const auto values = of.honest->values(position).value();
    EXPECT_EQ(ledger::subtree_root(of.honest->leaves(position, values)),
              of.honest->position_roots()[position]);
    ASSERT_EQ(values.size(), of.honest->shape().slots(position));
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const auto slot = of.honest->shape().at(position, i);
      EXPECT_EQ(of.honest->shape().index_of(position, slot), i);
      EXPECT_EQ(values[i].size(), of.honest->shape().value_bytes(slot.op))
          << trace_op_name(slot.op);
    }
  }
  EXPECT_FALSE(of.honest->values(Disputed::kPositions).ok());
}

TEST(Tracer, RefusesWhatDoesNotFitTheModel) {
  const Disputed of(disputed_model("llama"), {0, 2});
  const auto& table = *kernels::select_kernels().value();
  TraceInput none = of.input;
  none.tokens.clear();
  EXPECT_FALSE(Tracer::prepare(of.file, {0, 2}, none, table).ok());
  TraceInput strange = of.input;
  strange.tokens[1] = 100'000;
  EXPECT_FALSE(Tracer::prepare(of.file, {0, 2}, strange, table).ok());
  EXPECT_FALSE(Tracer::prepare(of.file, {1, 2}, of.input, table).ok()) << "no rows came in";
  EXPECT_FALSE(Tracer::prepare(of.file, {0, 9}, of.input, table).ok());
}

}  // namespace
}  // namespace hearth::node
