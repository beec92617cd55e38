#include "ledger/archive.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "ledger/entry.h"
#include "ledger/log.h"
#include "ledger/lookup.h"
#include "tests/unit/ledger/crash_disk.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kEachDay = 24 * 3'600;
constexpr char kPath[] = "/archive";

// A ledger's entries, one a day, in two batches.
void fill(std::unique_ptr<LogFolder> folder, std::uint64_t size) {
  auto log = Log::create(std::move(folder), key_of(1)).value();
  for (std::uint64_t at = 0; at < size;) {
    std::vector<Bytes> some;
    for (const std::uint64_t end = at < 300 ? std::min<std::uint64_t>(300, size) : size; at < end;
         ++at) {
      some.push_back(write_entry(
          {static_cast<std::int64_t>(at) * kEachDay, ChangeEntry{key_of(2).public_key()}}));
    }
    ASSERT_TRUE(log->append(std::vector<ByteSpan>(some.begin(), some.end())));
  }
}

Image ledger_of(std::uint64_t size) {
  CrashDisk disk;
  fill(borrow(disk), size);
  return disk.now();
}

bool is_bundle(const std::string& name) {
  const auto tile = parse_tile_path(name);
  return tile && tile->level == Tile::kEntries && tile->full();
}

std::vector<std::string> bundles_of(const Image& image) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : image) {
    if (is_bundle(name)) names.push_back(name);
  }
  return names;
}

TEST(Archive, OldBundlesMoveAndTheRestStays) {
  const Image before = ledger_of(1'100);
  CrashDisk log(before);
  CrashDisk archive;
  auto done = archive_bundles(log, archive, kPath, 400 * kEachDay);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->entries, 512u) << "entry 767 is 332 days older than the last";
  EXPECT_EQ(done->moved, 2u);
  EXPECT_EQ(done->left, 588u);
  EXPECT_EQ(bundles_of(archive.now()),
            (std::vector<std::string>{"tile/entries/000", "tile/entries/001"}));
  EXPECT_EQ(bundles_of(log.now()),
            (std::vector<std::string>{"tile/entries/002", "tile/entries/003"}));
  EXPECT_EQ(archive.now().at("tile/entries/001"), before.at("tile/entries/001"));
  const auto note = read_archive_note(log);
  ASSERT_TRUE(note && *note);
  EXPECT_EQ((*note)->entries, 512u);
  EXPECT_EQ((*note)->folder, kPath);
  // Again, by less: nothing comes back. By more, to another place that has what was archived.
  done = archive_bundles(log, archive, kPath, 2'000 * kEachDay);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->moved, 0u);
  EXPECT_EQ(done->entries, 512u);
  done = archive_bundles(log, archive, "/elsewhere", 0);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->entries, 1'024u);
  EXPECT_EQ((*read_archive_note(log))->folder, "/elsewhere");
  CrashDisk empty;
  const auto lost = archive_bundles(log, empty, kPath, 0);
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("tile/entries/000: it is missing"), std::string::npos)
      << lost.error().message;
}

// PROTOCOL.md, 2, and docs/verification.md state these numbers.
TEST(Archive, AWindowOfFourStagesTakesWhatIsStated) {
  constexpr std::uint64_t kWindows = 4'096;
  CrashDisk log;
  {
    auto written = Log::create(borrow(log), key_of(1)).value();
    ReceiptEntry receipt;
    for (std::uint64_t done = 0; done < 4 * kWindows; done += 1'024) {
      std::vector<Bytes> some;
      for (std::uint64_t i = 0; i < 1'024; ++i) {
        random_bytes(receipt.receipt);
        some.push_back(write_entry({kEachDay, receipt}));
      }
      ASSERT_TRUE(written->append(std::vector<ByteSpan>(some.begin(), some.end())));
    }
  }
  const auto bytes_a_window = [&log] {
    std::size_t bytes = 0;
    for (const auto& [name, contents] : log.now()) bytes += contents.size();
    return static_cast<double>(bytes) / kWindows;
  };
  // And partial tiles of upper levels, which are there until the full ones are.
  EXPECT_NEAR(bytes_a_window(), 2'111, 3);
  CrashDisk archive;
  ASSERT_TRUE(archive_bundles(log, archive, kPath, 0));
  EXPECT_NEAR(bytes_a_window(), 131, 3) << "once all of it is archived";
}

TEST(Archive, TheLogVerifiesByItsHashesAndGoesOn) {
  CrashDisk log(ledger_of(1'100));
  CrashDisk archive;
  ASSERT_TRUE(archive_bundles(log, archive, kPath, 400 * kEachDay));
  std::vector<std::uint64_t> seen;
  const auto visit = [&seen](std::uint64_t index, ByteSpan, const Hash256&) {
    seen.push_back(index);
    return ok_status();
  };
  EXPECT_FALSE(scan_log(log, {}, {})) << "not without the hashes' word";
  ScanOptions by_hash;
  by_hash.by_hash = 512;
  const auto scan = scan_log(log, by_hash, visit);
  ASSERT_TRUE(scan) << scan.error().message;
  EXPECT_EQ(seen.size(), 588u);
  EXPECT_EQ(seen.front(), 512u);
  EXPECT_TRUE(scan->strange.empty());
  log.now().at("tile/0/001")[3] ^= std::byte{1};
  EXPECT_FALSE(scan_log(log, by_hash, {})) << "an archived entry's hash is another";
  log.now().at("tile/0/001")[3] ^= std::byte{1};
  auto opened = Log::open(borrow(log), key_of(1), {}, 512);
  ASSERT_TRUE(opened) << opened.error().message;
  const Bytes entry = write_entry({2'000 * kEachDay, ChangeEntry{key_of(2).public_key()}});
  EXPECT_EQ((*opened)->append(entry).value(), 1'100u);
  EXPECT_TRUE(scan_log(log, by_hash, {}));
}

TEST(Archive, AnotherLogsArchiveIsRefusedAndNothingIsRemoved) {
  CrashDisk log(ledger_of(600));
  CrashDisk archive;
  const std::string other = "another log's";
  const LogFolder::File file{"tile/entries/000", as_bytes(other)};
  ASSERT_TRUE(archive.write({&file, 1}));
  const auto done = archive_bundles(log, archive, kPath, 0);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("another bundle"), std::string::npos);
  EXPECT_EQ(bundles_of(log.now()).size(), 2u);
  EXPECT_FALSE(*read_archive_note(log));
  // Nor is a log that is not sound.
  log.now().at("tile/entries/000")[20] ^= std::byte{1};
  CrashDisk fresh;
  EXPECT_FALSE(archive_bundles(log, fresh, kPath, 0));
  EXPECT_TRUE(bundles_of(fresh.now()).empty());
}

TEST(Archive, ANoteThatIsWrongIsRefused) {
  CrashDisk log(ledger_of(600));
  for (const std::string& text :
       {std::string(), std::string("hearth archive v1\nentries 256\nfolder relative\n"),
        std::string("hearth archive v1\nentries 255\nfolder /a\n"),
        std::string("hearth archive v1\nentries 0\nfolder /a\n"),
        std::string("hearth archive v1\nentries 256\nfolder /a"),
        std::string("hearth archive v1\nentries 256\nfolder /a\nb\n"),
        std::string("hearth archive v1\nentries 99999999999999999999\nfolder /a\n"),
        std::string("hearth archive v1\nentries  256\nfolder /a\n")}) {
    ASSERT_TRUE(replace_file(log, "archive", as_bytes(text)));
    EXPECT_FALSE(read_archive_note(log)) << text;
  }
  const std::string beyond = "hearth archive v1\nentries 1024\nfolder /a\n";
  ASSERT_TRUE(replace_file(log, "archive", as_bytes(beyond)));
  CrashDisk archive;
  const auto done = archive_bundles(log, archive, kPath, 0);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("more entries than the log"), std::string::npos);
}

// Whatever a power cut leaves, no bundle is lost, and the same call completes the move.
TEST(Archive, APowerCutLosesNoBundle) {
  const Image before = ledger_of(600);
  std::size_t cuts = 0;
  const auto check = [&](const Image& log_image, const Image& archive_image) {
    CrashDisk log(log_image);
    CrashDisk archive(archive_image);
    ++cuts;
    const auto done = archive_bundles(log, archive, kPath, 0);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(bundles_of(log.now()).empty());
    for (const std::string& name : bundles_of(before)) {
      EXPECT_EQ(archive.now().at(name), before.at(name));
    }
  };
  CrashDisk whole_log(before);
  CrashDisk whole_archive;
  ASSERT_TRUE(archive_bundles(whole_log, whole_archive, kPath, 0));
  for (std::size_t step = 0; step <= whole_archive.steps(); ++step) {
    CrashDisk log(before);
    CrashDisk archive;
    archive.fails_at = step;
    const bool done = archive_bundles(log, archive, kPath, 0).ok();
    EXPECT_EQ(done, step == whole_archive.steps());
    if (done) continue;
    for (unsigned choice = 0; choice < 8; ++choice) {
      check(log.crash(log.steps(), 0), archive.crash(archive.steps(), choice));
    }
  }
  for (std::size_t step = 0; step <= whole_log.steps(); ++step) {
    CrashDisk log(before);
    CrashDisk archive;
    log.fails_at = step;
    (void)archive_bundles(log, archive, kPath, 0);
    for (unsigned choice = 0; choice < 8; ++choice) {
      check(log.crash(log.steps(), choice), archive.crash(archive.steps(), 0));
    }
  }
  EXPECT_GT(cuts, 50u);
}

TEST(Archive, AReaderFindsABundleInTheArchiveOrSaysWhereItIs) {
  char name[] = "/tmp/hearth-archive-XXXXXX";
  const fs::path above = ::mkdtemp(name);
  const std::string path = (above / "log").string();
  const std::string to = (above / "archive").string();
  fill(*open_log_folder(path, LogAccess::kCreate), 600);
  // It is open before anything is archived.
  const auto reader = open_archived_log(path, LogAccess::kRead);
  ASSERT_TRUE(reader);
  {
    const auto log = open_log_folder(path, LogAccess::kRead);
    const auto archive = open_log_folder(to, LogAccess::kCreate);
    ASSERT_TRUE(archive_bundles(**log, **archive, to, 0));
  }
  EXPECT_FALSE(fs::exists(above / "log/tile/entries/000"));
  const auto scan = scan_log(**reader, {}, {});
  ASSERT_TRUE(scan) << scan.error().message;
  EXPECT_TRUE(scan->strange.empty());
  fs::rename(above / "archive", above / "moved");
  const auto lost = scan_log(**open_archived_log(path, LogAccess::kRead), {}, {});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable) << "that is no fault of the log";
  EXPECT_NE(lost.error().message.find("entries 0 to 255 are archived in " + to), std::string::npos)
      << lost.error().message;
  // A later answer is looked up without what is archived, an earlier one is not.
  const auto log = open_archived_log(path, LogAccess::kRead);
  const Checkpoint checkpoint = read_checkpoint(**log).value();
  const auto name_at = [](std::int64_t time) { return answer_name(time, Bytes(10)); };
  EXPECT_TRUE(find_receipts(**log, checkpoint, name_at(515 * kEachDay)));
  const auto early = find_receipts(**log, checkpoint, name_at(400 * kEachDay));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  const std::string moved = (above / "moved").string();
  EXPECT_TRUE(find_receipts(**open_archived_log(path, LogAccess::kRead, moved), checkpoint,
                            name_at(400 * kEachDay)));
  EXPECT_TRUE(scan_log(**open_archived_log(path, LogAccess::kRead, moved), {}, {}));
  fs::resize_file(above / "moved/tile/entries/001", 100);
  const auto cut = scan_log(**open_archived_log(path, LogAccess::kRead, moved), {}, {});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kInvalidInput) << "that is one";
  fs::remove_all(above);
}

}  // namespace
}  // namespace hearth::ledger
