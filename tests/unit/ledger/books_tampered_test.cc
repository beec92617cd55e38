// A ledger of 64 entries of every kind. Verdicts, equivocations and draws that were tampered with
// on the disk, or rewritten by who holds the log's key: each fault is named, with its entry.
#include <gtest/gtest.h>

#include <functional>

#include "base/limits.h"
#include "ledger/books.h"
#include "ledger/log.h"
#include "tests/unit/ledger/crash_disk.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

constexpr std::int64_t kTime = 1'700'000'000;
constexpr std::size_t kEntries = 64;

// What an audit of the folder says: nothing, or its first fault.
std::string audit(const Image& image) {
  CrashDisk disk(image);
  Books books;
  const auto scan = scan_log(
      disk, {key_of(1).public_key(), {}},
      [&books](std::uint64_t, ByteSpan entry, const Hash256&) { return books.apply(entry); });
  return scan ? "" : scan.error().message;
}

class TamperedLedger : public ::testing::Test {
 protected:
  TamperedLedger() {
    add(RulesEntry{policy_hash({}), cluster_.public_key()});
    for (const SecretKey* key : {&worker_, &liar_, &auditor_}) {
      add(MemberEntry{key->public_key(), hash_of(key->public_key().hex()), true});
    }
    add(ChangeEntry{auditor_.public_key()});
    first_ = add_window(worker_, 0);
    judged_ = add_window(worker_, 1);
    add_audit(first_, hash_of("root 0"));
    add_audit(judged_, hash_of("another root"));
    undrawn_ = draw(cluster_);
    add(GrantEntry{auditor_.public_key(), 5});
    drawn_at_ = add(draw(cluster_));
    verdict_ = {judged_, worker_.public_key(), Verdict::kFault, hash_of("concession")};
    verdict_at_ = add(verdict_);
    equivocation_ = {receipt(liar_, 2, "one"), receipt(liar_, 2, "other")};
    equivocation_at_ = add(equivocation_);
    add(VestEntry{worker_.public_key()});
    while (entries_.size() < kEntries) add(GrantEntry{auditor_.public_key(), 1});
  }

  std::uint64_t add(const EntryBody& body) {
    entries_.push_back(write_entry({kTime, body}));
    const Status applied = books_.apply(entries_.back());
    EXPECT_TRUE(applied) << applied.error().message;
    return entries_.size() - 1;
  }
  // Of a pipeline of one stage, which is its own commitment at both ends; or of the first of two.
  std::array<std::byte, kReceiptBytes> receipt(const SecretKey& by, std::uint32_t window,
                                               const std::string& root) const {
    Receipt r;
    r.slot.window = window;
    r.layer_end = 4;
    r.stages = 2;
    r.first_position = limits::kWindowPositions * window;
    r.positions = limits::kWindowPositions;
    r.tokens = r.in_root = hash_of("tokens " + std::to_string(window));
    r.out_root = hash_of(root);
    r.previous = latest_;
    r.begun_ms = std::uint64_t{kTime} * 1'000;
    r.in_edge = sign_edge(in_edge(r), cluster_.public_key(), cluster_);
    std::array<std::byte, kReceiptBytes> bytes{};
    std::ranges::copy(*sign_receipt(r, cluster_.public_key(), by), bytes.begin());
    return bytes;
  }
  std::uint64_t add_window(const SecretKey& by, std::uint32_t window) {
    const ReceiptEntry entry{{}, receipt(by, window, "root " + std::to_string(window))};
    latest_ = blake2b(entry.receipt);
    return add(entry);
  }
  void add_audit(std::uint64_t entry, const Hash256& root) {
    const Hash256 seal = seal_of(entry, auditor_.public_key(), root, {});
    add(sign_seal(entry, seal, cluster_.public_key(), auditor_));
    add(OpeningEntry{entry, auditor_.public_key(), root, {}});
  }
  DrawEntry draw(const SecretKey& by) const {
    return {vrf_prove(by, draw_message(books_.entries(), books_.root(), cluster_.public_key()))};
  }

  Image disk_of(const std::vector<Bytes>& entries) const {
    CrashDisk disk;
    auto log = Log::create(borrow(disk), cluster_).value();
    const std::vector<ByteSpan> spans(entries.begin(), entries.end());
    EXPECT_TRUE(log->append(spans));
    return disk.now();
  }
  // As who holds the key would publish it: another entry in this place, and all hashes anew.
  std::string rewritten(std::uint64_t at, Bytes entry) const {
    std::vector<Bytes> entries = entries_;
    entries[at] = std::move(entry);
    return audit(disk_of(entries));
  }
  void expect_refused(std::uint64_t at, Bytes entry, const char* what, const char* why) {
    const std::string said = rewritten(at, std::move(entry));
    EXPECT_NE(said.find("entry " + std::to_string(at) + " at byte "), std::string::npos)
        << what << ": " << said;
    EXPECT_NE(said.find(why), std::string::npos) << what << ": " << said;
    ++cases_;
  }
  void expect_refused(std::uint64_t at, const EntryBody& body, const char* what, const char* why) {
    expect_refused(at, write_entry({kTime, body}), what, why);
  }

  const SecretKey cluster_ = key_of(1);
  const SecretKey worker_ = key_of(2);
  const SecretKey liar_ = key_of(3);
  const SecretKey auditor_ = key_of(4);
  const SecretKey stranger_ = key_of(5);
  Books books_;
  std::vector<Bytes> entries_;
  Hash256 latest_;
  std::uint64_t first_ = 0;
  std::uint64_t judged_ = 0;
  DrawEntry undrawn_;
  std::uint64_t drawn_at_ = 0;
  std::uint64_t verdict_at_ = 0;
  std::uint64_t equivocation_at_ = 0;
  VerdictEntry verdict_;
  EquivocationEntry equivocation_;
  int cases_ = 0;
};

TEST_F(TamperedLedger, IsSoundAsItWasWritten) {
  EXPECT_EQ(audit(disk_of(entries_)), "");
  std::set<int> kinds;
  for (const Bytes& entry : entries_) kinds.insert(std::to_integer<int>(entry.front()));
  EXPECT_EQ(kinds.size(), std::variant_size_v<EntryBody>) << "of every kind";
}

// Every bit of these entries, on the disk alone.
TEST_F(TamperedLedger, NoBitOfAVerdictAnEquivocationOrADrawMayChange) {
  Image image = disk_of(entries_);
  Bytes& bundle = image.at("tile/entries/000.p/64");
  const auto parsed = parse_bundle(bundle, kEntries).value();
  std::size_t flips = 0;
  for (const std::uint64_t at : {verdict_at_, equivocation_at_, drawn_at_}) {
    const std::size_t begin = parsed[at].offset + 2;
    const std::string named = "entry " + std::to_string(at) + " at byte ";
    for (std::size_t bit = 0; bit < 8 * parsed[at].bytes.size(); ++bit) {
      const std::byte mask{static_cast<unsigned char>(1 << bit % 8)};
      bundle[begin + bit / 8] ^= mask;
      CrashDisk disk(image);
      const auto scan = scan_log(disk, {}, {});
      ASSERT_FALSE(scan) << named << "bit " << bit;
      ASSERT_NE(scan.error().message.find(named), std::string::npos) << scan.error().message;
      bundle[begin + bit / 8] ^= mask;
      ++flips;
    }
  }
  EXPECT_EQ(flips, 8u * (82 + 905 + 89));
  EXPECT_EQ(audit(image), "");
}

TEST_F(TamperedLedger, ARewrittenVerdictIsNamed) {
  VerdictEntry wrong = verdict_;
  wrong.receipt = 0;
  expect_refused(verdict_at_, wrong, "of no receipt", "not a receipt that can be audited");
  wrong = verdict_;
  wrong.receipt = first_;
  expect_refused(verdict_at_, wrong, "where all agree", "where nothing is in dispute");
  wrong = verdict_;
  wrong.guilty = liar_.public_key();
  expect_refused(verdict_at_, wrong, "on somebody else", "not a party of the dispute");
  Bytes raw = entries_[verdict_at_];
  for (const unsigned char kind : {0, 4}) {
    raw[9 + 8 + 32] = std::byte{kind};
    expect_refused(verdict_at_, raw, "of another kind", "is unknown");
  }
  raw[9 + 8 + 32] = std::byte{3};
  expect_refused(verdict_at_, raw, "unjudged, on somebody", "names who is guilty");
  wrong = verdict_;
  wrong.guilty = {};
  expect_refused(verdict_at_, wrong, "on an empty key", "names who is guilty");
  raw = entries_[verdict_at_];
  raw.push_back(std::byte{0});
  expect_refused(verdict_at_, raw, "of another length", "the length of its kind");
  expect_refused(verdict_at_, write_entry({kTime - 1, verdict_}), "of an earlier time",
                 "before its predecessor's");
  expect_refused(verdict_at_ + 2, verdict_, "twice", "where nothing is in dispute");
  EXPECT_EQ(cases_, 10);
}

TEST_F(TamperedLedger, ARewrittenEquivocationIsNamed) {
  const auto refused = [this](const char* what, const char* why,
                              const std::function<void(EquivocationEntry&)>& change) {
    EquivocationEntry wrong = equivocation_;
    change(wrong);
    expect_refused(equivocation_at_, wrong, what, why);
  };
  constexpr const char* kSame = "do not contradict each other";
  refused("the same twice", kSame, [](auto& e) { e.other = e.one; });
  refused("of two slots", kSame, [this](auto& e) { e.other = receipt(liar_, 3, "other"); });
  refused("of two workers", kSame, [this](auto& e) { e.other = receipt(worker_, 2, "other"); });
  constexpr const char* kForged = "signature is not its worker's";
  refused("the first forged", kForged, [](auto& e) { e.one[150] ^= std::byte{1}; });
  refused("the second forged", kForged, [](auto& e) { e.other.back() ^= std::byte{1}; });
  refused("no receipt at all", "not a receipt", [](auto& e) { e.one = {}; });
  refused("of a stranger", "is not a member's", [this](auto& e) {
    e = {receipt(stranger_, 2, "one"), receipt(stranger_, 2, "other")};
  });
  expect_refused(equivocation_at_ + 2, equivocation_, "once more", "lost its standing for good");
  EXPECT_EQ(cases_, 8);
}

TEST_F(TamperedLedger, ARewrittenDrawIsNamed) {
  constexpr const char* kProof = "a draw's proof is not the cluster's over the checkpoint";
  const DrawEntry own = std::get<DrawEntry>(parse_entry(entries_[drawn_at_])->body);
  for (const std::size_t at : {0, 31, 32, 47, 48, 79}) {  // of its point, its c and its s
    DrawEntry wrong = own;
    wrong.proof[at] ^= std::byte{1};
    expect_refused(drawn_at_, wrong, "another proof", kProof);
  }
  expect_refused(drawn_at_, undrawn_, "over an earlier checkpoint", kProof);
  expect_refused(drawn_at_ + 4, own, "once more, later", kProof);
  const Bytes message = draw_message(drawn_at_, hash_of("root"), cluster_.public_key());
  expect_refused(drawn_at_, DrawEntry{vrf_prove(cluster_, message)}, "over another tree", kProof);
  EXPECT_EQ(cases_, 9);
  // An entry before it that says the same in other words: the draw shows it.
  std::vector<Bytes> entries = entries_;
  entries[drawn_at_ - 1] = write_entry({kTime, GrantEntry{auditor_.public_key(), 6}});
  const std::string said = audit(disk_of(entries));
  EXPECT_NE(said.find("entry " + std::to_string(drawn_at_) + " at byte "), std::string::npos);
  EXPECT_NE(said.find(kProof), std::string::npos) << said;
}

}  // namespace
}  // namespace hearth::ledger
