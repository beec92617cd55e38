#include "node/engine/ranks/rank_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include "model/synthetic.h"
#include "node/engine/loops.h"
#include "tests/unit/node/engine/ranks/local_exchange.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kGroupRows = 9;

class RankRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Bytes bytes = model::synthetic_model_bytes({}).value();
    spec_ = model::ModelSpec::read(*model::GgufFile::parse(bytes, "tiny").value()).value();
    spec_.heads = 8;
    spec_.kv_heads = 4;
    spec_.hidden = 256;
  }

  // Runs task(rank, its rows) on every rank of a group with these speeds.
  template <typename Task>
  void run(const std::vector<std::uint32_t>& speeds, LocalExchange& exchange, const Task& task) {
    const std::vector<Share> shares = divide(spec_, speeds).value();
    on_ranks(static_cast<std::uint32_t>(speeds.size()), exchange, [&](std::uint32_t rank) {
      const RankGroup group{shares, rank, &exchange.of(rank), 1};
      RankRows rows(spec_, group, kGroupRows, kGroupRows);
      task(rank, rows);
    });
  }

  static RankRows::Failures failures(std::set<std::uint32_t>& failed) {
    return {[&failed](std::uint32_t row) { return failed.contains(row); },
            [&failed](std::uint32_t row) { failed.insert(row); }};
  }

  model::ModelSpec spec_;
};

// Values whose blocks differ by up to 2^220, with blocks of zeros among them.
std::vector<float> values(std::uint32_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(std::size_t{kGroupRows} * cols);
  for (std::size_t at = 0; at < x.size(); at += kernels::kBlock) {
    const int far = static_cast<int>(random() % 221) - 110;
    const int exponent = random() % 3 == 0 ? far : static_cast<int>(random() % 8);
    for (std::size_t k = at; k < at + kernels::kBlock; ++k) {
      const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
      x[k] = random() % 9 == 0 ? 0.0F : std::ldexp(value, exponent - 10);
    }
  }
  return x;
}

kernels::PackedMatrix matrix(std::uint32_t cols) {
  std::mt19937 random(3);
  Bytes blocks(std::size_t{16} * cols / 32 * 18);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < blocks.size(); at += 18) {
    const std::uint16_t d = 0x3000;
    std::memcpy(blocks.data() + at, &d, sizeof d);
  }
  return kernels::PackedMatrix::pack(kernels::WeightType::kQ4_0, 16, cols, blocks).value();
}

std::vector<float> product(const kernels::PackedMatrix& w, const kernels::QuantizedRows& x) {
  std::vector<float> out(std::size_t{x.rows} * 16);
  kernels::kernels_named("scalar").value()->matmul(w, x, 0, 1, out.data(), 16);
  return out;
}

TEST_F(RankRowsTest, PartsOfQuantisedRowsAreTheWholeRow) {
  const std::uint32_t cols = spec_.heads * spec_.head_dim;
  const kernels::PackedMatrix w = matrix(cols);
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const std::vector<std::uint32_t>& speeds :
         {std::vector<std::uint32_t>{1}, {1, 1}, {3, 1}, {0, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
      const std::vector<float> x = values(cols, 7);
      const QuantBuffer all(kGroupRows, cols);
      const auto alone = all.view(kGroupRows, cols);
      for (std::uint32_t row = 0; row < kGroupRows; ++row) {
        ASSERT_TRUE(table->quantize(x.data() + row * cols, alone, row));
      }
      const std::vector<float> wanted = product(w, alone);
      LocalExchange exchange(static_cast<std::uint32_t>(speeds.size()));
      run(speeds, exchange, [&](std::uint32_t rank, RankRows& rows) {
        const IndexRange range = rows.queries()[rank];
        const QuantBuffer mine(kGroupRows, range.size());
        const QuantBuffer buffer(kGroupRows, cols);
        const auto part = mine.view(kGroupRows, range.size());
        for (std::uint32_t row = 0; row < kGroupRows && range.size() != 0; ++row) {
          ASSERT_TRUE(table->quantize(x.data() + row * cols + range.begin, part, row));
        }
        std::set<std::uint32_t> failed;
        const auto whole = buffer.view(kGroupRows, cols);
        ASSERT_TRUE(rows.join(rows.queries(), part, whole, failures(failed)).ok());
        EXPECT_TRUE(failed.empty());
        const std::size_t blocks = std::size_t{kGroupRows} * cols / kernels::kBlock;
        EXPECT_TRUE(std::equal(whole.values, whole.values + kGroupRows * cols, alone.values));
        EXPECT_TRUE(std::equal(whole.exponents, whole.exponents + kGroupRows, alone.exponents));
        EXPECT_TRUE(std::equal(whole.block_sums, whole.block_sums + blocks, alone.block_sums));
        for (std::size_t b = 0; b < blocks; ++b) {
          if (alone.scales[b] < 0x1p-100F) continue;  // its products are 0
          EXPECT_EQ(whole.scales[b], alone.scales[b]);
          EXPECT_EQ(whole.sums[b], alone.sums[b]);
        }
        EXPECT_EQ(product(w, whole), wanted) << table->name << ", rank " << rank;
      });
    }
  }
}

TEST_F(RankRowsTest, ARowThatFailsOnOneRankFailsOnAll) {
  constexpr std::uint32_t kRanks = 3;
  LocalExchange exchange(kRanks);
  run({2, 1, 1}, exchange, [&](std::uint32_t rank, RankRows& rows) {
    const std::uint32_t cols = RankRows::width_of(rows.queries());
    const std::uint32_t width = rows.queries()[rank].size();
    const QuantBuffer mine(kGroupRows, cols);
    const QuantBuffer buffer(kGroupRows, cols);
    const auto part = mine.view(kGroupRows, width);
    const std::vector<float> ones(cols, 1.0F);
    for (std::uint32_t row = 0; row < kGroupRows; ++row) {
      kernels::kernels_named("scalar").value()->quantize(ones.data(), part, row);
    }
    std::set<std::uint32_t> failed;
    if (rank == 1) failed = {2};
    const auto whole = buffer.view(kGroupRows, cols);
    ASSERT_TRUE(rows.join(rows.queries(), part, whole, failures(failed)).ok());
    EXPECT_EQ(failed, std::set<std::uint32_t>{2});
    EXPECT_EQ(whole.exponents[2], kernels::kExponentMin);
    EXPECT_TRUE(std::all_of(whole.values + 2 * cols, whole.values + 3 * cols,
                            [](std::int8_t value) { return value == 0; }));
    EXPECT_EQ(whole.values[cols], 127);

    const std::uint32_t own = rows.own().hidden.size();
    std::vector<float> delta(std::size_t{kGroupRows} * own, 1.5F);
    std::vector<float> sum(std::size_t{kGroupRows} * spec_.hidden);
    if (rank == 2) failed.insert(4);
    ASSERT_TRUE(rows.join_values(kGroupRows, delta.data(), sum.data(), failures(failed)).ok());
    EXPECT_EQ(failed, (std::set<std::uint32_t>{2, 4}));
    EXPECT_EQ(sum[3 * spec_.hidden], 1.5F);
    EXPECT_EQ(sum[5 * spec_.hidden - 1], 0.0F);

    std::vector<std::uint16_t> bits(std::size_t{kGroupRows} * spec_.hidden, 0x3C00);
    if (rank == 0) failed.insert(8);
    ASSERT_TRUE(rows.join_residuals(kGroupRows, bits.data(), failures(failed)).ok());
    EXPECT_EQ(failed, (std::set<std::uint32_t>{2, 4, 8}));
    EXPECT_EQ(bits.back(), 0);
    EXPECT_EQ(bits.front(), 0x3C00);

    // An infinity that its rank does not mark.
    std::fill(bits.begin(), bits.end(), std::uint16_t{0x3C00});
    if (rank == 1) bits[5 * spec_.hidden + rows.own().hidden.end - 1] = 0x7C00;
    ASSERT_TRUE(rows.join_residuals(kGroupRows, bits.data(), failures(failed)).ok());
    EXPECT_EQ(failed, (std::set<std::uint32_t>{2, 4, 5, 8}));

    const std::vector<std::uint32_t> tokens{0, 399, 100, 200, 300, 399, 0, 250, 1};
    std::fill(bits.begin(), bits.end(), std::uint16_t{0});
    for (std::uint32_t row = 0; row < kGroupRows; ++row) {
      if (rows.own().vocabulary.holds(tokens[row])) {
        std::fill_n(bits.begin() + row * spec_.hidden, spec_.hidden,
                    static_cast<std::uint16_t>(tokens[row]));
      }
    }
    failed.clear();
    if (rows.own().vocabulary.holds(250)) failed = {7};
    ASSERT_TRUE(rows.join_embeddings(tokens, bits.data(), failures(failed)).ok());
    EXPECT_EQ(failed, std::set<std::uint32_t>{7});
    for (std::uint32_t row = 0; row < kGroupRows; ++row) {
      EXPECT_EQ(bits[(row + 1) * spec_.hidden - 1], row == 7 ? 0 : tokens[row]) << row;
    }
  });
}

// As many rows as it may gather at once: more bytes than any other exchange has.
TEST_F(RankRowsTest, LogitsComeToTheFirstRankAlone) {
  LocalExchange exchange(3);
  run({1, 0, 2}, exchange, [&](std::uint32_t rank, RankRows& rows) {
    const IndexRange range = rows.own().vocabulary;
    std::vector<float> own;
    for (std::uint32_t row = 0; row < kGroupRows; ++row) {
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        own.push_back(static_cast<float>(row * 1000 + i));
      }
    }
    std::vector<float> all(std::size_t{kGroupRows} * spec_.vocabulary, -1.0F);
    ASSERT_TRUE(rows.gather_logits(kGroupRows, own.data(), all.data()).ok());
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      const std::uint32_t logit = i / spec_.vocabulary * 1000 + i % spec_.vocabulary;
      ASSERT_EQ(all[i], rank == 0 ? static_cast<float>(logit) : -1.0F) << i;
    }
  });
  EXPECT_EQ(exchange.sent(0), 0U);
}

// What no rank makes would be read outside of tables, or give sums that no product bounds.
TEST_F(RankRowsTest, ForgedBytesAreRefusedWithTheirRank) {
  const auto outcome = [&](std::size_t at, std::uint32_t word, std::size_t size) {
    LocalExchange exchange(2);
    exchange.forge([&](std::uint32_t, Bytes& bytes) { std::memcpy(&bytes[at], &word, size); });
    Status first = ok_status();
    Status again = ok_status();
    run({1, 1}, exchange, [&](std::uint32_t rank, RankRows& rows) {
      const std::uint32_t cols = RankRows::width_of(rows.queries());
      const QuantBuffer mine(kGroupRows, cols);
      const QuantBuffer buffer(kGroupRows, cols);
      const auto part = mine.view(kGroupRows, rows.queries()[rank].size());
      const std::vector<float> ones(cols, 1.0F);
      for (std::uint32_t row = 0; row < kGroupRows; ++row) {
        kernels::kernels_named("scalar").value()->quantize(ones.data(), part, row);
      }
      std::set<std::uint32_t> failed;
      const auto whole = buffer.view(kGroupRows, cols);
      const Status joined = rows.join(rows.queries(), part, whole, failures(failed));
      if (rank != 0) return;
      first = joined;
      EXPECT_EQ(exchange.culprit(0).has_value(), !joined.ok());
      std::vector<float> delta(kGroupRows * spec_.hidden);
      if (!first.ok()) again = rows.join_values(0, delta.data(), delta.data(), failures(failed));
    });
    if (first.ok()) return std::string("accepted");
    EXPECT_EQ(first.error().code, ErrorCode::kInvalidInput);
    EXPECT_FALSE(again.ok()) << "the group has ended";
    return first.error().message.substr(0, 11);
  };
  const std::size_t scales = kGroupRows * 2;
  const std::size_t blocks = kGroupRows * std::size_t{spec_.heads} / 2 * spec_.head_dim / 32;
  EXPECT_EQ(outcome(0, 0, 2), "accepted");
  EXPECT_EQ(outcome(0, 129, 2), "rank 1 sent");
  EXPECT_EQ(outcome(0, 0xFF00, 2), "rank 1 sent");
  EXPECT_EQ(outcome(scales, 0x7FC00000, 4), "rank 1 sent");
  EXPECT_EQ(outcome(scales, 0xBF800000, 4), "rank 1 sent");
  EXPECT_EQ(outcome(scales + 4 * blocks, 0x80, 1), "rank 1 sent");
  EXPECT_EQ(outcome(scales + 4 * blocks, 0x81, 1), "accepted");
}

// The figures of CANONICAL.md, "Ranks".
TEST_F(RankRowsTest, ExchangesTakeTheBytesThatAreSaid) {
  LocalExchange exchange(4);
  run({1, 1, 1, 1}, exchange, [&](std::uint32_t rank, RankRows& rows) {
    const std::uint32_t cols = RankRows::width_of(rows.queries());
    const QuantBuffer mine(kGroupRows, cols);
    const QuantBuffer buffer(kGroupRows, cols);
    const auto part = mine.view(kGroupRows, rows.queries()[rank].size());
    const std::vector<float> ones(cols, 1.0F);
    for (std::uint32_t row = 0; row < kGroupRows; ++row) {
      kernels::kernels_named("scalar").value()->quantize(ones.data(), part, row);
    }
    std::set<std::uint32_t> failed;
    const auto whole = buffer.view(kGroupRows, cols);
    ASSERT_TRUE(rows.join(rows.queries(), part, whole, failures(failed)).ok());
    EXPECT_EQ(exchange.sent(rank), 3 * kGroupRows * (2 + cols / 4 + cols / 4 / 8));
    std::vector<float> delta(std::size_t{kGroupRows} * spec_.hidden);
    ASSERT_TRUE(rows.join_values(kGroupRows, delta.data(), delta.data(), failures(failed)).ok());
    std::vector<std::uint16_t> bits(std::size_t{kGroupRows} * spec_.hidden);
    ASSERT_TRUE(rows.join_residuals(kGroupRows, bits.data(), failures(failed)).ok());
    EXPECT_EQ(exchange.sent(rank),
              3 * kGroupRows * (2 + cols / 4 + cols / 32 + spec_.hidden / 4 * (4 + 2)));
  });
}

// The one that most ranks differ from, which blames no other.
TEST_F(RankRowsTest, ARankThatDecidesOtherwiseIsNamed) {
  const std::vector<Share> shares = divide(spec_, std::vector<std::uint32_t>{1, 1, 1}).value();
  const auto decide = [&](std::optional<std::uint32_t> other) {
    LocalExchange exchange(3);
    on_ranks(3, exchange, [&](std::uint32_t rank) {
      const RankGroup group{shares, rank, &exchange.of(rank), 1};
      Hash256 decided;
      if (rank == other) decided.bytes[31] = std::byte{1};
      const Status agreed = agree(group, decided);
      ASSERT_EQ(agreed.ok(), !other.has_value());
      if (agreed.ok()) return;
      const std::string name = "rank " + std::to_string(*other) + " decided";
      EXPECT_EQ(agreed.error().message.substr(0, name.size()), name);
      EXPECT_EQ(exchange.culprit(rank), rank == other ? std::nullopt : other);
    });
    EXPECT_EQ(exchange.swaps(0), 1U);
  };
  decide(std::nullopt);
  decide(0);
  decide(2);
}

TEST_F(RankRowsTest, ALostRankEndsTheGroup) {
  LocalExchange exchange(2);
  exchange.leave(0);
  exchange.leave(1);
  run({1, 1}, exchange, [&](std::uint32_t, RankRows& rows) {
    std::vector<float> delta(std::size_t{kGroupRows} * spec_.hidden);
    std::set<std::uint32_t> failed;
    for (int i = 0; i < 2; ++i) {
      const Status lost =
          rows.join_values(kGroupRows, delta.data(), delta.data(), failures(failed));
      ASSERT_FALSE(lost.ok());
      EXPECT_EQ(lost.error().code, ErrorCode::kIo);
    }
  });
  EXPECT_EQ(exchange.swaps(0), 1U) << "a second one would wait for ranks that are gone";
}

}  // namespace
}  // namespace hearth::node
