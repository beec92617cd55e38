#include "coordinator/proof/receipt_collector.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/limits.h"
#include "base/random.h"
#include "ledger/books.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using testing::ReceiptStage;

// Two stages of one pipeline, and the log that the desk would write.
struct ReceiptCollectorTest : ::testing::Test {
  ReceiptCollectorTest() { desk->begin(testing::receipt_pipeline(stages)); }

  // A request of five prompt tokens and two sampled ones, as the stages see it.
  ReceiptRequest request(unsigned char number) {
    ReceiptRequest request = testing::receipt_request(number);
    desk->start(request.epoch, request.order.request, request.tokens.size());
    return request;
  }
  void claim_all(const ReceiptRequest& request) {
    for (ReceiptStage& stage : stages) desk->take(stage.node, stage.claim(request));
  }
  // Every stage signs what it is asked to, until none is asked.
  void sign_all() {
    for (;;) {
      const auto messages = desk->take_messages();
      if (messages.empty()) return;
      for (const ReceiptCollector::Message& message : messages) {
        ReceiptStage& stage = message.node == "a" ? stages[0] : stages[1];
        desk->take(stage.node, stage.sign(message.body));
      }
    }
  }
  // That a whole log of this and everything before is one that the rules allow.
  std::size_t log() {
    for (const Bytes& entry : desk->take_entries()) {
      const Status applied = books.apply(entry);
      EXPECT_TRUE(applied) << applied.error().message;
      entries.push_back(entry);
    }
    return entries.size();
  }

  testing::FakeClock clock;
  std::vector<ReceiptStage> stages = testing::receipt_stages();
  std::unique_ptr<ReceiptCollector> desk =
      std::make_unique<ReceiptCollector>(testing::receipt_cluster(), clock);
  ledger::Books books;
  std::vector<Bytes> entries;
};

constexpr std::size_t kBegin = 3;  // rules and two members

TEST_F(ReceiptCollectorTest, NobodyVouchesForANewcomerAndItMakesNoReceipts) {
  desk->doubt(stages[1].key());
  desk->enter(stages[1].key());
  desk->set_newcomers({stages[1].key()});
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  sign_all();
  log();
  EXPECT_EQ(books.standing(stages[1].key())->level(books.policy(), books.time()),
            ledger::Level::kNewcomer);
  EXPECT_EQ(books.standing(stages[0].key())->served(), 1);
  EXPECT_EQ(books.standing(stages[1].key())->served(), 0);
  desk->set_newcomers({});
  const ReceiptRequest two = request(2);
  claim_all(two);
  desk->over(two);
  EXPECT_EQ(desk->take_messages().size(), 2u) << "and is asked once it is no longer one";
}

TEST_F(ReceiptCollectorTest, AnAnswerHasAReceiptOfEachStage) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  EXPECT_TRUE(desk->take_messages().empty()) << "before the request is over";
  desk->over(one);
  sign_all();
  EXPECT_EQ(log(), kBegin + 2);
  EXPECT_EQ(books.members(), 2u);
  const ReceiptRequest two = request(2);
  desk->over(two);
  claim_all(two);
  sign_all();
  EXPECT_EQ(log(), kBegin + 4) << "whichever comes first";
  std::size_t bytes = 0;
  for (std::size_t i = kBegin; i < entries.size(); ++i) bytes += entries[i].size();
  EXPECT_LE(bytes / 2 / 2 * 4, 2'048u) << "of a request with four stages";
}

TEST_F(ReceiptCollectorTest, GoesOnWithALogThatItReads) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  sign_all();
  log();
  desk = std::make_unique<ReceiptCollector>(testing::receipt_cluster(), clock);
  for (const Bytes& entry : entries) ASSERT_TRUE(desk->recall(entry));
  desk->begin(testing::receipt_pipeline(stages));
  const ReceiptRequest two = request(2);
  claim_all(two);
  desk->over(two);
  sign_all();
  EXPECT_EQ(log(), kBegin + 4) << "no rules and no members again, and the chains go on";
}

TEST_F(ReceiptCollectorTest, OneBatchAtATime) {
  const int many = static_cast<int>(limits::kReceiptBatch) + 2;
  for (int i = 1; i <= many; ++i) {
    const ReceiptRequest one = request(static_cast<unsigned char>(i));
    claim_all(one);
    desk->over(one);
  }
  auto messages = desk->take_messages();
  ASSERT_EQ(messages.size(), 2u);
  for (const auto& message : messages) {
    EXPECT_LT(message.body.ByteSizeLong(), 64 * limits::kKiB);
    ReceiptStage& stage = message.node == "a" ? stages[0] : stages[1];
    desk->take(stage.node, stage.sign(message.body));
  }
  sign_all();
  EXPECT_EQ(log(), kBegin + 2 * static_cast<std::size_t>(many));
}

TEST_F(ReceiptCollectorTest, WhatContradictsIsNeverSigned) {
  struct Case {
    const char* what;
    void (*spoil)(ReceiptRequest& seen, ReceiptStage& stage);
  };
  const Case cases[] = {
      {"other activations", [](ReceiptRequest&, ReceiptStage& stage) { stage.boundary = "lie"; }},
      {"other tokens", [](ReceiptRequest& seen, ReceiptStage&) { seen.tokens[1] = 9; }},
      {"other sampling", [](ReceiptRequest& seen, ReceiptStage&) { seen.sampling.seed = 9; }},
      {"fewer positions", [](ReceiptRequest& seen, ReceiptStage&) { seen.tokens.pop_back(); }},
      {"more than there are",
       [](ReceiptRequest& seen, ReceiptStage&) { seen.tokens.insert(seen.tokens.end(), 9, 1); }},
  };
  unsigned char number = 0;
  for (const std::size_t liar : {0, 1}) {
    for (const Case& one : cases) {
      const ReceiptRequest honest = request(++number);
      for (std::size_t i = 0; i < 2; ++i) {
        ReceiptRequest seen = honest;
        ReceiptStage stage = stages[i];
        if (i == liar) one.spoil(seen, stage);
        desk->take(stage.node, stage.claim(seen));
      }
      desk->over(honest);
      EXPECT_TRUE(desk->take_messages().empty()) << one.what << " of stage " << liar;
    }
  }
  EXPECT_EQ(log(), 0u);
}

TEST_F(ReceiptCollectorTest, AReceiptSaysWhatWasSettled) {
  struct Case {
    const char* what;
    void (*spoil)(ledger::Receipt& receipt);
  };
  const Case cases[] = {
      {"root", [](ledger::Receipt& r) { r.out_root.bytes[0] ^= std::byte{1}; }},
      {"positions", [](ledger::Receipt& r) { ++r.positions; }},
      {"layers", [](ledger::Receipt& r) { ++r.layer_end; }},
      {"epoch", [](ledger::Receipt& r) { ++r.slot.epoch; }},
      {"program", [](ledger::Receipt& r) { r.program.bytes[0] ^= std::byte{1}; }},
      {"chain", [](ledger::Receipt& r) { r.previous.bytes[0] ^= std::byte{1}; }},
      {"edge", [](ledger::Receipt& r) { r.in_edge[0] ^= std::byte{1}; }},
      {"time", [](ledger::Receipt& r) { r.begun_ms -= 3'700'000; }},
      {"future", [](ledger::Receipt& r) { r.begun_ms += 3'700'000; }},
  };
  unsigned char number = 0;
  for (const Case& one : cases) {
    const ReceiptRequest honest = request(++number);
    claim_all(honest);
    desk->over(honest);
    stages[0].spoil = one.spoil;
    sign_all();
    EXPECT_EQ(log(), kBegin + number) << one.what << ": the other stage's alone";
  }
  stages[0].spoil = nullptr;
  const ReceiptRequest honest = request(++number);
  claim_all(honest);
  desk->over(honest);
  sign_all();
  EXPECT_EQ(log(), kBegin + number + 1u) << "the chain goes on from what was accepted";
}

TEST_F(ReceiptCollectorTest, WhatDoesNotComeIsMissingAndNoMore) {
  const ReceiptRequest one = request(1);  // of which one stage says nothing
  desk->take("a", stages[0].claim(one));
  desk->over(one);
  const ReceiptRequest two = request(2);  // for which a worker does not sign
  claim_all(two);
  desk->over(two);
  EXPECT_EQ(desk->take_messages().size(), 2u);
  clock.advance(std::chrono::seconds(limits::kReceiptSeconds + 1));
  desk->on_timer();
  desk->take("b", stages[1].claim(one));
  const ReceiptRequest three = request(3);  // whose pipeline is lost before its end
  claim_all(three);
  desk->end(three.epoch);
  desk->over(three);
  EXPECT_TRUE(desk->take_messages().empty());
  desk->begin(testing::receipt_pipeline(stages));
  const ReceiptRequest four = request(4);
  claim_all(four);
  desk->over(four);
  EXPECT_EQ(desk->take_messages().size(), 2u);
  desk->lose("a");  // asked, and gone
  const ReceiptRequest five = request(5);
  claim_all(five);
  desk->over(five);
  EXPECT_EQ(desk->take_messages().size(), 1u) << "a is new here; b has not answered yet";
}

TEST_F(ReceiptCollectorTest, ALateAnswerIsNoneToTheNextQuestion) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  const auto first = desk->take_messages();
  clock.advance(std::chrono::seconds(limits::kReceiptSeconds + 1));
  desk->on_timer();
  const ReceiptRequest two = request(2);
  claim_all(two);
  desk->over(two);
  const auto second = desk->take_messages();
  ASSERT_EQ(second.size(), 2u);
  for (const auto* messages : {&first, &second}) {
    for (const ReceiptCollector::Message& message : *messages) {
      ReceiptStage& stage = message.node == "a" ? stages[0] : stages[1];
      desk->take(stage.node, stage.sign(message.body));
    }
  }
  EXPECT_EQ(log(), kBegin + 2) << "of the second request";
}

TEST_F(ReceiptCollectorTest, AWindowBeyondTheRequestIsNotKept) {
  const ReceiptRequest one = request(1);
  desk->take("a", stages[0].claim(one, 1));
  desk->take("b", stages[1].claim(one, 1));
  desk->over(one);
  claim_all(one);
  sign_all();
  EXPECT_EQ(log(), kBegin + 2) << "the window that it has, alone";
}

TEST_F(ReceiptCollectorTest, OnlyTheLastWindowMayBeShort) {
  unsigned char number = 0;
  // Each claims so many positions of windows 0 and 1, in that order or the other; twice.
  for (const std::uint32_t begin : {limits::kWindowPositions, 6U}) {
    for (const bool first : {true, false}) {
      ReceiptRequest one = testing::receipt_request(++number);
      one.tokens.assign(limits::kWindowPositions + 10, 1);
      desk->start(one.epoch, one.order.request, one.tokens.size());
      desk->over(one);
      for (const std::uint32_t window : {first ? 0U : 1U, first ? 1U : 0U, 0U}) {
        for (ReceiptStage& stage : stages) {
          desk->take(stage.node, stage.claim(one, window, window == 0 ? begin : 5));
        }
      }
      const std::size_t before = entries.size();
      sign_all();
      const std::size_t logged = begin == limits::kWindowPositions ? 4 : 2;
      EXPECT_EQ(log(), std::max(before, kBegin) + logged) << begin << " " << first;
    }
  }
}

TEST_F(ReceiptCollectorTest, ARequestIsSeenOnceInAPipeline) {
  for (int i = 0; i < 2; ++i) {
    const ReceiptRequest one = request(1);
    claim_all(one);
    desk->over(one);
    sign_all();
  }
  EXPECT_EQ(log(), kBegin + 2) << "a slot has one receipt";
  EXPECT_EQ(desk->unreceipted().counts().by_key.at("no key"), 2u) << "and it is counted";
}

// A node that forgets what it is asked before it is asked is asked for less, until it keeps up.
TEST_F(ReceiptCollectorTest, UnderLoadNoMoreWaitsThanIsSigned) {
  unsigned char number = 0;
  const auto compute = [&](const std::string& owner) {
    ReceiptRequest one = testing::receipt_request(++number);
    one.policy.owner = owner;
    desk->start(one.epoch, one.order.request, one.tokens.size(), owner);
    claim_all(one);
    desk->over(one);
  };
  std::size_t most = limits::kReceiptWindows;
  std::uint64_t forgotten = 0;
  for (; most > 2 * limits::kReceiptsAsked; most /= 2, ++forgotten) {
    compute("flood");
    for (const auto& message : desk->take_messages()) {
      desk->take(message.node, control::v1::Receipts());
    }
  }
  compute("flood");  // which both are asked for; what follows waits
  const std::size_t taken = most / 2;
  for (std::size_t i = 0; i < taken + 2; ++i) compute("flood");
  compute("quiet");
  sign_all();
  EXPECT_EQ(log(), kBegin + 2 * (1 + taken + 1));
  const UnreceiptedStatus& counts = desk->unreceipted().counts();
  EXPECT_EQ(counts.by_key.at("flood"), 2 * (forgotten + 2));
  EXPECT_FALSE(counts.by_key.contains("quiet")) << "another key finds room";
  EXPECT_EQ(counts.by_node.at("a"), forgotten);
  EXPECT_TRUE(counts.silent.empty());
}

TEST_F(ReceiptCollectorTest, WhatIsCancelledBeforeItsFirstRowHoldsNoPlace) {
  for (std::size_t i = 0; i < limits::kReceiptRequests; ++i) {
    ReceiptRequest cancelled = testing::receipt_request(0);
    std::memcpy(cancelled.order.request.data(), &i, sizeof i);
    cancelled.order.request.back() = std::byte{1};
    cancelled.tokens.resize(cancelled.prompt_tokens);
    desk->start(cancelled.epoch, cancelled.order.request, 100);
    desk->over(cancelled);
  }
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  sign_all();
  EXPECT_EQ(log(), kBegin + 2);
  EXPECT_EQ(desk->unreceipted().counts().total, 0u) << "nothing was computed of them";
}

TEST_F(ReceiptCollectorTest, WhoClaimsNothingIsCountedAndNamed) {
  unsigned char number = 0;
  for (std::uint64_t i = 1; i <= Unreceipted::kSilentWindows; ++i) {
    EXPECT_TRUE(desk->unreceipted().counts().silent.empty());
    const ReceiptRequest one = request(++number);
    desk->take("a", stages[0].claim(one));
    desk->over(one);
    clock.advance(std::chrono::seconds(limits::kReceiptSeconds + 1));
    desk->on_timer();
  }
  const UnreceiptedStatus& counts = desk->unreceipted().counts();
  EXPECT_EQ(counts.silent, (std::set<std::string>{"b"}));
  EXPECT_EQ(counts.by_node.at("b"), Unreceipted::kSilentWindows);
  EXPECT_FALSE(counts.by_node.contains("a"));
  EXPECT_EQ(counts.total, 2 * Unreceipted::kSilentWindows) << "of both stages none has a receipt";
  const ReceiptRequest unclaimed = request(++number);  // by any stage
  desk->over(unclaimed);
  clock.advance(std::chrono::seconds(limits::kReceiptSeconds + 1));
  desk->on_timer();
  EXPECT_EQ(counts.by_node.at("a"), 1u);
  const ReceiptRequest good = request(++number);
  claim_all(good);
  desk->over(good);
  sign_all();
  EXPECT_TRUE(counts.silent.empty()) << "until it signs again";
}

// What stage 0 says of a request, and the same with another root.
struct Contradiction {
  control::v1::Receipts honest;
  control::v1::Receipts other;
};
Contradiction contradict(ReceiptStage& stage, const ReceiptCollector::Message& asked) {
  Contradiction both;
  both.honest = stage.sign(asked.body);
  stage.spoil = [](ledger::Receipt& r) { r.out_root.bytes[0] ^= std::byte{1}; };
  both.other = stage.sign(asked.body);
  stage.spoil = nullptr;
  return both;
}

TEST_F(ReceiptCollectorTest, TwoReceiptsOfOneSlotProveEquivocation) {
  struct Case {
    const char* what;
    void (*send)(ReceiptCollector& desk, const Contradiction& both);
    std::size_t receipts;  // of stage 0 that are logged before the proof
  };
  const Case cases[] = {
      {"in one message",
       [](ReceiptCollector& desk, const Contradiction& both) {
         control::v1::Receipts all = both.honest;
         all.MergeFrom(both.other);
         desk.take("a", all);
       },
       1},
      {"the false one first",
       [](ReceiptCollector& desk, const Contradiction& both) {
         control::v1::Receipts all = both.other;
         all.MergeFrom(both.honest);
         desk.take("a", all);
       },
       0},
      {"later, and from somebody else",
       [](ReceiptCollector& desk, const Contradiction& both) {
         desk.take("a", both.honest);
         desk.take("unknown", both.other);
         desk.take("unknown", both.other);
       },
       1},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    desk = std::make_unique<ReceiptCollector>(testing::receipt_cluster(), clock);
    desk->begin(testing::receipt_pipeline(stages));
    books = ledger::Books();
    entries.clear();
    const ReceiptRequest first = request(1);
    claim_all(first);
    desk->over(first);
    const auto messages = desk->take_messages();
    ASSERT_EQ(messages.size(), 2u);
    one.send(*desk, contradict(stages[0], messages[0]));
    desk->take("b", stages[1].sign(messages[1].body));
    EXPECT_EQ(log(), kBegin + one.receipts + 2) << "a proof, and the other stage's receipt";
    EXPECT_TRUE(books.standing(stages[0].key())->is_tombstoned());
    EXPECT_FALSE(books.standing(stages[1].key())->is_tombstoned());
    const ReceiptRequest second = request(2);
    claim_all(second);
    desk->over(second);
    sign_all();
    EXPECT_EQ(log(), kBegin + one.receipts + 3) << "of the other stage alone";
  }
}

TEST_F(ReceiptCollectorTest, EquivocationOutlivesARestartAndIsLoggedOnce) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  const auto messages = desk->take_messages();
  ASSERT_EQ(messages.size(), 2u);
  const Contradiction both = contradict(stages[0], messages[0]);
  desk->take("a", both.honest);
  EXPECT_EQ(log(), kBegin + 1);
  for (int i = 0; i < 2; ++i) {
    desk = std::make_unique<ReceiptCollector>(testing::receipt_cluster(), clock);
    for (const Bytes& entry : entries) ASSERT_TRUE(desk->recall(entry));
    desk->take("a", both.other);
    EXPECT_EQ(log(), kBegin + 2);
    desk->log(ledger::ChangeEntry{stages[0].key()});
    EXPECT_EQ(log(), kBegin + 2) << "of a tombstoned key the rules allow no more";
  }
}

TEST_F(ReceiptCollectorTest, WhatIsNoContradictionAccusesNobody) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  const auto messages = desk->take_messages();
  ASSERT_EQ(messages.size(), 2u);
  const Contradiction both = contradict(stages[0], messages[0]);
  desk->take("a", both.honest);
  desk->take("a", both.honest);
  stages[0].spoil = [](ledger::Receipt& r) { r.took_ms += 5; };
  desk->take("a", stages[0].sign(messages[0].body));
  control::v1::Receipts forged = both.other;
  forged.mutable_receipts(0)->back() ^= 1;
  desk->take("b", forged);
  EXPECT_EQ(log(), kBegin + 1) << "the same again, another time, and what no stage signed";
}

TEST_F(ReceiptCollectorTest, WhoIsConvictedSignsNothingThatIsLogged) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  sign_all();
  log();
  desk->log(ledger::VerdictEntry{kBegin, stages[0].key(), ledger::Verdict::kFraud, {}});
  EXPECT_EQ(desk->take_entries().size(), 1u);
  const ReceiptRequest two = request(2);
  claim_all(two);
  desk->over(two);
  const auto messages = desk->take_messages();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].node, "b");
}

TEST_F(ReceiptCollectorTest, AnyBytesMayCome) {
  SeededRandom random{7};
  for (int i = 0; i < 300; ++i) {
    const ReceiptRequest one = request(static_cast<unsigned char>(i));
    control::v1::WindowClaims claims = stages[0].claim(one);
    std::string bytes = claims.SerializeAsString();
    bytes[random.next() % bytes.size()] ^= static_cast<char>(1 << random.next() % 8);
    if (claims.ParseFromString(bytes)) desk->take("a", claims);
    desk->take("unknown", stages[0].claim(one));
    control::v1::Receipts receipts;
    receipts.add_receipts(bytes);
    desk->take("a", receipts);
    desk->over(one);
  }
  EXPECT_TRUE(desk->take_messages().empty());
  EXPECT_EQ(log(), 0u);
}

TEST_F(ReceiptCollectorTest, TwoReceiptsOfOneSlotProveThemselves) {
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  const auto messages = desk->take_messages();
  ASSERT_EQ(messages.size(), 2u);
  control::v1::Receipts both = stages[0].sign(messages[0].body);
  stages[0].spoil = [](ledger::Receipt& receipt) { receipt.out_root.bytes[0] ^= std::byte{1}; };
  both.MergeFrom(stages[0].sign(messages[0].body));
  stages[0].spoil = nullptr;
  desk->take("a", both);
  desk->take("b", stages[1].sign(messages[1].body));
  const std::size_t logged = log();
  EXPECT_EQ(logged, kBegin + 3) << "its receipt, its neighbour's, and the contradiction";
  EXPECT_TRUE(books.standing(stages[0].key())->is_tombstoned());
  EXPECT_FALSE(books.standing(stages[1].key())->is_tombstoned());
  const ReceiptRequest two = request(2);
  claim_all(two);
  desk->over(two);
  sign_all();
  EXPECT_EQ(log(), logged + 1) << "of who is ended no receipt is taken";
}

TEST_F(ReceiptCollectorTest, WhoIsBarredHasNoReceiptsUntilHeIsNot) {
  desk->bar(stages[0].key());
  const ReceiptRequest one = request(1);
  claim_all(one);
  desk->over(one);
  sign_all();
  EXPECT_EQ(log(), kBegin + 1);
  desk->unbar(stages[0].key());
  const ReceiptRequest two = request(2);
  claim_all(two);
  desk->over(two);
  sign_all();
  EXPECT_EQ(log(), kBegin + 3);
}

}  // namespace
}  // namespace hearth::coordinator
