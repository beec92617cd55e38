#include "ledger/scan.h"

#include <gtest/gtest.h>

#include <functional>

#include "ledger/log.h"
#include "tests/unit/ledger/crash_disk.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

struct Built {
  Image image;
  Checkpoint checkpoint;
};

// A log of `size` entries under key 1, with one cosignature.
Built build(const std::vector<std::uint64_t>& batches, unsigned char key = 1,
            const std::string& word = "entry ") {
  CrashDisk disk;
  auto log = Log::create(borrow(disk), key_of(key)).value();
  for (const std::uint64_t count : batches) {
    std::vector<std::string> texts;
    for (std::uint64_t i = 0; i < count; ++i)
      texts.push_back(word + std::to_string(log->size() + i));
    std::vector<ByteSpan> entries;
    for (const std::string& text : texts) entries.push_back(as_bytes(text));
    EXPECT_TRUE(log->append(entries));
  }
  EXPECT_TRUE(log->add_cosignature(cosign(log->checkpoint(), 1'700'000'000, key_of(9))));
  const Checkpoint kept = cosigned_by(log->checkpoint(), 1'700'000'000, key_of(8));
  EXPECT_TRUE(log->keep_cosigned({&kept, 1}));
  return {disk.now(), log->checkpoint()};
}

Result<Scan> scan(const Image& image, const ScanOptions& options = {}) {
  CrashDisk disk(image);
  return scan_log(disk, options, {});
}

TEST(Scan, AcceptsWhatALogWrites) {
  for (const std::vector<std::uint64_t>& batches : std::vector<std::vector<std::uint64_t>>{
           {}, {1}, {64}, {1, 1, 1, 60, 1}, {256}, {300, 250}, {256, 256, 1, 1}}) {
    const auto scanned = scan(build(batches).image, {key_of(1).public_key(), {}});
    ASSERT_TRUE(scanned) << scanned.error().message;
    EXPECT_TRUE(scanned->leftover.empty());
    EXPECT_TRUE(scanned->strange.empty());
  }
}

// Of every file, also of the partial tiles that an earlier checkpoint left. A fault lies in the
// file that it names, or in the tile beside the entry that it names.
TEST(Scan, EveryBitFlipOfALogOf64EntriesIsDetected) {
  Image image = build({5, 59}).image;
  std::size_t flips = 0;
  std::size_t missed = 0;
  for (auto& [name, bytes] : image) {
    for (std::byte& byte : bytes) {
      for (int bit = 0; bit < 8; ++bit) {
        byte ^= static_cast<std::byte>(1 << bit);
        const auto scanned = scan(image);
        const std::string message = scanned ? "" : scanned.error().message;
        const bool named = message.find(name) != std::string::npos ||
                           (name.starts_with("tile/0/") && message.find("entry") != message.npos);
        ++flips;
        missed += named ? 0 : 1;
        byte ^= static_cast<std::byte>(1 << bit);
      }
    }
  }
  EXPECT_EQ(missed, 0u) << "of " << flips;
  EXPECT_GT(flips, 20'000u);
  EXPECT_TRUE(scan(image));
}

void cut(Bytes& bytes, std::size_t from, std::size_t count) {
  bytes.erase(bytes.begin() + static_cast<long>(from),
              bytes.begin() + static_cast<long>(from + count));
}

// The offset of an entry in the first bundle.
std::size_t place(const Image& image, std::size_t entry) {
  return parse_bundle(image.at("tile/entries/000"), 256)->at(entry).offset;
}

void put_hash(Bytes& tile, std::size_t at, const Hash256& hash) {
  std::copy(hash.bytes.begin(), hash.bytes.end(), tile.begin() + static_cast<long>(32 * at));
}

// Changes entry 17 and its hash; with `all` the hash of its tile as well.
void rewrite(Image& image, bool all) {
  Bytes& bundle = image.at("tile/entries/000");
  bundle[place(image, 17) + 2] = std::byte{'E'};
  const auto entries = *parse_bundle(bundle, 256);
  std::vector<Hash256> hashes;
  for (const BundleEntry& entry : entries) hashes.push_back(leaf_hash(entry.bytes));
  put_hash(image.at("tile/0/000"), 17, hashes[17]);
  if (all) put_hash(image.at("tile/1/000.p/2"), 0, subtree_root(hashes));
}

struct Tampering {
  const char* what;
  std::function<void(Image&)> change;
  const char* named;  // in the message
};

std::vector<Tampering> tamperings_of_entries() {
  return {
      {"a byte of an entry",
       [](Image& i) { i.at("tile/entries/000")[place(i, 17) + 4] ^= std::byte{1}; },
       "tile/entries/000: entry 17 at byte "},
      {"an entry's length",
       [](Image& i) { i.at("tile/entries/000")[place(i, 17)] = std::byte{0x7F}; },
       "tile/entries/000: its entry 17 at byte "},
      {"an entry taken out",
       [](Image& i) { cut(i.at("tile/entries/000"), place(i, 17), place(i, 18) - place(i, 17)); },
       "tile/entries/000: it ends at byte "},
      {"two entries exchanged",
       [](Image& i) {
         Bytes& b = i.at("tile/entries/000");
         const auto begin = b.begin() + static_cast<long>(place(i, 20));
         std::rotate(begin, begin + 10, begin + 20);
       },
       "tile/entries/000: entry 20 at byte "},
      {"an entry twice",
       [](Image& i) {
         Bytes& b = i.at("tile/entries/001.p/255");
         const Bytes copy(b.end() - 11, b.end());
         b.insert(b.end(), copy.begin(), copy.end());
       },
       "tile/entries/001.p/255: 11 bytes follow"},
      {"a bundle cut", [](Image& i) { i.at("tile/entries/001.p/255").resize(700); },
       "tile/entries/001.p/255: its entry "},
      {"a block of zeros",
       [](Image& i) {
         Bytes& b = i.at("tile/entries/000");
         std::fill(b.begin() + 512, b.begin() + 1'024, std::byte{0});
       },
       "tile/entries/000: "},
      {"an empty bundle", [](Image& i) { i.at("tile/entries/000").clear(); },
       "tile/entries/000: it ends at byte 0"},
      {"a bundle missing", [](Image& i) { i.erase("tile/entries/000"); },
       "tile/entries/000: it is missing; it begins at entry 0"},
      {"an entry and its hash rewritten", [](Image& i) { rewrite(i, false); },
       "tile/1/000.p/2: the hash at byte 0, of entries 0 to 255,"},
      {"an entry and all hashes rewritten", [](Image& i) { rewrite(i, true); },
       "checkpoint: it signs the root "},
  };
}

std::vector<Tampering> tamperings_of_tiles() {
  return {
      {"a hash of a tile", [](Image& i) { i.at("tile/0/001.p/255")[32 * 9] ^= std::byte{4}; },
       "tile/entries/001.p/255: entry 265 at byte "},
      {"a tile cut", [](Image& i) { i.at("tile/0/000").resize(8'160); },
       "tile/0/000: it has 8160 bytes"},
      {"a tile too long", [](Image& i) { i.at("tile/0/001.p/255").resize(8'192); },
       "tile/0/001.p/255: it has 8192 bytes"},
      {"a tile missing", [](Image& i) { i.erase("tile/0/001.p/255"); },
       "tile/0/001.p/255: it is missing; it begins at entry 256"},
      {"a hash above", [](Image& i) { i.at("tile/1/000.p/2")[40] ^= std::byte{1}; },
       "tile/1/000.p/2: the hash at byte 32, of entries 256 to 511,"},
      {"the tile above missing", [](Image& i) { i.erase("tile/1/000.p/2"); },
       "tile/1/000.p/2: it is missing"},
      {"an older partial tile", [](Image& i) { i.at("tile/0/002.p/2")[33] ^= std::byte{1}; },
       "tile/0/002.p/2: byte 33 is not as in tile/0/002.p/8"},
      {"an older partial bundle", [](Image& i) { i.at("tile/entries/002.p/2").push_back({}); },
       "tile/entries/002.p/2: byte "},
      {"two tiles exchanged", [](Image& i) { std::swap(i.at("tile/0/000"), i.at("tile/0/001")); },
       "tile/entries/000: entry 0 at byte 0"},
  };
}

const std::string kWitness = witness_file(key_of(8).public_key());

Bytes text_of(const Checkpoint& checkpoint) {
  const std::string all = checkpoint.text();
  return Bytes(as_bytes(all).begin(), as_bytes(all).end());
}

std::vector<Tampering> tamperings_of_witnesses() {
  return {
      {"a later time in what a witness cosigned",
       [](Image& i) {
         Checkpoint c = *parse_checkpoint(i.at(kWitness));
         c.note.signatures[1].signature[7] ^= std::byte{1};
         i[kWitness] = text_of(c);
       },
       "the cosignature of hearth-node/"},
      {"another witness's in its place",
       [](Image& i) {
         i[kWitness] =
             text_of(cosigned_by(*parse_checkpoint(i.at(kWitness)), 1'700'000'000, key_of(7)));
       },
       "has not the one cosignature of its witness"},
      {"more than there is, cosigned",
       [](Image& i) {
         const Checkpoint c =
             sign_checkpoint(521, parse_checkpoint(i.at(kWitness))->root, key_of(1));
         i[kWitness] = text_of(cosigned_by(c, 1'700'000'000, key_of(8)));
       },
       "of 521 is signed: entries were taken away"},
      {"another history, cosigned",
       [](Image& i) {
         const Checkpoint c = build({300}, 1, "Entry ").checkpoint;
         i[kWitness] = text_of(cosigned_by(c, 1'700'000'000, key_of(8)));
       },
       "the first 300 entries are not those that witnesses/"},
  };
}

std::vector<Tampering> tamperings_of_checkpoints() {
  const auto text = [](const Checkpoint& checkpoint) { return text_of(checkpoint); };
  const auto replace = [](Image& image, const std::string& from, const std::string& to) {
    std::string all(as_text(image.at("checkpoint")));
    all.replace(all.find(from), from.size(), to);
    image["checkpoint"] = Bytes(as_bytes(all).begin(), as_bytes(all).end());
  };
  return {
      {"fewer entries", [=](Image& i) { replace(i, "\n520\n", "\n519\n"); },
       "checkpoint: the log's own signature"},
      {"another root", [=](Image& i) { replace(i, "\n520\n", "\n520\nAAAA"); }, "checkpoint: "},
      {"a later time of a witness",
       [=](Image& i) {
         Checkpoint c = *parse_checkpoint(i.at("checkpoint"));
         c.note.signatures[1].signature[7] ^= std::byte{1};
         i["checkpoint"] = text(c);
       },
       "checkpoint: the cosignature of hearth-node/"},
      {"no signature of the log",
       [=](Image& i) {
         Checkpoint c = *parse_checkpoint(i.at("checkpoint"));
         c.note.signatures.erase(c.note.signatures.begin());
         i["checkpoint"] = text(c);
       },
       "checkpoint: a checkpoint has no signature of its log"},
      {"the checkpoint missing", [](Image& i) { i.erase("checkpoint"); },
       "checkpoint: it is missing"},
      {"another log in its place",
       [](Image& i) {
         i = build({256, 255, 3, 5, 1}, 2).image;
       },
       "checkpoint: it is of another log than asked for"},
      {"an older state",
       [](Image& i) {
         i = build({256, 255}).image;
       },
       "entries were taken away"},
      {"another history, signed",
       [](Image& i) {
         i = build({256, 255, 3, 5, 9}, 1, "Entry ").image;
       },
       "two signed histories"},
  };
}

TEST(Scan, EachTamperingIsNamed) {
  // 511 entries, then 514, 519, 520: partial tiles of every kind.
  const Built built = build({256, 255, 3, 5, 1});
  // The tile that 511 entries leave stays for the tests of a partial one.
  const Built shorter = build({256, 255});
  std::size_t count = 0;
  for (const auto& list : {tamperings_of_entries(), tamperings_of_tiles(),
                           tamperings_of_checkpoints(), tamperings_of_witnesses()}) {
    for (const Tampering& tampering : list) {
      const bool partial = std::string(tampering.named).find("001.p/255") != std::string::npos;
      Image image = partial ? shorter.image : built.image;
      tampering.change(image);
      ScanOptions options{key_of(1).public_key(), built.checkpoint};
      if (partial) options.earlier.reset();
      const auto scanned = scan(image, options);
      ++count;
      ASSERT_FALSE(scanned) << tampering.what;
      EXPECT_EQ(scanned.error().code, ErrorCode::kInvalidInput) << tampering.what;
      EXPECT_NE(scanned.error().message.find(tampering.named), std::string::npos)
          << tampering.what << ": " << scanned.error().message;
      CrashDisk disk(image);
      if (partial || !options.earlier) continue;
      if (scan(image)) continue;  // only who knows more than the folder can see it
      const auto log = Log::open(borrow(disk), key_of(1));
      // A log goes on without a damaged copy of what a witness cosigned, and names it.
      EXPECT_TRUE(!log || !(*log)->damaged().empty()) << tampering.what;
    }
  }
  EXPECT_GE(count, 20u);
}

TEST(Scan, AVisitorsErrorNamesTheEntry) {
  CrashDisk disk(build({64}).image);
  const auto scanned =
      scan_log(disk, {}, [](std::uint64_t index, ByteSpan, const Hash256&) -> Status {
        REQUIRE(index != 33, "an entry of no known kind");
        return ok_status();
      });
  ASSERT_FALSE(scanned);
  EXPECT_NE(scanned.error().message.find("entry 33 at byte "), std::string::npos);
  EXPECT_NE(scanned.error().message.find("no known kind"), std::string::npos);
}

TEST(Scan, FilesThatAreNoneOfTheLogAreToldApart) {
  Image image = build({64}).image;
  image["notes.txt"] = Bytes(3);
  image["tile/0/000.p/65"] = Bytes(3);
  image["checkpoint.new"] = Bytes(3);
  image[kWitness + ".new"] = Bytes(3);
  image["witnesses/abc"] = Bytes(3);
  const auto scanned = scan(image);
  ASSERT_TRUE(scanned) << scanned.error().message;
  EXPECT_EQ(scanned->strange, (std::vector<std::string>{"notes.txt", "witnesses/abc"}));
  EXPECT_EQ(scanned->leftover,
            (std::vector<std::string>{"checkpoint.new", "tile/0/000.p/65", kWitness + ".new"}));
  CrashDisk disk(image);
  ASSERT_TRUE(Log::open(borrow(disk), key_of(1)));
  EXPECT_FALSE(disk.now().contains("tile/0/000.p/65"));
  EXPECT_TRUE(disk.now().contains("notes.txt"));
}

TEST(Scan, ALogOpensWithoutTheDamagedFileOfAWitness) {
  Image image = build({64}).image;
  image[kWitness] = Bytes(3, std::byte{7});
  EXPECT_FALSE(scan(image)) << "for an audit that is a fault";
  CrashDisk disk(image);
  const auto log = Log::open(borrow(disk), key_of(1));
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ((*log)->damaged().size(), 1U);
  EXPECT_TRUE((*log)->damaged().front().starts_with(kWitness)) << (*log)->damaged().front();
  EXPECT_TRUE((*log)->cosigned().empty());
  EXPECT_TRUE((*log)->append(as_bytes("it goes on")));
}

TEST(Scan, AnEmptyFolderHoldsNoLog) { EXPECT_EQ(scan({}).error().code, ErrorCode::kNotFound); }

}  // namespace
}  // namespace hearth::ledger
