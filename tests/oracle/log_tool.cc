// A log for the oracle of its formats.
//   log_tool write FOLDER SEED SIZES WITNESS...   appends "entry N" in batches of these sizes
//                                                 (1,2,300); each witness is the seed of its key
//   log_tool ledger FOLDER SEED EXTRA [DAYS]      a ledger of a few entries; EXTRA is one more, in
//                                                 hex; then one a day for so many days
//   log_tool raw FOLDER SEED ENTRY...             a log of these entries, in hex
//   log_tool read FOLDER                          prints every entry of a verified log
//   log_tool proofs FOLDER SEED                   inclusion of every 5th entry, consistency from
//                                                 every 7th size: hex lines
//   log_tool vrf SEED MESSAGE                     the proof of a message, in hex as the message is
// Seeds are 64 hex digits.
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto_vrf.h"
#include "base/hex.h"
#include "ledger/entry.h"
#include "ledger/log.h"
#include "ledger/policy.h"

namespace {

using namespace hearth;
using namespace hearth::ledger;

Result<SecretKey> key_of(const char* hex) {
  const auto seed = from_hex(hex);
  REQUIRE(seed, "a seed is 64 hex digits");
  return SecretKey::from_seed(*seed);
}

Status append(Log& log, std::uint64_t count) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) {
    texts.push_back("entry " + std::to_string(log.size() + i));
  }
  std::vector<ByteSpan> entries;
  for (const std::string& text : texts) entries.push_back(as_bytes(text));
  TRY_VOID(log.append(entries));
  return ok_status();
}

Status write(int argc, char** argv) {
  TRY(const SecretKey key, key_of(argv[3]));
  TRY(auto folder, open_log_folder(argv[2], LogAccess::kCreate));
  TRY(const auto log, Log::create(std::move(folder), key));
  std::istringstream sizes(argv[4]);
  for (std::string size; std::getline(sizes, size, ',');) {
    TRY_VOID(append(*log, std::strtoull(size.c_str(), nullptr, 10)));
  }
  for (int i = 5; i < argc; ++i) {
    TRY(const SecretKey witness, key_of(argv[i]));
    TRY_VOID(log->add_cosignature(
        cosign(log->checkpoint(), 1'700'000'000 + static_cast<std::uint64_t>(i), witness)));
  }
  return ok_status();
}

Status ledger_of(const char* path, const char* seed, const char* extra, std::uint64_t days) {
  TRY(const SecretKey key, key_of(seed));
  TRY(auto folder, open_log_folder(path, LogAccess::kCreate));
  TRY(const auto log, Log::create(std::move(folder), key));
  const std::int64_t now = 1'700'000'000;
  const PublicKey node = SecretKey::generate().public_key();
  for (const EntryBody& body : {EntryBody(RulesEntry{policy_hash(Policy()), key.public_key()}),
                                EntryBody(MemberEntry{node, blake2b(node.bytes()), true}),
                                EntryBody(GrantEntry{node, 5'000}), EntryBody(ChangeEntry{node})}) {
    TRY_VOID(log->append(write_entry({now, body})));
  }
  const auto last = from_hex(extra);
  if (last && !last->empty()) TRY_VOID(log->append(*last));
  std::vector<Bytes> changes;
  for (std::uint64_t day = 1; day <= days; ++day) {
    changes.push_back(
        write_entry({now + static_cast<std::int64_t>(day) * 86'400, ChangeEntry{node}}));
  }
  if (changes.empty()) return ok_status();
  TRY_VOID(log->append(std::vector<ByteSpan>(changes.begin(), changes.end())));
  return ok_status();
}

Status raw(int argc, char** argv) {
  TRY(const SecretKey key, key_of(argv[3]));
  TRY(auto folder, open_log_folder(argv[2], LogAccess::kCreate));
  TRY(const auto log, Log::create(std::move(folder), key));
  for (int i = 4; i < argc; ++i) {
    const auto entry = from_hex(argv[i]);
    REQUIRE(entry, "an entry is hex digits");
    TRY_VOID(log->append(*entry));
  }
  return ok_status();
}

Status read(const char* path) {
  TRY(auto folder, open_log_folder(path, LogAccess::kRead));
  TRY(const Scan scan,
      scan_log(*folder, {}, [](std::uint64_t index, ByteSpan entry, const Hash256&) {
        const std::string_view text = as_text(entry);
        std::printf("%llu %.*s\n", static_cast<unsigned long long>(index),
                    static_cast<int>(text.size()), text.data());
        return ok_status();
      }));
  std::printf("cosigned %zu\n", scan.checkpoint.cosignatures.size());
  return ok_status();
}

void print(const char* what, std::uint64_t number, const Proof& proof) {
  std::printf("%s %llu", what, static_cast<unsigned long long>(number));
  for (const Hash256& hash : proof) std::printf(" %s", hash.hex().c_str());
  std::printf("\n");
}

Status proofs(const char* path, const char* seed) {
  TRY(const SecretKey key, key_of(seed));
  TRY(auto folder, open_log_folder(path, LogAccess::kWrite));
  TRY(const auto log, Log::open(std::move(folder), key));
  TRY(auto reader, open_log_folder(path, LogAccess::kRead));
  for (std::uint64_t i = 0; i < log->size(); i += 5) {
    TileReader tiles(*reader, log->size());
    TRY(const Proof proof, inclusion_proof(i, log->size(), tiles.nodes()));
    print("inclusion", i, proof);
  }
  for (std::uint64_t old_size = 1; old_size <= log->size(); old_size += 7) {
    TileReader tiles(*reader, log->size());
    TRY(const Proof proof, consistency_proof(old_size, log->size(), tiles.nodes()));
    print("consistency", old_size, proof);
  }
  return ok_status();
}

Status vrf(const char* seed, const char* message) {
  TRY(const SecretKey key, key_of(seed));
  const auto bytes = from_hex(message);
  REQUIRE(bytes, "a message is hex digits");
  const VrfProof proof = vrf_prove(key, *bytes);
  REQUIRE(vrf_verify(key.public_key(), *bytes, proof), "a proof of ours does not verify");
  std::printf("%s\n", to_hex(proof).c_str());
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 2 ? argv[1] : "";
  Status done = Error::invalid("usage: see the head of log_tool.cc");
  if (verb == "write" && argc > 4) done = write(argc, argv);
  if (verb == "ledger" && (argc == 5 || argc == 6)) {
    const std::uint64_t days = argc == 6 ? std::strtoull(argv[5], nullptr, 10) : 0;
    done = ledger_of(argv[2], argv[3], argv[4], days);
  }
  if (verb == "raw" && argc > 3) done = raw(argc, argv);
  if (verb == "read") done = read(argv[2]);
  if (verb == "vrf" && argc == 4) done = vrf(argv[2], argv[3]);
  if (verb == "proofs" && argc == 4) done = proofs(argv[2], argv[3]);
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
