#include "ledger/witness.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ledger/log.h"
#include "tests/unit/ledger/crash_disk.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

using Kind = Judgement::Kind;

const SecretKey& witnessed_log_key() {
  static const SecretKey key = key_of(1);
  return key;
}

// A log of one key whose entries are this word and their number, on a disk of its own.
struct LogHistory {
  explicit LogHistory(std::string said, std::uint64_t shared = 0)
      : word(std::move(said)),
        alike(shared),
        log(Log::create(borrow(disk), witnessed_log_key()).value()) {}

  Checkpoint grow(std::uint64_t to) {
    std::vector<Bytes> texts;
    for (std::uint64_t i = log->size(); i < to; ++i) {
      const std::string text = (i < alike ? "entry " : word) + std::to_string(i);
      texts.emplace_back(as_bytes(text).begin(), as_bytes(text).end());
    }
    const std::vector<ByteSpan> entries(texts.begin(), texts.end());
    EXPECT_TRUE(log->append(entries));
    return log->checkpoint();
  }

  std::string word;
  std::uint64_t alike;  // entries that all histories begin with
  CrashDisk disk;
  std::unique_ptr<Log> log;
};

TEST(Witness, WhatExtendsTheLatestMayBeCosigned) {
  LogHistory history("entry ");
  std::optional<Checkpoint> latest;
  for (const std::uint64_t size : {1, 2, 3, 7, 8, 64, 255, 256, 257, 300, 1'000}) {
    history.grow(size);
    const std::uint64_t old = latest ? latest->size : 0;
    const Offer offer = history.log->offer(old).value();
    EXPECT_EQ(judge(offer, latest, witnessed_log_key().public_key()).kind, Kind::kExtends) << size;
    latest = cosigned_by(offer.checkpoint, 1'700'000'000, key_of(9));
    EXPECT_EQ(judge(offer, latest, witnessed_log_key().public_key()).kind, Kind::kSame) << size;
    const auto again = parse_cosigned(as_bytes(latest->text()), witnessed_log_key().public_key(),
                                      key_of(9).public_key());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->size, size);
  }
  const Offer elsewhere = history.log->offer(300).value();
  EXPECT_EQ(judge(elsewhere, std::nullopt, witnessed_log_key().public_key()).kind,
            Kind::kElsewhere);
  EXPECT_EQ(judge(elsewhere, latest, key_of(2).public_key()).kind, Kind::kRefused) << "another log";
}

TEST(Witness, NothingSmallerAndNothingUnprovedIsCosigned) {
  LogHistory history("entry ");
  const Checkpoint before = history.grow(40);
  history.grow(100);
  const std::optional<Checkpoint> latest = before;
  const Offer good = history.log->offer(40).value();
  ASSERT_EQ(judge(good, latest, witnessed_log_key().public_key()).kind, Kind::kExtends);
  Offer smaller;
  smaller.checkpoint = before;
  const Judgement cut = judge(smaller, history.log->checkpoint(), witnessed_log_key().public_key());
  EXPECT_EQ(cut.kind, Kind::kRefused);
  EXPECT_NE(cut.why.find("the log was cut back: it shows 40 entries"), std::string::npos)
      << cut.why;
  for (std::size_t i = 0; i < good.proof.size(); ++i) {
    Offer wrong = good;
    wrong.proof[i].bytes[3] ^= std::byte{1};
    EXPECT_EQ(judge(wrong, latest, witnessed_log_key().public_key()).kind, Kind::kRefused) << i;
    wrong = good;
    wrong.proof.erase(wrong.proof.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(judge(wrong, latest, witnessed_log_key().public_key()).kind, Kind::kRefused) << i;
  }
  Offer claimed = good;  // an old root that its own proof does not have is no proof of anything
  claimed.old_root.bytes[0] ^= std::byte{1};
  EXPECT_EQ(judge(claimed, latest, witnessed_log_key().public_key()).kind, Kind::kRefused);
  Offer longer = good;
  longer.proof.resize(kProofHashes + 1);
  EXPECT_EQ(judge(longer, latest, witnessed_log_key().public_key()).kind, Kind::kRefused);
}

TEST(Witness, AForkIsProvedToAnybodyByItsFile) {
  for (const std::uint64_t latest_size : {30, 32, 64, 90}) {
    LogHistory one("entry ", 20);
    LogHistory other("other ", 20);
    const std::optional<Checkpoint> latest = one.grow(latest_size);
    other.grow(90);
    const Offer offer = other.log->offer(latest_size).value();
    const Judgement judged = judge(offer, latest, witnessed_log_key().public_key());
    ASSERT_EQ(judged.kind, Kind::kFork) << latest_size << judged.why;
    EXPECT_NE(judged.why.find(latest->root.hex()), std::string::npos);
    EXPECT_NE(judged.why.find(offer.checkpoint.root.hex()), std::string::npos);
    const std::string file = format_fork(*judged.fork);
    const auto read = parse_fork(as_bytes(file));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(format_fork(*read), file);
    EXPECT_EQ(read->one.root, latest->root);
    // Of one history nothing can be made that passes for a proof.
    Fork honest = *judged.fork;
    honest.one = other.log->checkpoint();
    honest.one.size = latest_size;
    honest.one.root = honest.root;
    EXPECT_FALSE(check_fork(honest));
    for (std::size_t at = 0; at < file.size(); at += 7) {
      std::string bent = file;
      bent[at] = bent[at] == 'A' ? 'B' : 'A';
      EXPECT_FALSE(parse_fork(as_bytes(bent))) << at;
    }
    EXPECT_FALSE(parse_fork(as_bytes(file.substr(0, file.size() - 1))));
  }
}

TEST(Witness, ACosignedCheckpointHasTheOneLineOfItsWitness) {
  LogHistory history("entry ");
  const Checkpoint plain = history.grow(5);
  const PublicKey log = witnessed_log_key().public_key();
  const PublicKey witness = key_of(9).public_key();
  Checkpoint both = cosigned_by(plain, 5, key_of(9));
  ASSERT_TRUE(parse_cosigned(as_bytes(both.text()), log, witness));
  EXPECT_FALSE(parse_cosigned(as_bytes(plain.text()), log, witness));
  EXPECT_FALSE(parse_cosigned(as_bytes(both.text()), key_of(2).public_key(), witness));
  EXPECT_FALSE(parse_cosigned(as_bytes(both.text()), log, key_of(8).public_key()));
  ASSERT_TRUE(add_cosignature(both, cosign(both, 6, key_of(8))));
  EXPECT_FALSE(parse_cosigned(as_bytes(both.text()), log, witness)) << "somebody else's too";
  EXPECT_EQ(cosigned_by(both, 7, key_of(9)).cosignatures.size(), 1u);
}

}  // namespace
}  // namespace hearth::ledger
