#include "node/proof/trace_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "disputed.h"

namespace hearth::node {
namespace {

using ledger::DisputeFile;
using ledger::TraceOp;
using ledger::TraceSlot;

constexpr std::size_t kMessages = 20;

// Every value becomes another one, of the same kind.
void distort(const ledger::TraceShape& shape, TraceOp op, Bytes& value) {
  if (shape.element_bytes(op) != sizeof(float)) {
    const std::size_t size = shape.element_bytes(op) == 2 ? value.size() : value.size() / 2;
    for (std::size_t i = 0; i < size; i += 2) value[i] ^= std::byte{5};
    return;
  }
  if (op == TraceOp::kToken) {
    value[0] ^= std::byte{1};
    return;
  }
  std::vector<float> x = floats_of(value);
  for (float& v : x) v = v * 1.5F + 0.25F;
  value = bytes_of(x);
}

// Nothing is computed from a chain: who lies there alone has no dispute, so it lies of its row too.
Fault at(const ledger::TraceShape& shape, std::uint32_t position, TraceSlot slot) {
  return [&shape, position, slot](std::uint32_t where, const TraceSlot& what, Bytes& value) {
    if (where != position) return;
    if (what == slot) distort(shape, slot.op, value);
    if (slot.op == TraceOp::kChain && what.op == TraceOp::kOutgoing) value[0] ^= std::byte{1};
  };
}

// The game ends exactly there, the liar is wrong and the honest side is not, in both roles.
void expect_found(const Disputed& of, Tracer& liar, std::uint32_t position, TraceSlot slot,
                  const model::GgufFile* model, bool with_tokens = false) {
  SCOPED_TRACE("position " + std::to_string(position) + " layer " + std::to_string(slot.layer) +
               " " + std::string(trace_op_name(slot.op)));
  ASSERT_TRUE(of.differ(liar, *of.honest));
  for (const std::size_t role : {0U, 1U}) {
    DisputeFile file = role == 0 ? of.play(liar, *of.honest, 1) : of.play(*of.honest, liar, 0);
    if (with_tokens) file.tokens = of.tokens();
    EXPECT_LE(file.moves.size(), kMessages);
    const auto written = write_dispute(file);
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto parsed = ledger::parse_dispute(*written);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    const auto finding = check_dispute(*parsed, model);
    ASSERT_TRUE(finding.ok()) << finding.error().message;
    ASSERT_TRUE(finding->decided) << finding->why;
    ASSERT_TRUE(finding->found.has_value());
    EXPECT_EQ(finding->found->position, position);
    EXPECT_EQ(finding->found->what, slot) << trace_op_name(finding->found->what.op);
    EXPECT_TRUE(finding->wrong[role]);
    EXPECT_FALSE(finding->wrong[1 - role]) << finding->why;
  }
}

class EveryOperation : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryOperation, IsFoundWhereItWentWrong) {
  const Disputed of(disputed_model(GetParam()), {1, 3});
  const Disputed first(disputed_model(GetParam()), {0, 2});
  for (std::uint32_t i = 0; i < first.honest->shape().slots(7); ++i) {
    const TraceSlot slot = first.honest->shape().at(7, i);
    if (slot.op == TraceOp::kIncoming) continue;  // below: it needs the tokens
    const auto liar = first.liar(at(first.honest->shape(), 7, slot));
    expect_found(first, *liar, 7, slot, nullptr);
    expect_found(first, *liar, 7, slot, first.file.get());
  }
  for (std::uint32_t i = 0; i < of.honest->shape().slots(7); ++i) {
    const TraceSlot slot = of.honest->shape().at(7, i);
    const auto liar = of.liar(at(of.honest->shape(), 7, slot));
    if (!of.differ(*liar, *of.honest)) continue;  // the same token for all that
    expect_found(of, *liar, 7, slot, nullptr, slot.op == TraceOp::kToken);
  }
}
INSTANTIATE_TEST_SUITE_P(Families, EveryOperation,
                         ::testing::Values("llama", "qwen2", "qwen3", "gemma3"));

TEST(TraceCheck, OneActivationOneUnitOffIsFound) {
  const Disputed of(disputed_model("llama"), {0, 2});
  const TraceSlot slot{TraceOp::kMixed, 1};
  const auto liar = of.liar([slot](std::uint32_t position, const TraceSlot& what, Bytes& value) {
    if (position == 4 && what == slot) {
      value[3] = static_cast<std::byte>(std::to_integer<int>(value[3]) + 1);
    }
  });
  expect_found(of, *liar, 4, slot, of.file.get());
}

TEST(TraceCheck, ASmallerQuantisationNeedsTheModelToBeTold) {
  model::SyntheticOptions options = disputed_model("llama");
  options.feed_forward_type = model::TensorType::kQ8_0;
  const Disputed of(options, {0, 2});
  options.feed_forward_type = model::TensorType::kQ4_0;
  const Bytes smaller = model::synthetic_model_bytes(options).value();
  const auto liar = of.with(model::GgufFile::parse(smaller, "smaller").value());
  expect_found(of, *liar, 0, {TraceOp::kGate, 0}, of.file.get());
  const auto alone = check_dispute(of.play(*liar, *of.honest, 1), nullptr);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_FALSE(alone->decided);
  EXPECT_NE(alone->why.find("--model"), std::string::npos) << alone->why;
}

TEST(TraceCheck, AWrongAngleIsTheModelsOtherShape) {
  model::SyntheticOptions options = disputed_model("llama");
  const Disputed of(options, {0, 2});
  options.rope_base = 5'000.0F;
  const Bytes turned = model::synthetic_model_bytes(options).value();
  const auto liar = of.with(model::GgufFile::parse(turned, "turned").value());
  for (const std::size_t role : {0U, 1U}) {
    const DisputeFile file =
        role == 0 ? of.play(*liar, *of.honest, 1) : of.play(*of.honest, *liar, 0);
    EXPECT_FALSE(check_dispute(file, nullptr)->decided);
    const auto finding = check_dispute(file, of.file.get());
    ASSERT_TRUE(finding.ok()) << finding.error().message;
    EXPECT_TRUE(finding->decided && finding->wrong[role] && !finding->wrong[1 - role]);
  }
}

TEST(TraceCheck, ASkippedLayerEndsAtWhatItDidNotCompute) {
  const Disputed of(disputed_model("llama"), {0, 2});
  Bytes before;
  const auto skipper = of.liar([&](std::uint32_t, const TraceSlot& slot, Bytes& value) {
    if (slot == TraceSlot{TraceOp::kResidual, 0}) before = value;
    if (slot == TraceSlot{TraceOp::kResidual, 1}) value = before;
  });
  expect_found(of, *skipper, 0, {TraceOp::kResidual, 1}, of.file.get());
  const auto lazy = of.liar([&](std::uint32_t, const TraceSlot& slot, Bytes& value) {
    if (slot.layer == 1 && slot.op != TraceOp::kResidual) std::ranges::fill(value, std::byte{});
    if (slot == TraceSlot{TraceOp::kResidual, 0}) before = value;
    if (slot == TraceSlot{TraceOp::kResidual, 1}) value = before;
  });
  expect_found(of, *lazy, 0, {TraceOp::kAttentionNorm, 1}, of.file.get());
}

TEST(TraceCheck, ConstantActivationsAreFoundAtTheFirstRow) {
  const Disputed of(disputed_model("llama"), {0, 2});
  const auto liar = of.liar([](std::uint32_t, const TraceSlot& slot, Bytes& value) {
    if (slot == TraceSlot{TraceOp::kResidual, 1}) std::ranges::fill(value, std::byte{0x11});
  });
  expect_found(of, *liar, 0, {TraceOp::kResidual, 1}, nullptr);
}

// The first row that differs is a later one than that whose keys are wrong: the trace goes back.
TEST(TraceCheck, AStaleKeyIsFoundAtThePositionThatStoredIt) {
  const Disputed of(disputed_model("llama"), {0, 2});
  const TraceSlot stored{TraceOp::kStored, 0};
  Bytes last;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> right;
  for (std::uint32_t position = 0; position < Disputed::kPositions; ++position) {
    const auto values = of.honest->values(position).value();
    for (std::uint32_t i = 0; i < values.size(); ++i) right[{position, i}] = values[i];
  }
  const auto& shape = of.honest->shape();
  const auto liar = of.liar([&](std::uint32_t position, const TraceSlot& slot, Bytes& value) {
    if (slot == stored && position == 3) value = right[{2, shape.index_of(2, stored)}];
    // What it says of position 3 itself is right, so that its row is.
    if (position == 3 && slot.op == TraceOp::kAttention) {
      value = right[{3, shape.index_of(3, slot)}];
    }
  });
  std::uint32_t first = 0;
  while (liar->rows_out()[first] == of.honest->rows_out()[first]) ++first;
  EXPECT_GT(first, 3U);
  expect_found(of, *liar, 3, stored, of.file.get());
}

TEST(TraceCheck, AFalseInputIsToldByTheRootThatCameIn) {
  const Disputed of(disputed_model("llama"), {1, 2});
  TraceInput other = of.input;
  other.rows[5][9] ^= std::byte{1};
  auto parts = Tracer::prepare(of.file, of.layers, other, *kernels::select_kernels().value());
  FaultyTracer liar(std::move(parts).value(), {});
  ASSERT_TRUE(liar.run().ok());
  expect_found(of, liar, 5, {TraceOp::kIncoming, 1}, nullptr);
}

TEST(TraceCheck, AFalseTokenNeedsTheTokensThatTheOwnerMayGive) {
  const Disputed of(disputed_model("llama"), {0, 2});
  TraceInput other = of.input;
  other.tokens[5] += 1;
  auto parts = Tracer::prepare(of.file, of.layers, other, *kernels::select_kernels().value());
  FaultyTracer liar(std::move(parts).value(), {});
  ASSERT_TRUE(liar.run().ok());
  expect_found(of, liar, 5, {TraceOp::kIncoming, 0}, nullptr, true);
  const auto without = check_dispute(of.play(liar, *of.honest, 1), nullptr);
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(without->decided);
  EXPECT_NE(without->why.find("owner"), std::string::npos) << without->why;
}

TEST(TraceCheck, AnHonestSideNeverLosesToAnyLiar) {
  const Disputed stages[] = {Disputed(disputed_model("llama"), {0, 2}),
                             Disputed(disputed_model("gemma3"), {1, 2})};
  std::mt19937 random(7);
  int games = 0;
  for (int i = 0; i < 120; ++i) {
    const Disputed& of = stages[i % 2];
    const auto& shape = of.honest->shape();
    const std::uint32_t position = random() % Disputed::kPositions;
    const std::uint32_t index = random() % shape.slots(position);
    const TraceSlot slot = shape.at(position, index);
    if (slot.op == TraceOp::kIncoming && of.layers.begin == 0) continue;
    const std::uint32_t byte = static_cast<std::uint32_t>(random());
    const auto bit = static_cast<std::byte>(1U << random() % 3);
    const auto liar = of.liar([=](std::uint32_t where, const TraceSlot& what, Bytes& value) {
      // The scales of a quantised row are behind its values; no engine goes on with any others.
      if (where == position && what == slot) value[byte % (value.size() / 2)] ^= bit;
    });
    if (!of.differ(*liar, *of.honest)) continue;
    ++games;
    expect_found(of, *liar, position, slot, i % 3 == 0 ? of.file.get() : nullptr);
  }
  EXPECT_GT(games, 40);
}

TEST(TraceCheck, ADoctoredFileIsRefusedAndNeverBlamesTheHonest) {
  const Disputed of(disputed_model("llama"), {0, 2});
  const auto product = of.liar(at(of.honest->shape(), 6, {TraceOp::kUp, 1}));
  const auto attention = of.liar(at(of.honest->shape(), 6, {TraceOp::kAttention, 0}));
  for (Tracer* liar : {product.get(), attention.get()}) {
    const DisputeFile file = of.play(*liar, *of.honest, 1);
    ASSERT_TRUE(check_dispute(file, nullptr)->decided);
    const Bytes whole = write_dispute(file).value();
    for (std::size_t at_byte = 0; at_byte < whole.size(); at_byte += at_byte < 2'000 ? 1 : 13) {
      Bytes changed = whole;
      changed[at_byte] ^= static_cast<std::byte>(1U << at_byte % 8);
      const auto parsed = ledger::parse_dispute(changed);
      if (!parsed) continue;
      const auto finding = check_dispute(*parsed, nullptr);
      EXPECT_FALSE(finding.ok() && finding->decided)
          << "byte " << at_byte << " changes nothing, or blames somebody";
    }
  }
}

TEST(TraceCheck, WhoSignsOtherWeightsIsFoundOutByTheModel) {
  const Disputed of(disputed_model("llama"), {0, 2});
  for (const TraceOp op : {TraceOp::kMixed, TraceOp::kDown}) {
    const auto liar = of.liar(at(of.honest->shape(), 6, {op, 1}));
    DisputeFile file = of.play(*liar, *of.honest, 1);
    const auto round = static_cast<std::uint32_t>(file.moves.size() / 2 - 1);
    auto& move = file.moves[file.moves.size() - 2];
    ASSERT_EQ(move.side, ledger::DisputeSide::kWorker);
    move = ledger::sign_move(ledger::check_case(file.said)->id, round, move.side,
                             Bytes(sizeof(Hash256), std::byte{1}), of.worker)
               .value();
    const auto alone = check_dispute(file, nullptr);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    EXPECT_EQ(alone->decided, op == TraceOp::kMixed) << "no weights are read there";
    const auto finding = check_dispute(file, of.file.get());
    ASSERT_TRUE(finding.ok()) << finding.error().message;
    EXPECT_TRUE(finding->decided && finding->wrong[0] && !finding->wrong[1]) << finding->why;
  }
}

TEST(TraceCheck, EvidenceOfAnotherValueIsRefused) {
  const Disputed of(disputed_model("llama"), {0, 2});
  const auto liar = of.liar(at(of.honest->shape(), 6, {TraceOp::kDown, 1}));
  DisputeFile file = of.play(*liar, *of.honest, 1);
  ASSERT_TRUE(check_dispute(file, nullptr)->decided);
  DisputeFile without = file;
  without.evidence.reset();
  EXPECT_FALSE(check_dispute(without, nullptr).ok());
  DisputeFile unfinished = file;
  unfinished.moves.pop_back();
  const auto open = check_dispute(unfinished, nullptr);
  ASSERT_TRUE(open.ok());
  EXPECT_FALSE(open->decided);
  DisputeFile other = file;
  other.evidence->inputs[0].value[0] ^= std::byte{1};
  EXPECT_FALSE(check_dispute(other, nullptr).ok());
  other = file;
  other.evidence->weights[0].row += 1;
  EXPECT_FALSE(check_dispute(other, nullptr).ok());
  other = file;
  other.build = "another";
  EXPECT_FALSE(check_dispute(other, nullptr).ok());
}

}  // namespace
}  // namespace hearth::node
