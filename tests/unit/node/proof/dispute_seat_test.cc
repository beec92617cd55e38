#include "node/proof/dispute_seat.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "disputed.h"
#include "proto/fixed_field.h"

namespace hearth::node {
namespace {

using control::v1::DisputeOrder;
using Move = control::v1::DisputeMove;

constexpr std::uint64_t kEntry = 17;  // of disputed.h
const ledger::RequestId kRun = [] {
  ledger::RequestId name{};
  name.fill(std::byte{7});
  return name;
}();

struct DisputeSeatTest : ::testing::Test {
  // The next that it says.
  Move said() {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(wake.wait_for(lock, std::chrono::seconds(60), [this] { return !moves.empty(); }));
    if (moves.empty()) return {};
    Move move = std::move(moves.front());
    moves.pop_front();
    return move;
  }
  DisputeOrder begin() const {
    ledger::DisputeFile file;
    file.said = of.case_of(*liar, *of.honest);
    DisputeOrder order;
    order.set_entry(kEntry);
    order.mutable_begin()->set_said(to_field(ledger::write_dispute(file).value()));
    order.mutable_begin()->set_run(to_field(kRun));
    return order;
  }
  static DisputeOrder play(std::uint32_t round) {
    DisputeOrder order;
    order.set_entry(kEntry);
    order.mutable_play()->set_round(round);
    return order;
  }
  StepBatch run() const {
    StepBatch batch;
    SequenceOpen open{SequenceId(1), of.input.prompt, false, of.input.sampling};
    open.receipt = ReceiptOrder{kRun, of.input.salt};
    batch.opens.push_back(open);
    for (Position i = 0; i < of.input.tokens.size(); ++i) {
      batch.rows.push_back({SequenceId(1), i, of.input.tokens[i], 0});
    }
    return batch;
  }

  Disputed of{disputed_model("llama"), {0, 2}};
  std::unique_ptr<Tracer> liar =
      of.liar([](std::uint32_t position, const ledger::TraceSlot& slot, Bytes& value) {
        if (position == 5 && slot.op == ledger::TraceOp::kGate) value[2] ^= std::byte{0xFF};
      });
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Move> moves;
  DisputeSeat seat{std::make_unique<DisputeParty>(of.auditor, of.cluster.public_key(),
                                                  [this](LayerRange) { return Result(of.file); }),
                   [this](Move move) {
                     const std::lock_guard lock(mutex);
                     moves.push_back(std::move(move));
                     wake.notify_one();
                   }};
};

TEST_F(DisputeSeatTest, KeepsThenTracesThenMoves) {
  seat.take(begin());
  EXPECT_TRUE(said().keeps());
  StepBatch batch = run();
  seat.step(batch, {});
  batch.opens.clear();
  batch.rows.clear();
  batch.releases.push_back(SequenceId(1));
  seat.step(batch, {});
  const Move traced = said();
  EXPECT_TRUE(traced.traced()) << traced.declined();
  EXPECT_EQ(traced.entry(), kEntry);
  seat.take(play(0));
  const Move first = said();
  EXPECT_FALSE(first.moved().payload().empty()) << first.declined();
  seat.take(play(0));
  EXPECT_EQ(said().moved().payload(), first.moved().payload()) << "asked again";
  seat.take(play(1));
  EXPECT_NE(said().declined(), "") << "the other side has not moved";
}

TEST_F(DisputeSeatTest, ALostPipelineIsSaid) {
  seat.take(begin());
  EXPECT_TRUE(said().keeps());
  seat.lose();  // nothing of it has begun: the next pipeline may have it
  seat.step(run(), {});
  seat.lose();
  EXPECT_NE(said().declined().find("its pipeline ended"), std::string::npos);
}

TEST_F(DisputeSeatTest, WhoLeftPlaysNoMore) {
  seat.take(begin());
  EXPECT_TRUE(said().keeps());
  DisputeOrder over;
  over.set_entry(kEntry);
  over.set_over(true);
  seat.take(over);
  StepBatch batch = run();
  batch.releases.push_back(SequenceId(1));
  seat.step(batch, {});
  seat.take(play(0));
  EXPECT_NE(said().declined().find("not traced here"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
