// A ledger that is written entry by entry, with credit: a cluster, a client who pays, members who
// are vouched for or not, windows of two stages, audits. Every entry goes through the books of
// somebody who checks all of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ledger/books.h"
#include "ledger/log.h"
#include "tests/unit/ledger/crash_disk.h"

namespace hearth::attacks {

inline constexpr std::int64_t kDay = 24 * 3'600;

inline SecretKey member_key(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}
inline Hash256 hash_of(const std::string& text) { return blake2b(as_bytes(text)); }

class LedgerWorld {
 public:
  LedgerWorld() {
    using namespace ledger;
    add(RulesEntry{policy_hash(Policy()), cluster.public_key()});
    for (const SecretKey* key : {&upper, &lower, &auditor}) {
      add(MemberEntry{key->public_key(), hash_of(key->public_key().hex()), true});
    }
    add(MemberEntry{newcomer.public_key(), hash_of("newcomer"), false});
    add(GrantEntry{client.public_key(), 1'000'000'000});
  }

  Status apply(const ledger::EntryBody& body) {
    const Bytes bytes = ledger::write_entry({now, body});
    Status applied = books.apply(bytes);
    if (applied) log.push_back(bytes);
    return applied;
  }
  // The index of the entry.
  std::uint64_t add(const ledger::EntryBody& body) {
    const Status applied = apply(body);
    EXPECT_TRUE(applied) << applied.error().message;
    return books.entries() - 1;
  }
  // What books that never see it again say of it; empty: they take it.
  std::string refusal(const ledger::EntryBody& body, std::int64_t time = -1) const {
    ledger::Books copy = books;
    const Status applied = copy.apply(ledger::write_entry({time < 0 ? now : time, body}));
    return applied ? "" : applied.error().message;
  }

  // Of one request a window: 24 prompt positions and 40 that were generated, four layers a stage.
  ledger::Receipt window(std::uint16_t stage, std::uint32_t number) {
    ledger::Receipt r;
    const Hash256 name = hash_of("request " + std::to_string(number));
    std::copy_n(name.bytes.begin(), r.slot.request.size(), r.slot.request.begin());
    r.slot.stage = stage;
    r.program = hash_of("program");
    r.layer_begin = static_cast<std::uint16_t>(stage * 4);
    r.layer_end = static_cast<std::uint16_t>(stage * 4 + 4);
    r.stages = 2;
    r.positions = 64;
    r.prompt_positions = 24;
    r.tokens = hash_of("tokens " + std::to_string(number));
    const Hash256 boundary = hash_of("boundary " + std::to_string(number));
    r.in_root = stage == 0 ? r.tokens : boundary;
    r.out_root = stage == 0 ? boundary : r.tokens;
    r.begun_ms = static_cast<std::uint64_t>(now) * 1'000;
    r.previous = latest[worker(stage).public_key()];
    sign_edges(r);
    return r;
  }
  void sign_edges(ledger::Receipt& r) const {
    const bool is_first = r.slot.stage == 0;
    r.in_edge = sign_edge(in_edge(r), cluster.public_key(), is_first ? cluster : upper);
    r.out_edge = sign_edge(out_edge(r), cluster.public_key(), is_first ? lower : cluster);
  }
  const SecretKey& worker(std::uint16_t stage) const { return stage == 0 ? upper : lower; }
  ledger::ReceiptEntry entry_of(const ledger::Receipt& r, const SecretKey& by) const {
    const Bytes bytes = ledger::sign_receipt(r, cluster.public_key(), by).value();
    ledger::ReceiptEntry entry{client.public_key(), {}};
    std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
    return entry;
  }
  ledger::ReceiptEntry entry_of(const ledger::Receipt& r) const {
    return entry_of(r, worker(r.slot.stage));
  }
  std::uint64_t add_window(std::uint16_t stage, std::uint32_t number) {
    const ledger::ReceiptEntry entry = entry_of(window(stage, number));
    latest[worker(stage).public_key()] = blake2b(entry.receipt);
    return add(entry);
  }
  ledger::SealEntry seal(std::uint64_t receipt, const SecretKey& by, const Hash256& root) const {
    return ledger::sign_seal(receipt, ledger::seal_of(receipt, by.public_key(), root, salt),
                             cluster.public_key(), by);
  }
  ledger::OpeningEntry opening(std::uint64_t receipt, const SecretKey& by,
                               const Hash256& root) const {
    return {receipt, by.public_key(), root, salt};
  }
  void audit(std::uint64_t receipt, const SecretKey& by, const Hash256& root) {
    add(seal(receipt, by, root));
    add(opening(receipt, by, root));
  }
  // A window of the first stage that `by` finds right, or otherwise.
  std::uint64_t audited(std::uint32_t number, const SecretKey& by, bool agrees = true) {
    const std::uint64_t entry = add_window(0, number);
    audit(entry, by, hash_of(agrees ? "boundary " + std::to_string(number) : "another"));
    return entry;
  }
  ledger::DrawEntry draw() const {
    return {vrf_prove(cluster,
                      ledger::draw_message(books.entries(), books.root(), cluster.public_key()))};
  }
  const ledger::Standing& of(const SecretKey& key) const {
    return *books.standing(key.public_key());
  }
  std::int64_t spendable(const SecretKey& key) const {
    return books.balance({ledger::Account::Kind::kSpendable, key.public_key()});
  }

  const SecretKey cluster = member_key(1);
  const SecretKey client = member_key(2);
  const SecretKey upper = member_key(3);
  const SecretKey lower = member_key(4);
  const SecretKey auditor = member_key(5);
  const SecretKey newcomer = member_key(6);
  const Hash256 salt = hash_of("salt");
  std::int64_t now = 20'000 * kDay;
  std::map<PublicKey, Hash256> latest;
  ledger::Books books;
  std::vector<Bytes> log;
};

// A log of these entries on a disk of its own.
inline ledger::Image written(const SecretKey& key, const std::vector<Bytes>& entries) {
  auto disk = std::make_unique<ledger::CrashDisk>();
  const ledger::CrashDisk& image = *disk;
  auto log = ledger::Log::create(std::move(disk), key).value();
  for (const Bytes& entry : entries) EXPECT_TRUE(log->append(ByteSpan(entry)));
  return image.now();
}

// What somebody reads in it who kept a checkpoint of earlier; empty: all is well.
inline std::string fault_of(ledger::Image image,
                            std::optional<ledger::Checkpoint> earlier = std::nullopt,
                            ledger::Books* books = nullptr) {
  ledger::CrashDisk disk(std::move(image));
  const auto scan = ledger::scan_log(disk, {member_key(1).public_key(), std::move(earlier)},
                                     [books](std::uint64_t, ByteSpan entry, const Hash256&) {
                                       return books ? books->apply(entry) : ok_status();
                                     });
  return scan ? "" : scan.error().message;
}

inline ledger::Checkpoint checkpoint_of(ledger::Image image) {
  ledger::CrashDisk disk(std::move(image));
  return ledger::read_checkpoint(disk).value();
}

}  // namespace hearth::attacks
