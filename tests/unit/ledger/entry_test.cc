#include "ledger/entry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

TEST(Entry, HasOneEncoding) {
  const PublicKey key = key_of(1).public_key();
  const std::vector<EntryBody> bodies = {RulesEntry{{}, key},
                                         MemberEntry{key, {}, true},
                                         ChangeEntry{key},
                                         GrantEntry{key, 5},
                                         ReceiptEntry{key, {}},
                                         SealEntry{7, key, {}, {}},
                                         OpeningEntry{7, key, {}, {}},
                                         VerdictEntry{7, key, Verdict::kFraud, {}},
                                         EquivocationEntry{},
                                         VestEntry{key},
                                         DrawEntry{}};
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const Bytes bytes = write_entry({77, bodies[i]});
    const auto parsed = parse_entry(bytes);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->time, 77);
    EXPECT_EQ(parsed->body.index(), i);
    EXPECT_EQ(write_entry(*parsed), bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(parse_entry(ByteSpan(bytes).first(size))) << i << " " << size;
    }
    Bytes longer = bytes;
    longer.push_back({});
    EXPECT_FALSE(parse_entry(longer)) << i;
  }
  const auto ends = [&key](const PublicKey& guilty, Verdict verdict) {
    return parse_entry(write_entry({77, VerdictEntry{7, guilty, verdict, {}}})).ok();
  };
  EXPECT_TRUE(ends({}, Verdict::kUnjudged));
  EXPECT_FALSE(ends(key, Verdict::kUnjudged)) << "no key is guilty of it";
  EXPECT_FALSE(ends({}, Verdict::kFault));
  EXPECT_FALSE(ends({}, Verdict::kFraud));
  const Bytes unpaid = write_entry({77, ReceiptEntry{}});
  const auto parsed = parse_entry(unpaid);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(std::get<ReceiptEntry>(parsed->body).payer, PublicKey());
  EXPECT_EQ(receipt_in(unpaid).size(), kReceiptBytes);
  ReceiptEntry whole{key, {}, 7};
  whole.receipt.front() = std::byte{1};
  whole.receipt.back() = std::byte{2};
  const Bytes cached = write_entry({77, whole});
  EXPECT_EQ(std::get<ReceiptEntry>(parse_entry(cached)->body).cached, 7U);
  EXPECT_TRUE(std::ranges::equal(receipt_in(cached), whole.receipt));
  EXPECT_TRUE(receipt_in(write_entry({77, VestEntry{key}})).empty());
  EXPECT_FALSE(parse_entry(Bytes(9)));
  EXPECT_FALSE(parse_entry(Bytes(41, std::byte{12})));
  Bytes vouched = write_entry({77, MemberEntry{key, {}, true}});
  vouched.back() = std::byte{2};
  EXPECT_FALSE(parse_entry(vouched));
}

}  // namespace
}  // namespace hearth::ledger
