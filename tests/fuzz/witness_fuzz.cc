// What a witness is offered and a log is answered. The first byte says which: any bytes as a
// cosigned checkpoint and as a fork's file; or an offer of one of two true histories of a log, from
// some size to another, with its old root and its proof bent. What may be cosigned is a true
// extension of what was cosigned, and a fork is proved only where there is one.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "ledger/witness.h"

namespace {

using namespace hearth;
using namespace hearth::ledger;

constexpr std::size_t kMost = 40;    // entries
constexpr std::size_t kShared = 13;  // that both histories begin with

SecretKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

struct World {
  World() {
    for (std::size_t history = 0; history < 2; ++history) {
      std::vector<Hash256> leaves;
      for (std::size_t i = 0; i <= kMost; ++i) {
        roots[history].push_back(subtree_root(leaves));
        const std::string word = i >= kShared && history == 1 ? "other " : "entry ";
        leaves.push_back(leaf_hash(as_bytes(word + std::to_string(i))));
      }
      trees[history] = leaves;
      for (std::size_t size = 0; size <= kMost; ++size) {
        signed_[history].push_back(sign_checkpoint(size, roots[history][size], log));
      }
    }
  }
  Proof proof(std::size_t history, std::size_t old_size, std::size_t size) const {
    const auto nodes = [&](unsigned level, std::uint64_t index) -> Result<Hash256> {
      const std::span<const Hash256> all(trees[history]);
      return subtree_root(all.subspan(index << level, std::size_t{1} << level));
    };
    return consistency_proof(old_size, size, nodes).value();
  }
  const SecretKey log = key_of(1);
  const SecretKey witness = key_of(2);
  std::vector<Hash256> trees[2];
  std::vector<Hash256> roots[2];
  std::vector<Checkpoint> signed_[2];
};

void parse(const World& world, ByteSpan bytes) {
  const auto cosigned = parse_cosigned(bytes, world.log.public_key(), world.witness.public_key());
  INVARIANT(cosigned.ok() || !cosigned.error().message.empty(), "a refusal says why");
  INVARIANT(!cosigned || cosigned->text() == as_text(bytes), "it has one spelling");
  const auto fork = parse_fork(bytes);
  INVARIANT(!fork || format_fork(*fork) == as_text(bytes), "a fork has one spelling");
}

// A byte each: history and size of what was cosigned last (0: nothing), of what is offered, from
// where, and then bytes of the old root and the proof, with which they are changed.
void offer(const World& world, ByteSpan bytes) {
  const auto at = [bytes](std::size_t i) {
    return i < bytes.size() ? std::to_integer<std::size_t>(bytes[i]) : std::size_t{0};
  };
  const std::size_t kept_in = at(0) % 2;
  const std::size_t kept = at(1) % (kMost + 1);
  const std::size_t shown_in = at(2) % 2;
  const std::size_t shown = at(3) % (kMost + 1);
  std::size_t from = at(4) % (kMost + 1);
  if (from > shown) from = shown;
  Offer offered{world.signed_[shown_in][shown], from, world.roots[shown_in][from],
                world.proof(shown_in, from, shown)};
  const std::size_t change = at(5);
  if (change % 4 == 1) offered.proof.resize(change % 90);
  bool is_bent = change % 4 == 1;
  for (std::size_t i = 6; i + 1 < bytes.size(); i += 2) {
    const std::size_t which = at(i) % (offered.proof.size() + 1);
    Hash256& hash = which == 0 ? offered.old_root : offered.proof[which - 1];
    hash.bytes[at(i) % hash.bytes.size()] ^= bytes[i + 1];
    is_bent = is_bent || bytes[i + 1] != std::byte{};
  }
  std::optional<Checkpoint> latest;
  if (kept > 0) latest = world.signed_[kept_in][kept];
  const Judgement judged = judge(offered, latest, world.log.public_key());
  const bool extends = shown >= kept && world.roots[shown_in][kept] == world.roots[kept_in][kept];
  INVARIANT(judged.kind != Judgement::Kind::kExtends || extends, "only what extends is cosigned");
  INVARIANT(judged.kind != Judgement::Kind::kFork || (kept > 0 && !extends && shown >= kept),
            "a fork is where there is one");
  if (judged.kind == Judgement::Kind::kFork) {
    INVARIANT(parse_fork(as_bytes(format_fork(*judged.fork))).ok(), "its file proves it");
  }
  if (!is_bent && from == kept && shown > kept) {
    INVARIANT(judged.kind == (extends ? Judgement::Kind::kExtends : Judgement::Kind::kFork),
              "an honest offer is judged as what it is");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const World world;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (size == 0) return 0;
  bytes[0] == std::byte{0} ? parse(world, bytes.subspan(1)) : offer(world, bytes.subspan(1));
  return 0;
}
