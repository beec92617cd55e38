// The ledger over the API: standings and verdicts, and receipts with proofs that a client can
// check.
#include <gtest/gtest.h>

#include "base/hex.h"
#include "base/limits.h"
#include "ledger/log.h"
#include "ledger/lookup.h"
#include "tests/unit/coordinator/http/routes/managed.h"
#include "tests/unit/ledger/crash_disk.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::coordinator::http {
namespace {

using ledger::key_of;

constexpr std::int64_t kAskedAt = 1'700'000'000;

struct PlayedLedger final : LedgerView {
  std::string fault() const override { return ""; }
  void summarise(std::function<void(const LedgerSummary&)> done) const override { done(summary); }
  LedgerSummary summary;
};

struct LedgerRouteTest : ManagedTest {
  LedgerRouteTest() {
    api->options.ledger = &view;
    api->options.open_log = [this]() -> Result<std::unique_ptr<ledger::LogFolder>> {
      return ledger::borrow(disk);
    };
    const std::vector<RosterEntry> members = {{key_of(10).public_key(), "desk", Role::kWorker, {}}};
    EXPECT_TRUE(roster->offer(*sign_roster({{}, 1, members}, cluster)).ok());
  }
  static ledger::AnswerName name_of(unsigned char number) {
    return ledger::answer_name(kAskedAt, Bytes(10, std::byte{number}));
  }
  // Of one stage and one window.
  static Bytes receipt(unsigned char number) {
    ledger::Receipt r;
    r.slot = {ledger::request_of(name_of(number), 0), 5, 0, 0};
    r.layer_end = 2;
    r.positions = 7;
    r.tokens = r.in_root = r.out_root = ledger::hash_of("tokens");
    r.in_edge = ledger::sign_edge(ledger::in_edge(r), key_of(1).public_key(), key_of(1));
    r.out_edge = ledger::sign_edge(ledger::out_edge(r), key_of(1).public_key(), key_of(1));
    const Bytes bytes = *ledger::sign_receipt(r, key_of(1).public_key(), key_of(10));
    ledger::ReceiptEntry entry;
    std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
    return ledger::write_entry({kAskedAt + 1, entry});
  }
  void write(const std::vector<Bytes>& entries) {
    const auto log = ledger::Log::create(ledger::borrow(disk), key_of(1)).value();
    const std::vector<ByteSpan> spans(entries.begin(), entries.end());
    ASSERT_TRUE(log->append(spans));
  }
  Json get(const std::string& path) { return ask("GET", path, "", find_route("GET", path).access); }

  PlayedLedger view;
  ledger::CrashDisk disk;
};

TEST_F(LedgerRouteTest, AReceiptComesWithWhatProvesIt) {
  write({receipt(2), receipt(1), receipt(3)});
  const std::string name = to_hex(name_of(1));
  const Json told = get("/api/v1/receipts/" + name);
  ASSERT_EQ(status(), 200u) << told;
  EXPECT_EQ(told["receipt"], name);
  const auto checkpoint =
      ledger::parse_checkpoint(as_bytes(told["checkpoint"].get<std::string>())).value();
  EXPECT_EQ(checkpoint.log, key_of(1).public_key());
  EXPECT_EQ(checkpoint.size, 3u);
  ASSERT_EQ(told["receipts"].size(), 1u) << "of this answer alone";
  const Json& one = told["receipts"][0];
  const Bytes entry = *from_base64(one["bytes"].get<std::string>());
  EXPECT_EQ(entry, receipt(1));
  ledger::Proof proof;
  for (const Json& hash : one["proof"]) {
    const Bytes bytes = *from_base64(hash.get<std::string>());
    ASSERT_EQ(bytes.size(), sizeof(Hash256));
    std::copy(bytes.begin(), bytes.end(), proof.emplace_back().bytes.begin());
  }
  EXPECT_TRUE(ledger::check_inclusion(ledger::leaf_hash(entry), one["entry"], checkpoint.size,
                                      proof, checkpoint.root)
                  .ok());
  EXPECT_EQ(one["worker"], "desk");
  EXPECT_EQ(one["audits"], Json({{"agreed", 0}, {"differed", 0}}));
}

TEST_F(LedgerRouteTest, WhatIsNoReceiptIsRefused) {
  write({receipt(1)});
  const Json none = get("/api/v1/receipts/" + to_hex(name_of(9)));
  EXPECT_EQ(status(), 200u) << "they may come";
  EXPECT_EQ(none["receipts"].size(), 0u);
  for (const char* name : {"x", "00", "../../etc/passwd", "0123456789abcdef0123456789abcdef"}) {
    get(std::string("/api/v1/receipts/") + name);
    EXPECT_EQ(status(), 400u) << name;
  }
  EXPECT_TRUE(api->slow_reads.empty());
  // Eight of all that ask, and two of the one that asks here.
  for (const std::map<std::string, std::uint32_t>& others :
       {std::map<std::string, std::uint32_t>{{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}},
        std::map<std::string, std::uint32_t>{{kOwner, 2}}}) {
    api->slow_reads = others;
    EXPECT_EQ(get("/api/v1/receipts/" + to_hex(name_of(1)))["error"]["code"], "too_many_reads");
    EXPECT_EQ(status(), 429u);
    EXPECT_EQ(get("/api/v1/ledger")["error"]["code"], "too_many_reads");
    EXPECT_EQ(api->slow_reads, others);
  }
  api->slow_reads = {{"a", 2}, {kOwner, 1}};
  EXPECT_EQ(get("/api/v1/receipts/" + to_hex(name_of(1)))["receipts"].size(), 1u);
  api->slow_reads.clear();
  disk = ledger::CrashDisk();
  EXPECT_EQ(get("/api/v1/receipts/" + to_hex(name_of(1)))["error"]["code"], "ledger_unreadable");
  EXPECT_TRUE(api->slow_reads.empty()) << "after a failure, too";
  api->options.open_log = nullptr;
  EXPECT_EQ(get("/api/v1/receipts/" + to_hex(name_of(1)))["error"]["code"], "no_ledger");
  EXPECT_EQ(get("/api/v1/ledger")["error"]["code"], "no_ledger");
}

TEST_F(LedgerRouteTest, StandingsVerdictsAndCredits) {
  ledger::VerdictEntry verdict;
  verdict.receipt = 0;
  verdict.guilty = key_of(10).public_key();
  verdict.verdict = ledger::Verdict::kFraud;
  ledger::VerdictEntry undecided;
  undecided.verdict = ledger::Verdict::kUnjudged;
  write({receipt(1), ledger::write_entry({kAskedAt + 2, verdict}),
         ledger::write_entry({kAskedAt + 3, undecided})});
  view.summary.entries = 3;
  view.summary.audits.selected = 4;
  view.summary.open_disputes = 1;
  MemberSummary member;
  member.key = key_of(10).public_key();
  member.level = "regular";
  member.served = 12;
  view.summary.members = {member};
  view.summary.payers = {{key_of(11).public_key(), 50}};
  view.summary.payers_total = 2;
  Json told = get("/api/v1/ledger");
  ASSERT_EQ(status(), 200u) << told;
  EXPECT_EQ(told["entries"], 3);
  EXPECT_EQ(told["audits"]["selected"], 4);
  EXPECT_EQ(told["audits"]["open_disputes"], 1);
  EXPECT_EQ(told["members"][0]["name"], "desk");
  EXPECT_EQ(told["members"][0]["windows_served"], 12);
  ASSERT_EQ(told["verdicts"].size(), 2u);
  EXPECT_EQ(told["verdicts"][0]["verdict"], "unjudged");
  EXPECT_FALSE(told["verdicts"][0].contains("key"));
  EXPECT_EQ(told["verdicts"][1]["verdict"], "fraud");
  EXPECT_EQ(told["verdicts"][1]["name"], "desk");
  EXPECT_EQ(told["verdicts"][1]["entry"], 1);
  EXPECT_FALSE(told.contains("payers")) << "without credits";
  api->options.credits = std::make_shared<Credits>();
  told = get("/api/v1/ledger");
  EXPECT_EQ(told["payers"][0]["balance"], 50);
  EXPECT_EQ(told["payers_total"], 2);
}

}  // namespace
}  // namespace hearth::coordinator::http
