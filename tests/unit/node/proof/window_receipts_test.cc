#include "node/proof/window_receipts.h"

#include <gtest/gtest.h>

#include "kernels/canonical.h"
#include "ledger/receipt.h"
#include "ledger/statements.h"
#include "proto/committed_sampling.h"
#include "proto/fixed_field.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kWidth = 4;  // of a row, in bytes
constexpr std::uint8_t kDecode = BatchRow::kSample;
constexpr std::uint8_t kDraft = BatchRow::kSample | BatchRow::kDraft;

SecretKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

const SecretKey kCluster = key_of(1);
const Hash256 kModel = blake2b(as_bytes("model"));

Assignment stage_of(std::uint32_t stage, std::uint32_t stages) {
  Assignment assignment;
  assignment.epoch = Epoch(7);
  assignment.stage = stage;
  assignment.stages = stages;
  assignment.layers = {2 * stage, 2 * stage + 2};
  assignment.model = kModel;
  return assignment;
}

ReceiptOrder order_of(unsigned char number) {
  ReceiptOrder order;
  order.request.fill(std::byte{number});
  order.salt = blake2b(Bytes(1, std::byte{number}));
  return order;
}

// What the boundary before `stage` carries at a position.
Bytes residual(std::uint32_t stage, Position position) {
  return {std::byte(stage), std::byte(position), std::byte(position >> 8), std::byte{9}};
}

SampledToken drawn_token(std::uint64_t sequence, Position position, TokenId token) {
  SampledToken drawn;
  drawn.sequence = SequenceId(sequence);
  drawn.position = position;
  drawn.token = token;
  return drawn;
}

// Two stages and the coordinator that brings their signatures together.
struct WindowReceiptsTest : ::testing::Test {
  WindowReceiptsTest() {
    for (std::uint32_t i = 0; i < 2; ++i) stages[i].begin(stage_of(i, 2), kModel);
  }

  // `from` to `to` of one sequence as one step of both stages.
  void rows(std::uint64_t sequence, Position from, Position to, StepBatch batch = {}) {
    batch.epoch = Epoch(7);
    for (Position position = from; position < to; ++position) {
      batch.rows.push_back(
          {SequenceId(sequence), position, static_cast<TokenId>(100 + position), 0});
    }
    step(std::move(batch));
  }
  void step(StepBatch batch) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      Bytes in;
      batch.activations.clear();
      for (const BatchRow& row : batch.rows) {
        ByteWriter(batch.activations).append(residual(i + 1, row.position));
        if (i > 0) ByteWriter(in).append(residual(i, row.position));
      }
      stages[i].step(batch, in);
    }
  }
  static StepBatch opening(std::uint64_t sequence, std::uint32_t prompt) {
    StepBatch batch;
    SequenceOpen open{SequenceId(sequence), prompt, false, {}};
    open.receipt = order_of(static_cast<unsigned char>(sequence));
    batch.opens.push_back(std::move(open));
    return batch;
  }
  void release(std::uint64_t sequence) {
    StepBatch batch;
    batch.epoch = Epoch(7);
    batch.releases.push_back(SequenceId(sequence));
    step(std::move(batch));
  }
  // Both stages' receipts of the next window that both claim.
  std::vector<ledger::Receipt> exchange() {
    const control::v1::WindowClaim upper = stages[0].take_claims().windows(0);
    const control::v1::WindowClaim lower = stages[1].take_claims().windows(0);
    EXPECT_EQ(upper.out_root(), lower.in_root());
    EXPECT_EQ(upper.positions(), lower.positions());
    EXPECT_TRUE(lower.shown_row().empty() && lower.shown_path().empty()) << "it says tokens";
    expect_shown(upper);
    std::vector<ledger::Receipt> receipts;
    for (int i = 0; i < 2; ++i) {
      control::v1::Countersign message;
      message.set_previous(to_field(previous[i].bytes));
      control::v1::Countersigned& window = *message.add_windows();
      window.set_request(upper.request());
      window.set_epoch(upper.epoch());
      window.set_window(upper.window());
      const std::string end = cluster_signature(upper, i == 0 ? 0 : 2);
      window.set_in_signature(i == 0 ? end : upper.out_signature());
      window.set_out_signature(i == 0 ? lower.in_signature() : end);
      const control::v1::Receipts answer = stages[i].countersign(message);
      EXPECT_EQ(answer.receipts_size(), 1);
      const auto receipt =
          ledger::parse_receipt(as_bytes(answer.receipts(0)), kCluster.public_key());
      EXPECT_TRUE(receipt) << receipt.error().message;
      previous[i] = blake2b(as_bytes(answer.receipts(0)));
      receipts.push_back(*receipt);
      EXPECT_EQ(stages[i].countersign(message).receipts_size(), 0) << "signed once";
    }
    const Status agree = ledger::check_neighbours(receipts[0], receipts[1], kCluster.public_key());
    EXPECT_TRUE(agree) << agree.error().message;
    return receipts;
  }
  // A row of what went out of the first stage, below its root.
  static void expect_shown(const control::v1::WindowClaim& claim) {
    ledger::Edge edge{{}, claim.epoch(), 1, claim.window(), {}};
    ledger::ShownRow shown;
    ASSERT_TRUE(read_field(claim.request(), edge.request) &&
                read_field(claim.out_root(), edge.root.bytes) &&
                read_field(claim.shown_row(), shown.row.bytes));
    const std::string& path = claim.shown_path();
    for (std::size_t at = 0; at < path.size(); at += shown.row.bytes.size()) {
      ASSERT_TRUE(
          read_field(path.substr(at, shown.row.bytes.size()), shown.path.emplace_back().bytes));
    }
    const Hash256 salt = order_of(std::to_integer<unsigned char>(edge.request[0])).salt;
    const std::uint32_t first = claim.window() * limits::kWindowPositions;
    EXPECT_TRUE(ledger::check_row(edge, salt, first, claim.positions(), shown).ok());
  }
  static std::string cluster_signature(const control::v1::WindowClaim& claim, std::uint16_t below) {
    ledger::Edge edge{{}, claim.epoch(), below, claim.window(), {}};
    EXPECT_TRUE(read_field(claim.request(), edge.request) &&
                read_field(claim.in_root(), edge.root.bytes));
    return to_field(ledger::sign_edge(edge, kCluster.public_key(), kCluster));
  }
  bool claims_nothing() const { return !stages[0].has_claims() && !stages[1].has_claims(); }

  testing::FakeClock clock;
  Hash256 previous[2];
  WindowReceipts stages[2] = {{{key_of(10), kCluster.public_key(), "build"}, clock},
                              {{key_of(11), kCluster.public_key(), "build"}, clock}};
};

TEST_F(WindowReceiptsTest, ARequestIsOneWindowWhenItIsOver) {
  rows(3, 0, 5, opening(3, 5));
  rows(3, 5, 6);
  EXPECT_TRUE(claims_nothing());
  clock.advance(std::chrono::seconds(2));
  release(3);
  const std::vector<ledger::Receipt> receipts = exchange();
  const ledger::Receipt& r = receipts[0];
  EXPECT_EQ(r.slot.request, order_of(3).request);
  EXPECT_EQ(r.slot.epoch, 7u);
  EXPECT_EQ(r.slot.window, 0u);
  EXPECT_EQ(r.positions, 6u);
  EXPECT_EQ(r.prompt_positions, 5u);
  EXPECT_EQ(r.layer_end, 2u);
  EXPECT_EQ(r.took_ms, 2'000u);
  EXPECT_EQ(r.program, ledger::program_id(kModel, "build", kernels::kCanonicalVersion));
  const std::uint32_t tokens[] = {100, 101, 102, 103, 104, 105};
  EXPECT_EQ(r.tokens,
            ledger::commit_tokens(order_of(3).salt, 0, tokens, encode_committed(SamplingParams{})));
  EXPECT_EQ(r.in_root, r.tokens);
  EXPECT_EQ(receipts[1].out_root, r.tokens);
  EXPECT_NE(r.out_root, r.in_root);
}

TEST_F(WindowReceiptsTest, WhoIsFedOtherTokensThanItDrewClaimsNothing) {
  for (const TokenId drawn : {103, 104}) {  // 103 is what is fed
    const auto number = static_cast<std::uint64_t>(drawn);
    StepBatch prompt = opening(number, 3);
    prompt.epoch = Epoch(7);
    for (Position i = 0; i < 3; ++i) {
      prompt.rows.push_back({SequenceId(number), i, static_cast<TokenId>(100 + i), 0});
    }
    const SampledToken one = drawn_token(number, 3, drawn);
    stages[1].step(prompt, Bytes(3 * kWidth), std::span(&one, 1));
    StepBatch next;
    next.epoch = Epoch(7);
    next.rows.push_back({SequenceId(number), 3, 103, 0});
    stages[1].step(next, Bytes(kWidth));
    release(number);
    EXPECT_EQ(stages[1].has_claims(), drawn == 103);
    if (drawn == 103) (void)stages[1].take_claims();
  }
}

TEST_F(WindowReceiptsTest, ADraftThatIsTakenBackIsNotWhatItDrew) {
  StepBatch drafted = opening(1, 1);
  drafted.epoch = Epoch(7);
  for (Position i = 0; i < 3; ++i) {
    drafted.rows.push_back(
        {SequenceId(1), i, static_cast<TokenId>(100 + i), i == 0 ? kDecode : kDraft});
  }
  // It draws 101, then not the draft that was fed behind that.
  const std::vector<SampledToken> drawn = {drawn_token(1, 1, 101), drawn_token(1, 2, 55)};
  stages[1].step(drafted, Bytes(3 * kWidth), drawn);
  StepBatch next;
  next.epoch = Epoch(7);
  next.truncates.push_back({SequenceId(1), 2});
  next.rows.push_back({SequenceId(1), 2, 55, 0});
  stages[1].step(next, Bytes(kWidth));
  release(1);
  ASSERT_TRUE(stages[1].has_claims());
  EXPECT_EQ(stages[1].take_claims().windows(0).positions(), 3u);
}

// The coordinator bars a last stage that claims other tokens than the answer's.
TEST_F(WindowReceiptsTest, WhatItRejectedIsNeverClaimed) {
  std::uint64_t number = 0;
  for (const std::uint8_t flags : {kDecode, kDraft}) {
    for (const TokenId drawn : {55, 101}) {  // 101 is what is fed behind it
      for (const bool goes_on : {true, false}) {
        StepBatch two = opening(++number, 1);
        two.epoch = Epoch(7);
        two.rows.push_back({SequenceId(number), 0, 100, kDecode});
        two.rows.push_back({SequenceId(number), 1, 101, flags});
        std::vector<SampledToken> tokens = {drawn_token(number, 1, drawn)};
        if (flags == kDecode || drawn == 101) tokens.push_back(drawn_token(number, 2, 102));
        stages[1].step(two, Bytes(2 * kWidth), tokens);
        StepBatch next;
        next.epoch = Epoch(7);
        if (goes_on) next.rows.push_back({SequenceId(number), 2, 102, kDecode});
        stages[1].step(next, Bytes(next.rows.size() * kWidth));
        release(number);
        EXPECT_EQ(stages[1].has_claims(), drawn == 101) << number;
        if (stages[1].has_claims()) (void)stages[1].take_claims();
      }
    }
  }
}

// A step may begin with drafts, behind those of the step before it.
TEST_F(WindowReceiptsTest, DraftsBehindAnotherStepsAreClaimedWhereItDrewThem) {
  std::uint64_t number = 0;
  for (const bool right : {true, false}) {
    for (const bool truncates : {true, false}) {
      StepBatch first = opening(++number, 1);
      first.epoch = Epoch(7);
      first.rows.push_back({SequenceId(number), 0, 100, kDecode});
      const SampledToken drawn = drawn_token(number, 1, right ? 101 : 55);
      stages[1].step(first, Bytes(kWidth), std::span(&drawn, 1));
      StepBatch further;
      further.epoch = Epoch(7);
      further.rows.push_back({SequenceId(number), 1, 101, kDraft});
      const SampledToken behind = drawn_token(number, 2, 102);
      stages[1].step(further, Bytes(kWidth), std::span(&behind, right ? 1 : 0));
      StepBatch next;
      next.epoch = Epoch(7);
      const Position position = right ? 2 : 1;
      if (truncates && !right) next.truncates.push_back({SequenceId(number), position});
      if (truncates || right) {
        next.rows.push_back({SequenceId(number), position, right ? 102 : 55, 0});
      }
      stages[1].step(next, Bytes(next.rows.size() * kWidth));
      release(number);
      EXPECT_EQ(stages[1].has_claims(), right || truncates) << number;
      if (stages[1].has_claims()) {
        EXPECT_EQ(stages[1].take_claims().windows(0).positions(), position + 1);
      }
    }
  }
}

TEST_F(WindowReceiptsTest, ADraftBehindTheEndIsNeverClaimed) {
  StepBatch two = opening(1, 1);
  two.epoch = Epoch(7);
  two.rows.push_back({SequenceId(1), 0, 100, kDecode});
  two.rows.push_back({SequenceId(1), 1, 101, kDraft});
  SampledToken stop = drawn_token(1, 1, 101);  // the draft is right, and nothing comes behind it
  stop.finish = FinishReason::kStop;
  stages[1].step(two, Bytes(2 * kWidth), std::span(&stop, 1));
  release(1);
  EXPECT_FALSE(stages[1].has_claims());
}

TEST_F(WindowReceiptsTest, ADraftThatWouldEndAWindowEndsTheReceipts) {
  constexpr Position kFull = limits::kWindowPositions;
  rows(1, 0, kFull - 2, opening(1, 10));
  StepBatch drafted;
  drafted.rows.push_back({SequenceId(1), kFull - 2, 7, kDecode});
  drafted.rows.push_back({SequenceId(1), kFull - 1, 8, kDraft});
  rows(1, 0, 0, drafted);
  release(1);
  EXPECT_TRUE(claims_nothing()) << "it could not be taken back";
}

TEST_F(WindowReceiptsTest, WhatItDrewCannotBeTakenBack) {
  StepBatch prompt = opening(1, 1);
  prompt.epoch = Epoch(7);
  prompt.rows.push_back({SequenceId(1), 0, 100, 0});
  const std::vector<SampledToken> drawn = {drawn_token(1, 1, 101), drawn_token(1, 2, 102)};
  stages[1].step(prompt, Bytes(kWidth), drawn);
  StepBatch next;
  next.epoch = Epoch(7);
  next.truncates.push_back({SequenceId(1), 1});
  next.rows.push_back({SequenceId(1), 1, 101, 0});
  stages[1].step(next, Bytes(kWidth));
  release(1);
  EXPECT_FALSE(stages[1].has_claims()) << "another token could be drawn in its place";
}

TEST_F(WindowReceiptsTest, WindowsFollowEachOtherAndSoDoAWorkersReceipts) {
  constexpr Position kFull = limits::kWindowPositions;
  rows(1, 0, kFull - 1, opening(1, 10));
  EXPECT_TRUE(claims_nothing());
  rows(1, kFull - 1, kFull + 1);
  const ledger::Receipt first = exchange()[0];
  EXPECT_EQ(first.positions, kFull);
  release(1);
  const ledger::Receipt second = exchange()[0];
  EXPECT_EQ(second.slot.window, 1u);
  EXPECT_EQ(second.first_position, kFull);
  EXPECT_EQ(second.positions, 1u);
  EXPECT_EQ(second.prompt_positions, 0u);
  EXPECT_EQ(first.previous, Hash256());
  EXPECT_NE(second.previous, Hash256());
}

TEST_F(WindowReceiptsTest, RejectedDraftsAreNoPartOfIt) {
  rows(1, 0, 4, opening(1, 4));
  release(1);
  const ledger::Receipt plain = exchange()[0];
  rows(2, 0, 8, opening(2, 4));
  StepBatch back;
  back.truncates.push_back({SequenceId(2), 4});
  rows(2, 4, 4, back);
  release(2);
  EXPECT_EQ(exchange()[0].positions, plain.positions);
}

TEST_F(WindowReceiptsTest, WhatWantsNoneOrHasAGapHasNone) {
  rows(1, 0, 4);  // was never opened here
  release(1);
  StepBatch without = opening(2, 4);
  without.opens[0].receipt.reset();
  rows(2, 0, 4, without);
  release(2);
  rows(3, 0, 4, opening(3, 4));
  rows(3, 5, 6);
  release(3);
  rows(4, 0, 0, opening(4, 4));  // cancelled before its first row
  release(4);
  EXPECT_TRUE(claims_nothing());
  rows(5, 0, 4, opening(5, 4));
  for (std::uint32_t i = 0; i < 2; ++i) stages[i].begin(stage_of(i, 2), kModel);
  release(5);
  EXPECT_TRUE(claims_nothing()) << "of a pipeline that is gone";
  rows(6, 0, 4, opening(6, 4));
  StepBatch late;
  late.epoch = Epoch(6);
  late.releases.push_back(SequenceId(6));
  step(late);
  EXPECT_TRUE(claims_nothing()) << "a step of another epoch";
}

TEST_F(WindowReceiptsTest, ClaimsGoOutInBatchesAndAreForgotten) {
  const std::uint64_t many = limits::kReceiptBatch + 1;
  for (std::uint64_t i = 1; i <= many; ++i) {
    rows(i, 0, 1, opening(i, 1));
    release(i);
  }
  EXPECT_EQ(stages[0].take_claims().windows_size(), static_cast<int>(limits::kReceiptBatch));
  EXPECT_EQ(stages[0].take_claims().windows_size(), 1);
  EXPECT_FALSE(stages[0].has_claims());
  const control::v1::WindowClaims claims = stages[1].take_claims();
  EXPECT_LT(claims.ByteSizeLong(), 64 * limits::kKiB) << "what the control port allows";
  stages[1].forget();
  EXPECT_FALSE(stages[1].has_claims());
  control::v1::Countersign message;
  message.set_previous(std::string(32, '\0'));
  message.add_windows()->set_request(claims.windows(0).request());
  EXPECT_EQ(stages[1].countersign(message).receipts_size(), 0);
}

// Else what is claimed last is what gives way next, and all that is asked for is gone already.
TEST_F(WindowReceiptsTest, OfMoreThanCanBeClaimedTheNewestAre) {
  for (std::uint64_t i = 1; i <= limits::kReceiptClaims + 1; ++i) {
    rows(i, 0, 1, opening(i, 1));
    release(i);
  }
  control::v1::WindowClaims claims = stages[1].take_claims();
  EXPECT_EQ(claims.windows(0).request(), to_field(order_of(2).request)) << "the oldest is left out";
  std::size_t count = 0;
  for (;; claims = stages[1].take_claims()) {
    count += static_cast<std::size_t>(claims.windows_size());
    if (!stages[1].has_claims()) break;
  }
  EXPECT_EQ(count, limits::kReceiptClaims);
}

TEST_F(WindowReceiptsTest, AWindowIsBegunByTheTimeOfTheLog) {
  std::uint64_t sequence = 0;
  for (const std::uint64_t now_ms : {0U, 1'000U, 9'000'000U}) {
    ++sequence;
    rows(sequence, 0, 3, opening(sequence, 2));
    release(sequence);
    const std::int64_t begun = clock.unix_seconds();
    clock.advance(std::chrono::seconds(2));
    const control::v1::WindowClaim claim = stages[0].take_claims().windows(0);
    control::v1::Countersign message;
    message.set_previous(std::string(32, '\0'));
    message.set_now_ms(now_ms);
    control::v1::Countersigned& window = *message.add_windows();
    window.set_request(claim.request());
    window.set_epoch(claim.epoch());
    window.set_in_signature(claim.in_signature());
    window.set_out_signature(claim.out_signature());
    const control::v1::Receipts signed_here = stages[0].countersign(message);
    ASSERT_EQ(signed_here.receipts_size(), 1);
    const auto receipt =
        ledger::parse_receipt(as_bytes(signed_here.receipts(0)), kCluster.public_key());
    ASSERT_TRUE(receipt) << receipt.error().message;
    const std::uint64_t wanted = now_ms == 0      ? static_cast<std::uint64_t>(begun) * 1'000
                                 : now_ms < 2'000 ? 0
                                                  : now_ms - 2'000;
    EXPECT_EQ(receipt->begun_ms, wanted);
  }
}

TEST_F(WindowReceiptsTest, AnAuditIsSealedOnceAndOpenedAsItWasSealed) {
  rows(1, 0, 3, opening(1, 2));
  release(1);
  const control::v1::WindowClaim claim = stages[0].take_claims().windows(0);
  control::v1::SealOrder order;
  control::v1::AuditedWindow& window = *order.add_windows();
  window.set_request(claim.request());
  window.set_epoch(claim.epoch());
  window.set_entry(55);
  control::v1::OpenOrder open;
  open.add_entries(55);
  EXPECT_EQ(stages[0].open(open).openings_size(), 0) << "before it is sealed";
  const control::v1::Seals seals = stages[0].seal(order);
  ASSERT_EQ(seals.seals_size(), 1);
  EXPECT_EQ(stages[0].seal(order).seals_size(), 0) << "once";
  ledger::SealEntry said{55, key_of(10).public_key(), {}, {}};
  ASSERT_TRUE(read_field(seals.seals(0).seal(), said.seal.bytes) &&
              read_field(seals.seals(0).signature(), said.signature));
  EXPECT_TRUE(ledger::check_seal(said, kCluster.public_key()));
  const control::v1::Openings openings = stages[0].open(open);
  ASSERT_EQ(openings.openings_size(), 1);
  EXPECT_EQ(openings.openings(0).root(), claim.out_root());
  Hash256 root;
  Hash256 salt;
  ASSERT_TRUE(read_field(openings.openings(0).root(), root.bytes) &&
              read_field(openings.openings(0).salt(), salt.bytes));
  EXPECT_EQ(ledger::seal_of(55, said.auditor, root, salt), said.seal);
  EXPECT_EQ(stages[0].open(open).openings_size(), 0) << "once";

  // One entry has one seal, and a window that was an audit has no receipt.
  rows(2, 0, 3, opening(2, 2));
  release(2);
  window.set_request(stages[0].take_claims().windows(0).request());
  EXPECT_EQ(stages[0].seal(order).seals_size(), 0);
  EXPECT_EQ(stages[1].open(open).openings_size(), 0) << "another's";
}

TEST_F(WindowReceiptsTest, ABadCountersignIsSignedNever) {
  rows(1, 0, 1, opening(1, 1));
  release(1);
  const control::v1::WindowClaim claim = stages[0].take_claims().windows(0);
  control::v1::Countersign message;
  control::v1::Countersigned& window = *message.add_windows();
  window.set_request(claim.request());
  window.set_epoch(claim.epoch());
  EXPECT_EQ(stages[0].countersign(message).receipts_size(), 0) << "no chain";
  message.set_previous(std::string(32, '\0'));
  window.set_in_signature("short");
  EXPECT_EQ(stages[0].countersign(message).receipts_size(), 0);
}

TEST_F(WindowReceiptsTest, WhoIsAccusedConcedesWhatItSaidAndDeniesWhatItNeverSaid) {
  rows(1, 0, 3, opening(1, 2));
  release(1);
  const control::v1::WindowClaim claim = stages[0].take_claims().windows(0);
  control::v1::SealOrder order;
  control::v1::AuditedWindow& window = *order.add_windows();
  window.set_request(claim.request());
  window.set_epoch(claim.epoch());
  window.set_entry(55);
  ASSERT_EQ(stages[0].seal(order).seals_size(), 1);
  control::v1::SelfChecked found;
  found.set_weights_whole(true);
  control::v1::Accusation accusation;
  accusation.set_entry(55);
  const auto plea = [&] {
    const control::v1::Answer answer = stages[0].plead(accusation, found);
    ledger::Answer said{answer.entry(),
                        key_of(10).public_key(),
                        static_cast<ledger::Plea>(answer.plea()),
                        answer.found().weights_whole(),
                        answer.found().self_test_passed(),
                        {}};
    EXPECT_TRUE(read_field(answer.signature(), said.signature));
    EXPECT_TRUE(ledger::check_answer(said, kCluster.public_key()));
    EXPECT_EQ(said.receipt, accusation.entry());
    return said.plea;
  };
  accusation.set_root(claim.out_root());
  EXPECT_EQ(plea(), ledger::Plea::kConceded);
  accusation.set_root(std::string(32, '\1'));
  EXPECT_EQ(plea(), ledger::Plea::kContested) << "it sealed another root";
  accusation.set_root("short");
  EXPECT_EQ(plea(), ledger::Plea::kContested);
  accusation.set_root(claim.out_root());
  accusation.set_receipt(std::string(ledger::kReceiptBytes, '\1'));
  EXPECT_EQ(plea(), ledger::Plea::kContested) << "that is no receipt of its own";
  ledger::Receipt receipt;
  receipt.positions = 3;
  receipt.layer_end = 2;
  receipt.stages = 2;
  ASSERT_TRUE(read_field(claim.out_root(), receipt.out_root.bytes));
  const auto sign = [&](unsigned char seed) {
    const auto bytes = ledger::sign_receipt(receipt, kCluster.public_key(), key_of(seed));
    EXPECT_TRUE(bytes) << (bytes ? "" : bytes.error().message);
    accusation.set_receipt(bytes ? to_field(*bytes) : "");
  };
  sign(10);
  EXPECT_EQ(plea(), ledger::Plea::kConceded);
  sign(11);
  EXPECT_EQ(plea(), ledger::Plea::kContested) << "another's";
  found.set_weights_whole(false);
  sign(10);
  EXPECT_EQ(plea(), ledger::Plea::kConceded);
}

}  // namespace
}  // namespace hearth::node
