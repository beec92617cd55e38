#include "ledger/lookup.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/limits.h"
#include "ledger/entry.h"
#include "ledger/log.h"
#include "tests/unit/ledger/crash_disk.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

constexpr std::int64_t kAsked = 1'700'000'000;

AnswerName name_of(unsigned char number) {
  return answer_name(kAsked, Bytes(10, std::byte{number}));
}

// Two stages and two windows an answer, begun as the cluster, upper and lower would.
struct LookupTest : ::testing::Test {
  Receipt receipt(const AnswerName& answer, std::uint16_t stage, std::uint32_t window) const {
    Receipt r;
    r.slot = {request_of(answer, 3), 5, stage, window};
    r.layer_begin = static_cast<std::uint16_t>(2 * stage);
    r.layer_end = static_cast<std::uint16_t>(2 * stage + 2);
    r.stages = 2;
    r.first_position = limits::kWindowPositions * window;
    r.positions = limits::kWindowPositions;
    r.tokens = hash_of("tokens " + std::to_string(window));
    r.in_root = stage == 0 ? r.tokens : hash_of("between");
    r.out_root = stage == 0 ? hash_of("between") : r.tokens;
    r.in_edge = sign_edge(in_edge(r), key_of(1).public_key(), stage == 0 ? key_of(1) : key_of(10));
    r.out_edge =
        sign_edge(out_edge(r), key_of(1).public_key(), stage == 0 ? key_of(11) : key_of(1));
    return r;
  }
  static Bytes entry(const Receipt& r) {
    const unsigned char signer = r.slot.stage == 0 ? 10 : 11;
    const Bytes bytes = *sign_receipt(r, key_of(1).public_key(), key_of(signer));
    ReceiptEntry entry;
    std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
    return write_entry({kAsked + 10, entry});
  }
  // Seconds later each, before and behind what is looked for.
  void fill(std::int64_t from, int count) {
    for (int i = 0; i < count; ++i) {
      add(write_entry({from + i, VestEntry{key_of(9).public_key()}}));
    }
  }
  void add(Bytes entry) { entries.push_back(std::move(entry)); }
  void write() {
    disk = CrashDisk();
    const auto log = Log::create(borrow(disk), key_of(1)).value();
    const std::vector<ByteSpan> spans(entries.begin(), entries.end());
    ASSERT_TRUE(log->append(spans));
    checkpoint = log->checkpoint();
  }
  Result<std::vector<Receipt>> check(const AnswerName& answer) {
    TRY(const auto found, find_receipts(disk, checkpoint, answer));
    count = found.size();
    return check_receipts(disk, checkpoint, found);
  }
  // What is said of an answer with these receipts.
  std::string fault(const std::vector<Receipt>& receipts) {
    disk = CrashDisk();
    entries.clear();
    for (const Receipt& one : receipts) add(entry(one));
    write();
    const auto checked = check(name_of(1));
    return checked ? "" : checked.error().message;
  }

  CrashDisk disk;
  Checkpoint checkpoint;
  std::vector<Bytes> entries;
  std::size_t count = 0;
};

TEST_F(LookupTest, FindsAnAnswerAmongManyAndChecksIt) {
  fill(kAsked - 5'000, 1'500);
  for (const unsigned char number : {1, 2}) {
    for (const std::uint16_t stage : {1, 0}) {
      for (const std::uint32_t window : {0, 1}) add(entry(receipt(name_of(number), stage, window)));
    }
  }
  fill(kAsked + 20, 700);
  write();
  const auto checked = check(name_of(1));
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_EQ(checked->size(), 4u);
  EXPECT_EQ(checked->at(1).slot.stage, 1u);
  EXPECT_EQ(checked->at(2).slot.window, 1u);
  EXPECT_TRUE(check(name_of(3)));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(asked_at(name_of(1)), kAsked);
}

TEST_F(LookupTest, EveryFaultIsSaid) {
  const AnswerName answer = name_of(1);
  const Receipt a = receipt(answer, 0, 0);
  const Receipt b = receipt(answer, 1, 0);
  EXPECT_EQ(fault({a, b}), "");
  EXPECT_NE(fault({a}).find("stage 1 of 2 has no receipt"), std::string::npos);
  EXPECT_NE(fault({b}).find("stage 0 of 2 has no receipt"), std::string::npos);
  EXPECT_NE(fault({a, b, b}).find("two receipts"), std::string::npos);
  EXPECT_NE(fault({receipt(answer, 0, 1), receipt(answer, 1, 1)}).find("begins at position 4096"),
            std::string::npos);
  Receipt other = b;
  other.in_root = hash_of("what never came");
  EXPECT_NE(fault({a, other}).find("what went out is not what came in"), std::string::npos);
  other = a;
  other.in_edge = b.in_edge;
  EXPECT_NE(fault({other, b}).find("not signed by the cluster"), std::string::npos);
  other = b;
  other.out_edge = a.out_edge;
  EXPECT_NE(fault({a, other}).find("not signed by the cluster"), std::string::npos);
}

TEST_F(LookupTest, SaysWhatAuditsFoundOfEachReceipt) {
  fill(kAsked - 10, 3);
  for (const std::uint32_t window : {0, 1}) {
    for (const std::uint16_t stage : {0, 1}) add(entry(receipt(name_of(1), stage, window)));
  }
  // Entries 3 to 6. The first is agreed with twice, the second doubted and false, of the third an
  // auditor is at fault, the last is doubted and not judged; other entries are other
  // answers'.
  const auto opened = [this](std::uint64_t of, unsigned char auditor, const Hash256& root) {
    add(write_entry({kAsked + 20, OpeningEntry{of, key_of(auditor).public_key(), root, {}}}));
  };
  const auto judged = [this](std::uint64_t of, unsigned char guilty, Verdict verdict) {
    add(write_entry({kAsked + 21, VerdictEntry{of, key_of(guilty).public_key(), verdict, {}}}));
  };
  opened(3, 20, hash_of("between"));
  opened(3, 21, hash_of("between"));
  opened(4, 20, hash_of("another"));
  opened(5, 21, hash_of("another"));
  opened(7, 21, hash_of("of no receipt"));
  judged(4, 11, Verdict::kFraud);
  judged(5, 21, Verdict::kFault);
  judged(7, 11, Verdict::kFraud);
  opened(6, 20, hash_of("another"));
  add(write_entry({kAsked + 22, VerdictEntry{6, {}, Verdict::kUnjudged, {}}}));
  fill(kAsked + 30, 600);
  write();
  const auto found = find_receipts(disk, checkpoint, name_of(1));
  ASSERT_TRUE(found && found->size() == 4);
  EXPECT_TRUE(find_receipts(disk, checkpoint, name_of(1), 0)->empty());
  EXPECT_EQ(find_audits(disk, checkpoint, *found, 0)->at(0).agreed, 0u);
  const auto audits = find_audits(disk, checkpoint, *found);
  ASSERT_TRUE(audits) << audits.error().message;
  ASSERT_EQ(audits->size(), 4u);
  EXPECT_EQ(audits->at(0).agreed, 2u);
  EXPECT_EQ(audits->at(0).differed, 0u);
  EXPECT_FALSE(audits->at(0).worker || audits->at(0).auditor);
  EXPECT_EQ(audits->at(1).differed, 1u);
  EXPECT_EQ(audits->at(1).worker, Verdict::kFraud);
  EXPECT_FALSE(audits->at(1).auditor);
  EXPECT_EQ(audits->at(2).differed, 1u);
  EXPECT_FALSE(audits->at(2).worker);
  EXPECT_EQ(audits->at(2).auditor, Verdict::kFault);
  EXPECT_EQ(audits->at(3).differed, 1u);
  EXPECT_FALSE(audits->at(3).worker || audits->at(3).auditor);
  EXPECT_TRUE(find_audits(disk, checkpoint, {})->empty());
  add(Bytes(3));  // no entry of a ledger
  write();
  EXPECT_FALSE(find_audits(disk, checkpoint, *found));
}

TEST_F(LookupTest, AFlippedByteIsNoEntryOfTheTree) {
  ASSERT_EQ(fault({receipt(name_of(1), 0, 0), receipt(name_of(1), 1, 0)}), "");
  disk.now().at("tile/entries/000.p/2").back() ^= std::byte{1};
  const auto checked = check(name_of(1));
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("entry 1: it is not what the checkpoint signs"),
            std::string::npos)
      << checked.error().message;
}

}  // namespace
}  // namespace hearth::ledger
