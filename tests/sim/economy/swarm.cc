#include "swarm.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/random.h"
#include "ledger/receipt.h"
#include "ledger/statements.h"

namespace hearth::economy {
namespace {

using namespace hearth::ledger;

// Where a receipt has what changes from one to the next (ledger/receipt.h).
constexpr std::size_t kRequestAt = 12;
constexpr std::size_t kStageAt = 64;
constexpr std::size_t kOutRootAt = 148;
constexpr std::size_t kPreviousAt = 180;
constexpr std::size_t kBegunAt = 212;
constexpr std::size_t kWorkerAt = 224;

Hash256 hash_of(std::string_view text) { return blake2b(as_bytes(text)); }
const Hash256 kTrueRoot = hash_of("what the layers give");
const Hash256 kWrongRoot = hash_of("what a cheat claims");
const Hash256 kGuess = hash_of("what a lazy auditor says");
const Hash256 kSalt = hash_of("salt");

SecretKey key_of(std::uint64_t seed, std::string_view what, std::uint64_t number) {
  const std::string text =
      std::to_string(seed) + " " + std::string(what) + " " + std::to_string(number);
  return SecretKey::from_seed(hash_of(text).bytes).value();
}

// The first of three stages, so that what goes out is no commitment to tokens.
Receipt receipt_of(Size size) {
  Receipt receipt;
  receipt.slot.epoch = 1;
  receipt.program = hash_of("program");
  receipt.layer_begin = 0;
  receipt.layer_end = 20;
  receipt.stages = 3;
  receipt.positions = size == Size::kLarge ? 4'096 : 256;
  receipt.prompt_positions = size == Size::kPrompt ? receipt.positions : receipt.positions / 4;
  receipt.tokens = hash_of("tokens");
  receipt.in_root = receipt.tokens;
  receipt.out_root = kTrueRoot;
  return receipt;
}

void put(MutableByteSpan bytes, std::size_t at, ByteSpan what) {
  std::copy(what.begin(), what.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

Swarm::Swarm(std::uint64_t seed)
    : seed_(seed),
      cluster_(key_of(seed, "cluster", 0)),
      client_(key_of(seed, "client", 0).public_key()) {
  add(RulesEntry{policy_hash(policy()), cluster_.public_key()});
  add(GrantEntry{client_, std::int64_t{1} << 53});
}

std::uint64_t Swarm::add(const EntryBody& body) {
  const Status applied = books_.apply(write_entry({now_, body}));
  if (applied.ok()) return books_.entries() - 1;
  std::fprintf(stderr, "the ledger refuses an entry: %s\n", applied.error().message.c_str());
  std::exit(2);
}

const Standing& Swarm::standing(std::size_t member) const {
  return *books_.standing(members_[member].key);
}

std::int64_t Swarm::price(Size size) const { return window_price(policy(), receipt_of(size)); }
std::int64_t Swarm::check_price(Size size) const {
  return ledger::check_price(policy(), receipt_of(size), price(size));
}

std::size_t Swarm::join(bool vouched) {
  const PublicKey key = key_of(seed_, "member", members_.size()).public_key();
  add(MemberEntry{key, blake2b(key.bytes()), vouched});
  numbers_[key] = members_.size();
  members_.push_back({key, {}});
  return members_.size() - 1;
}

void Swarm::grant(std::size_t member, std::int64_t amount) {
  add(GrantEntry{members_[member].key, amount});
}

void Swarm::stir(std::uint64_t number) {
  add(GrantEntry{key_of(seed_, "stranger", number).public_key(), 1});
}

void Swarm::change(std::size_t member) { add(ChangeEntry{members_[member].key}); }

Window Swarm::serve(std::size_t worker, Size size, bool wrong, std::optional<std::size_t> payer) {
  return serve(worker, size, wrong, payer, ++requests_, 0);
}

Window Swarm::serve_behind(const Window& upper, std::size_t worker, bool wrong) {
  return serve(worker, Size::kUsual, wrong, std::nullopt, upper.request, 1);
}

Window Swarm::serve(std::size_t worker, Size size, bool wrong, std::optional<std::size_t> payer,
                    std::uint64_t request, std::uint16_t stage) {
  const auto made = [this](Size size) {
    return *sign_receipt(receipt_of(size), cluster_.public_key(), key_of(0, "any", 0));
  };
  static const std::array<Bytes, 3> receipts = {made(Size::kUsual), made(Size::kLarge),
                                                made(Size::kPrompt)};
  Member& member = members_[worker];
  ReceiptEntry entry{payer ? members_[*payer].key : client_, {}};
  put(entry.receipt, 0, receipts[static_cast<std::size_t>(size)]);
  const std::uint64_t begun = static_cast<std::uint64_t>(now_) * 1'000;
  std::memcpy(entry.receipt.data() + kRequestAt, &request, sizeof(request));
  std::memcpy(entry.receipt.data() + kStageAt, &stage, sizeof(stage));
  std::memcpy(entry.receipt.data() + kBegunAt, &begun, sizeof(begun));
  put(entry.receipt, kOutRootAt, (wrong ? kWrongRoot : kTrueRoot).bytes);
  put(entry.receipt, kPreviousAt, member.latest.bytes);
  put(entry.receipt, kWorkerAt, member.key.bytes());
  const std::uint64_t index = add(entry);
  member.latest = blake2b(entry.receipt);
  return {index, worker, price(size), wrong, request};
}

const std::vector<std::uint64_t>& Swarm::draw() {
  const Bytes message = draw_message(books_.entries(), books_.root(), cluster_.public_key());
  add(DrawEntry{vrf_prove(cluster_, message)});
  return books_.selected();
}

bool Swarm::referee_draws(std::uint64_t entry) const {
  return books_.draw()->selects_referee(entry, policy().coordinator_rate);
}

std::optional<std::size_t> Swarm::auditor(const Window& window,
                                          std::span<const std::size_t> of) const {
  std::vector<Draw::Candidate> candidates;
  candidates.reserve(of.size());
  for (const std::size_t one : of) {
    if (is_over(one)) continue;
    const PublicKey& key = members_[one].key;
    candidates.push_back({key, blake2b(key.bytes())});
  }
  const Hash256 own = blake2b(members_[window.worker].key.bytes());
  const auto drawn = books_.draw()->auditor(window.entry, candidates, std::span(&own, 1));
  return drawn ? std::optional(numbers_.at(*drawn)) : std::nullopt;
}

bool Swarm::audit(const Window& window, std::span<const Audit> audits) {
  const Hash256& claimed = window.wrong ? kWrongRoot : kTrueRoot;
  const auto root_of = [&](const Audit& one) -> const Hash256& {
    if (one.says == Says::kGuess) return kGuess;
    return one.says == Says::kClaim ? claimed : kTrueRoot;
  };
  for (const Audit& one : audits) {
    const PublicKey& key = members_[one.auditor].key;
    add(SealEntry{window.entry, key, seal_of(window.entry, key, root_of(one), kSalt), {}});
  }
  bool doubted = false;
  for (const Audit& one : audits) {
    add(OpeningEntry{window.entry, members_[one.auditor].key, root_of(one), kSalt});
    doubted = doubted || root_of(one) != claimed;
  }
  return doubted;
}

void Swarm::judge(const Window& window, std::size_t guilty, Verdict verdict) {
  add(VerdictEntry{window.entry, members_[guilty].key, verdict, hash_of("evidence")});
}

void Swarm::equivocate(std::size_t worker) {
  const SecretKey key = key_of(seed_, "member", worker);
  Receipt receipt = receipt_of(Size::kUsual);
  EquivocationEntry entry;
  put(entry.one, 0, *sign_receipt(receipt, cluster_.public_key(), key));
  receipt.out_root = kWrongRoot;
  put(entry.other, 0, *sign_receipt(receipt, cluster_.public_key(), key));
  add(entry);
}

void Swarm::vest(std::size_t member) {
  if (!is_over(member)) add(VestEntry{members_[member].key});
}

std::int64_t Swarm::spendable(std::size_t member) const {
  return books_.balance({Account::Kind::kSpendable, members_[member].key});
}

std::int64_t Swarm::assets(std::size_t member) const {
  return spendable(member) + books_.balance({Account::Kind::kEscrow, members_[member].key});
}

}  // namespace hearth::economy
