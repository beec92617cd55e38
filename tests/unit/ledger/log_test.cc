#include "ledger/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/limits.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

namespace fs = std::filesystem;

class LogOnDisk : public ::testing::Test {
 protected:
  LogOnDisk() {
    char name[] = "/tmp/hearth-log-XXXXXX";
    above_ = ::mkdtemp(name);
    path_ = above_ / "ledger";
  }
  ~LogOnDisk() override { fs::remove_all(above_); }

  std::unique_ptr<LogFolder> folder(LogAccess access) {
    auto opened = open_log_folder(path_.string(), access);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  std::unique_ptr<Log> create() {
    auto log = Log::create(folder(LogAccess::kCreate), key_of(1));
    EXPECT_TRUE(log) << log.error().message;
    return std::move(*log);
  }
  Result<std::unique_ptr<Log>> open(const EntryVisitor& visit = {}) {
    return Log::open(folder(LogAccess::kWrite), key_of(1), visit);
  }
  bool exists(const std::string& name) const { return fs::exists(path_ / name); }

  fs::path above_;
  fs::path path_;
};

std::string text_of(std::uint64_t index) { return "entry " + std::to_string(index); }

void append_many(Log& log, std::uint64_t count) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) texts.push_back(text_of(log.size() + i));
  std::vector<ByteSpan> entries;
  for (const std::string& text : texts) entries.push_back(as_bytes(text));
  const std::uint64_t before = log.size();
  const auto first = log.append(entries);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, before);
}

TEST_F(LogOnDisk, KeepsWhatIsAppendedAndProvesIt) {
  struct Earlier {
    std::uint64_t size;
    Hash256 root;
  };
  std::vector<Earlier> earlier;
  {
    const auto log = create();
    for (const std::uint64_t count : {1, 1, 5, 200, 49, 1, 300, 255}) {
      append_many(*log, count);
      earlier.push_back({log->size(), log->checkpoint().root});
    }
  }
  std::uint64_t seen = 0;
  const auto log = open([&](std::uint64_t index, ByteSpan entry, const Hash256& /*leaf*/) {
    EXPECT_EQ(index, seen++);
    EXPECT_EQ(as_text(entry), text_of(index));
    return ok_status();
  });
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(seen, 812u);
  const Checkpoint& checkpoint = (*log)->checkpoint();
  const auto disk = folder(LogAccess::kRead);
  TileReader tiles(*disk, 812);
  for (std::uint64_t i = 0; i < 812; i += 7) {
    const auto bundle = tiles.bundle(i / kTileWidth);
    ASSERT_TRUE(bundle) << bundle.error().message;
    const ByteSpan entry = bundle->entries[i % kTileWidth].bytes;
    EXPECT_EQ(as_text(entry), text_of(i));
    const auto proof = inclusion_proof(i, 812, tiles.nodes());
    ASSERT_TRUE(proof);
    EXPECT_TRUE(check_inclusion(leaf_hash(entry), i, 812, *proof, checkpoint.root));
  }
  for (const Earlier& one : earlier) {
    const auto offer = (*log)->offer(one.size);
    ASSERT_TRUE(offer) << offer.error().message;
    EXPECT_EQ(offer->old_root, one.root);
    EXPECT_TRUE(check_consistency(one.size, one.root, 812, checkpoint.root, offer->proof));
  }
  EXPECT_FALSE(tiles.node(0, 812));
  EXPECT_FALSE((*log)->offer(813));
}

TEST_F(LogOnDisk, LiesOnTheDiskAsTheSpecificationHasIt) {  // its example: 70,000 entries
  const auto log = create();
  append_many(*log, 65'536);
  EXPECT_TRUE(exists("tile/1/000"));
  EXPECT_TRUE(exists("tile/2/000.p/1"));
  append_many(*log, 4'464);
  for (const char* name : {"checkpoint", "tile/0/000", "tile/0/272", "tile/0/273.p/112",
                           "tile/1/000", "tile/1/001.p/17", "tile/2/000.p/1", "tile/entries/000",
                           "tile/entries/272", "tile/entries/273.p/112"}) {
    EXPECT_TRUE(exists(name)) << name;
  }
  for (const char* name : {"tile/0/273", "tile/0/274", "tile/1/001", "tile/2/000", "tile/3",
                           "tile/entries/273", "checkpoint.new"}) {
    EXPECT_FALSE(exists(name)) << name;
  }
  EXPECT_EQ(fs::file_size(path_ / "tile/0/000"), 8'192u);
  EXPECT_EQ(fs::file_size(path_ / "tile/1/001.p/17"), 17u * 32);
}

TEST_F(LogOnDisk, PartialTilesGoWhenTheTileIsFull) {
  const auto log = create();
  append_many(*log, 3);
  append_many(*log, 4);
  EXPECT_TRUE(exists("tile/0/000.p/3")) << "an earlier checkpoint's reader may still ask for it";
  EXPECT_TRUE(exists("tile/entries/000.p/7"));
  append_many(*log, 249);
  EXPECT_TRUE(exists("tile/0/000"));
  EXPECT_FALSE(exists("tile/0/000.p"));
  EXPECT_FALSE(exists("tile/entries/000.p"));
}

// Who has read the checkpoint just before finds everything it signs in the full tiles.
TEST_F(LogOnDisk, AReaderOfTheCheckpointBeforeIsServedByFullTiles) {
  const auto log = create();
  append_many(*log, 250);
  fs::copy_file(path_ / "checkpoint", above_ / "kept");
  append_many(*log, 10);
  fs::copy_file(above_ / "kept", path_ / "checkpoint", fs::copy_options::overwrite_existing);
  const auto reader = folder(LogAccess::kRead);
  std::uint64_t seen = 0;
  const auto scan = scan_log(*reader, {}, [&](std::uint64_t, ByteSpan, const Hash256&) {
    ++seen;
    return ok_status();
  });
  ASSERT_TRUE(scan) << scan.error().message;
  EXPECT_EQ(seen, 250u);
  EXPECT_FALSE(scan->leftover.empty()) << "what lies beyond the checkpoint is no part of the log";
}

TEST_F(LogOnDisk, ACosignatureStaysUntilTheNextAppend) {
  const auto log = create();
  append_many(*log, 3);
  const NoteSignature line = cosign(log->checkpoint(), 1'700'000'000, key_of(2));
  ASSERT_TRUE(log->add_cosignature(line));
  EXPECT_FALSE(log->add_cosignature(line)) << "twice";
  const auto reader = folder(LogAccess::kRead);
  EXPECT_EQ(read_checkpoint(*reader)->cosignatures.size(), 1u);
  append_many(*log, 1);
  EXPECT_FALSE(log->add_cosignature(line)) << "of the checkpoint before";
  append_many(*log, 1);
  EXPECT_EQ(read_checkpoint(*reader)->size, 5u);
}

TEST_F(LogOnDisk, KeepsWhatEachWitnessCosignedLast) {
  Checkpoint early;
  {
    const auto log = create();
    append_many(*log, 3);
    early = cosigned_by(log->checkpoint(), 1'700'000'000, key_of(2));
    append_many(*log, 300);
    const Checkpoint late = cosigned_by(log->checkpoint(), 1'700'000'001, key_of(3));
    ASSERT_TRUE(log->keep_cosigned(std::vector<Checkpoint>{early, late}));
    EXPECT_EQ(log->checkpoint().cosignatures.size(), 1u) << "those of the newest are in it as well";
    append_many(*log, 1);
    EXPECT_FALSE(log->keep_cosigned(std::vector<Checkpoint>{
        cosigned_by(sign_checkpoint(400, early.root, key_of(1)), 1, key_of(2))}))
        << "of more entries than there are";
    const auto offer = log->offer(3);
    ASSERT_TRUE(offer) << offer.error().message;
    EXPECT_EQ(offer->old_root, early.root);
    EXPECT_TRUE(check_consistency(3, early.root, 304, offer->checkpoint.root, offer->proof));
    EXPECT_FALSE(log->offer(305));
  }
  const auto log = open();
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ((*log)->cosigned().size(), 2u);
  EXPECT_EQ((*log)->cosigned().at(key_of(2).public_key()).size, 3u);
  EXPECT_EQ((*log)->cosigned().at(key_of(3).public_key()).size, 303u);
  EXPECT_TRUE((*log)->checkpoint().cosignatures.empty());
}

TEST_F(LogOnDisk, HasOneWriterAndOneBeginning) {
  {
    const auto log = create();
    const auto second = open_log_folder(path_.string(), LogAccess::kWrite);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(open_log_folder(path_.string(), LogAccess::kRead)) << "readers need no lock";
  }
  EXPECT_FALSE(Log::create(folder(LogAccess::kCreate), key_of(1))) << "there is one";
  fs::create_directories(path_ / "tile/0");
  fs::remove(path_ / "checkpoint");
  const auto damaged = Log::create(folder(LogAccess::kCreate), key_of(1));
  ASSERT_FALSE(damaged) << "what is left of one is no empty folder";
  EXPECT_EQ(open_log_folder((above_ / "nowhere").string(), LogAccess::kRead).error().code,
            ErrorCode::kNotFound);
}

TEST_F(LogOnDisk, BelongsToItsKey) {
  append_many(*create(), 3);
  const auto other = Log::open(folder(LogAccess::kWrite), key_of(2));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("another log"), std::string::npos) << other.error().message;
}

TEST_F(LogOnDisk, RefusesEntriesThatNoBundleHolds) {
  const auto log = create();
  const Bytes longest(limits::kLogEntryBytes, std::byte{1});
  const Bytes longer(limits::kLogEntryBytes + 1, std::byte{1});
  EXPECT_FALSE(log->append(ByteSpan(longer)));
  EXPECT_FALSE(log->append(ByteSpan()));
  EXPECT_FALSE(log->append(std::span<const ByteSpan>()));
  const std::vector<ByteSpan> many(limits::kLogBatch + 1, ByteSpan(longest).first(1));
  EXPECT_FALSE(log->append(many));
  ASSERT_TRUE(log->append(ByteSpan(longest)));
  ASSERT_TRUE(log->append(ByteSpan(longest).first(1)));
  EXPECT_EQ(log->size(), 2u);
  const auto disk = folder(LogAccess::kRead);
  const auto bundle = TileReader(*disk, 2).bundle(std::uint64_t{0});
  ASSERT_TRUE(bundle);
  EXPECT_EQ(bundle->entries[0].bytes.size(), limits::kLogEntryBytes);
}

TEST_F(LogOnDisk, SaysWhichFileNoLongerHoldsWhatItHeld) {
  const auto log = create();
  append_many(*log, 300);
  fs::resize_file(path_ / "tile/0/000", 100);
  const auto offer = log->offer(3);
  ASSERT_FALSE(offer);
  EXPECT_NE(offer.error().message.find("tile/0/000"), std::string::npos) << offer.error().message;
}

}  // namespace
}  // namespace hearth::ledger
