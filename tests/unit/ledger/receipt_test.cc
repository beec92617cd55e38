#include "ledger/receipt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/limits.h"
#include "ledger/merkle.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

const PublicKey kCluster = key_of(1).public_key();

// Stage `stage` of four over 20 layers each, worked by key 10 + stage.
Receipt receipt_of(std::uint16_t stage) {
  Receipt r;
  r.slot.request.fill(std::byte{7});
  r.slot.epoch = 3;
  r.slot.stage = stage;
  r.slot.window = 2;
  r.program = program_id(hash_of("manifest"), "build", 1);
  r.layer_begin = static_cast<std::uint16_t>(20 * stage);
  r.layer_end = static_cast<std::uint16_t>(20 * stage + 20);
  r.stages = 4;
  r.first_position = 2 * limits::kWindowPositions;
  r.positions = 64;
  r.prompt_positions = 10;
  r.tokens = hash_of("tokens");
  r.in_root = stage == 0 ? r.tokens : hash_of("boundary " + std::to_string(stage));
  r.out_root = stage == 3 ? r.tokens : hash_of("boundary " + std::to_string(stage + 1));
  r.previous = hash_of("previous");
  r.begun_ms = 1'700'000'000'000;
  r.took_ms = 900;
  r.worker = key_of(static_cast<unsigned char>(10 + stage)).public_key();
  const auto neighbour = [](int of) { return key_of(static_cast<unsigned char>(10 + of)); };
  r.in_edge = sign_edge(in_edge(r), kCluster, stage == 0 ? key_of(1) : neighbour(stage - 1));
  r.out_edge = sign_edge(out_edge(r), kCluster, stage == 3 ? key_of(1) : neighbour(stage + 1));
  return r;
}

TEST(Receipt, RoundTrips) {
  for (std::uint16_t stage = 0; stage < 4; ++stage) {
    const Receipt r = receipt_of(stage);
    const SecretKey key = key_of(static_cast<unsigned char>(10 + stage));
    const auto bytes = sign_receipt(r, kCluster, key);
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_EQ(bytes->size(), kReceiptBytes);
    const auto parsed = parse_receipt(*bytes, kCluster);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, r);
  }
  EXPECT_LE(4 * kReceiptBytes, 2'048u) << "logged for a window of four stages";
}

TEST(Receipt, NoBitOfItMayChange) {
  const Bytes bytes = *sign_receipt(receipt_of(1), kCluster, key_of(11));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes wrong = bytes;
    wrong[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(parse_receipt(wrong, kCluster)) << bit;
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_receipt(ByteSpan(bytes).first(size), kCluster));
  }
  Bytes longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(parse_receipt(longer, kCluster));
  EXPECT_FALSE(parse_receipt(bytes, key_of(2).public_key())) << "of another cluster";
}

TEST(Receipt, RefusesFieldsThatNoWindowHas) {
  struct Case {
    const char* what;
    void (*change)(Receipt&);
  };
  for (const Case& one : {
           Case{"no layers", [](Receipt& r) { r.layer_end = r.layer_begin; }},
           Case{"too many layers", [](Receipt& r) { r.layer_end = limits::kModelLayers + 1; }},
           Case{"a stage behind the last", [](Receipt& r) { r.slot.stage = 4; }},
           Case{"no stages", [](Receipt& r) { r.stages = 0; }},
           Case{"too many stages", [](Receipt& r) { r.stages = limits::kStages + 1; }},
           Case{"no positions", [](Receipt& r) { r.positions = 0; }},
           Case{"too many positions",
                [](Receipt& r) { r.positions = limits::kWindowPositions + 1; }},
           Case{"another place than its window's", [](Receipt& r) { ++r.first_position; }},
           Case{"the place of another window", [](Receipt& r) { r.slot.window = 1; }},
           Case{"a window beyond all numbers", [](Receipt& r) { r.slot.window += 1U << 20; }},
           Case{"positions past all", [](Receipt& r) { r.first_position = ~0U; }},
           Case{"too much prompt", [](Receipt& r) { r.prompt_positions = 65; }},
           Case{"what it was given", [](Receipt& r) { r.out_root = r.in_root; }},
       }) {
    Receipt r = receipt_of(1);
    one.change(r);
    EXPECT_FALSE(sign_receipt(r, kCluster, key_of(11))) << one.what;
  }
  Receipt first = receipt_of(0);
  first.in_root = hash_of("other");
  EXPECT_FALSE(sign_receipt(first, kCluster, key_of(10)));
  Receipt last = receipt_of(3);
  last.out_root = hash_of("other");
  EXPECT_FALSE(sign_receipt(last, kCluster, key_of(13)));
  Receipt whole = receipt_of(0);  // one stage alone: in and out are the tokens
  whole.stages = 1;
  whole.out_root = whole.tokens;
  EXPECT_TRUE(sign_receipt(whole, kCluster, key_of(10)));
}

TEST(Receipt, ABrokenEdgeIsLocated) {
  std::vector<Receipt> pipeline;
  for (std::uint16_t stage = 0; stage < 4; ++stage) pipeline.push_back(receipt_of(stage));
  for (std::size_t i = 0; i + 1 < 4; ++i) {
    const Status whole = check_neighbours(pipeline[i], pipeline[i + 1], kCluster);
    EXPECT_TRUE(whole) << whole.error().message;
  }
  EXPECT_TRUE(check_edge(in_edge(pipeline[0]), kCluster, kCluster, pipeline[0].in_edge));
  EXPECT_TRUE(check_edge(out_edge(pipeline[3]), kCluster, kCluster, pipeline[3].out_edge));
  EXPECT_FALSE(check_neighbours(pipeline[0], pipeline[2], kCluster));

  const auto message = [](const Receipt& upper, const Receipt& lower) {
    const Status checked = check_neighbours(upper, lower, kCluster);
    return checked ? std::string() : checked.error().message;
  };
  Receipt changed = pipeline[2];
  changed.in_root = hash_of("forged");
  EXPECT_NE(message(pipeline[1], changed).find("between stage 1 and stage 2: what went out"),
            std::string::npos);
  changed = pipeline[2];
  changed.in_edge = pipeline[2].out_edge;
  EXPECT_NE(message(pipeline[1], changed).find("the sender has not signed"), std::string::npos);
  changed = pipeline[1];
  changed.out_edge = pipeline[1].in_edge;
  EXPECT_NE(message(changed, pipeline[2]).find("the receiver has not"), std::string::npos);
  changed = pipeline[2];
  changed.positions = 63;
  EXPECT_NE(message(pipeline[1], changed).find("different things"), std::string::npos);
  EXPECT_FALSE(check_edge(in_edge(pipeline[2]), key_of(2).public_key(), pipeline[1].worker,
                          pipeline[2].in_edge))
      << "of another cluster";
}

TEST(Receipt, AWindowStandsBehindFullOnes) {
  Receipt later = receipt_of(1);
  later.prompt_positions = 0;
  Receipt earlier = later;
  earlier.slot.window = 1;
  earlier.positions = limits::kWindowPositions;
  EXPECT_TRUE(check_windows(earlier, later));
  later.prompt_positions = 1;
  EXPECT_FALSE(check_windows(earlier, later)) << "a prompt behind what was generated";
  earlier.prompt_positions = limits::kWindowPositions;
  EXPECT_TRUE(check_windows(earlier, later));
  --earlier.positions;
  --earlier.prompt_positions;
  EXPECT_FALSE(check_windows(earlier, later)) << "the second begins elsewhere than the first ends";
}

TEST(Receipt, TwoStatementsOfOneSlotAreEquivocation) {
  const Receipt one = receipt_of(1);
  Receipt other = one;
  EXPECT_FALSE(is_equivocation(one, other)) << "the same twice";
  other.previous = hash_of("other");
  other.took_ms = 7;
  EXPECT_FALSE(is_equivocation(one, other)) << "the same, in another place of the chain";
  other.out_root = hash_of("other");
  EXPECT_TRUE(is_equivocation(one, other));
  other.slot.window = 3;
  EXPECT_FALSE(is_equivocation(one, other)) << "another window";
  other = one;
  other.out_root = hash_of("other");
  other.worker = key_of(9).public_key();
  EXPECT_FALSE(is_equivocation(one, other)) << "another worker";
}

// Without the salt, prompts cannot be tried against what the log holds.
TEST(Receipt, CommitmentsAreSaltedAndBound) {
  const Hash256 salt = hash_of("salt");
  const std::vector<std::uint32_t> tokens{1, 2, 3};
  const Hash256 committed = commit_tokens(salt, 0, tokens, as_bytes("t=0"));
  EXPECT_EQ(committed, commit_tokens(salt, 0, tokens, as_bytes("t=0")));
  EXPECT_NE(committed, commit_tokens(hash_of("other"), 0, tokens, as_bytes("t=0")));
  EXPECT_NE(committed, commit_tokens(salt, 1, tokens, as_bytes("t=0")));
  EXPECT_NE(committed, commit_tokens(salt, 0, tokens, as_bytes("t=1")));
  EXPECT_NE(committed, commit_tokens(salt, 0, std::vector<std::uint32_t>{1, 2}, as_bytes("t=0")));

  std::vector<Hash256> rows;
  for (int i = 0; i < 9; ++i) rows.push_back(hash_of(std::to_string(i)));
  const Hash256 root = boundary_root(salt, 5, rows);
  EXPECT_NE(root, boundary_root(hash_of("other"), 5, rows));
  EXPECT_NE(root, boundary_root(salt, 6, rows));
  const NodeReader nodes = [&](unsigned level, std::uint64_t index) -> Result<Hash256> {
    const std::size_t count = std::size_t{1} << level;
    std::vector<Hash256> leaves;
    for (std::size_t i = index * count; i < (index + 1) * count; ++i) {
      leaves.push_back(boundary_leaf(salt, 5 + static_cast<std::uint32_t>(i), rows[i]));
    }
    return subtree_root(leaves);
  };
  const Proof proof = *inclusion_proof(4, 9, nodes);
  EXPECT_TRUE(check_inclusion(boundary_leaf(salt, 9, rows[4]), 4, 9, proof, root))
      << "one row can be opened alone";
  EXPECT_FALSE(check_inclusion(boundary_leaf(salt, 9, rows[5]), 4, 9, proof, root));
}

TEST(Receipt, WhoClaimsARootShowsTheRowThatFollowsFromIt) {
  const Hash256 salt = hash_of("salt");
  for (const std::uint32_t count : {1u, 2u, 9u, 100u}) {
    std::vector<Hash256> rows;
    for (std::uint32_t i = 0; i < count; ++i) rows.push_back(hash_of(std::to_string(i)));
    Edge edge{{}, 4, 1, 0, boundary_root(salt, 5, rows)};
    std::set<Hash256> shown_rows;
    for (std::uint64_t epoch = 1; epoch <= 40; ++epoch) {
      edge.epoch = epoch;
      const ShownRow shown = show_row(edge, salt, 5, rows);
      shown_rows.insert(shown.row);
      EXPECT_TRUE(check_row(edge, salt, 5, count, shown).ok());
      EXPECT_FALSE(check_row(edge, hash_of("another"), 5, count, shown).ok());
      EXPECT_FALSE(check_row(edge, salt, 6, count, shown).ok());
      EXPECT_FALSE(check_row(edge, salt, 5, 2 * count, shown).ok()) << "paths are longer there";
      ShownRow wrong = shown;
      wrong.row = hash_of("guessed");
      EXPECT_FALSE(check_row(edge, salt, 5, count, wrong).ok());
      wrong = shown;
      wrong.path.push_back(edge.root);
      EXPECT_FALSE(check_row(edge, salt, 5, count, wrong).ok());
      Edge other = edge;
      other.root = hash_of("read in a log");
      EXPECT_FALSE(check_row(other, salt, 5, count, show_row(other, salt, 5, rows)).ok());
    }
    EXPECT_GE(shown_rows.size(), std::min(count, 9u)) << "another one for another edge";
  }
  EXPECT_FALSE(check_row({}, salt, 0, 0, {}).ok());
}

// As PROTOCOL.md has it, so that another implementation comes to the same.
TEST(Receipt, OfAChoiceFollowsFromItsAnswers) {
  const Hash256 answer = blake2b(as_bytes("an answer"));
  AnswerName name{};
  name.fill(std::byte{7});
  for (const std::uint16_t choice : {0, 1, 300}) {
    const RequestId request = request_of(name, choice);
    std::string words = "choice";
    for (const std::byte byte : request) words += static_cast<char>(byte);
    EXPECT_EQ(choice_salt(answer, request), keyed_blake2b(answer, as_bytes(words)));
  }
  EXPECT_NE(choice_salt(answer, request_of(name, 0)), choice_salt(answer, request_of(name, 1)));
}

}  // namespace
}  // namespace hearth::ledger
