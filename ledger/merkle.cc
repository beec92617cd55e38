#include "ledger/merkle.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "base/check.h"

namespace hearth::ledger {
namespace {

constexpr std::array<std::byte, 1> kLeaf{std::byte{0}};
constexpr std::array<std::byte, 1> kNode{std::byte{1}};

// OpenSSL's: it uses the processor's own instructions, which libsodium's does not, and opening a
// log is mostly this. A thread keeps its context.
Hash256 sha256(std::initializer_list<ByteSpan> parts) {
  struct Context {
    Context() : md(EVP_MD_fetch(nullptr, "SHA256", nullptr)), state(EVP_MD_CTX_new()) {
      INVARIANT(md != nullptr && state != nullptr, "OpenSSL has no SHA-256");
    }
    ~Context() {
      EVP_MD_CTX_free(state);
      EVP_MD_free(md);
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    EVP_MD* md;
    EVP_MD_CTX* state;
  };
  thread_local const Context context;
  bool hashed = EVP_DigestInit_ex2(context.state, context.md, nullptr) == 1;
  for (const ByteSpan part : parts) {
    hashed = hashed && EVP_DigestUpdate(context.state, part.data(), part.size()) == 1;
  }
  Hash256 hash;
  auto* const out = reinterpret_cast<unsigned char*>(hash.bytes.data());
  hashed = hashed && EVP_DigestFinal_ex(context.state, out, nullptr) == 1;
  INVARIANT(hashed, "SHA-256 of bytes in memory cannot fail");
  return hash;
}

// The largest power of two below `size`, which has two leaves or more: where a tree divides.
std::uint64_t split_of(std::uint64_t size) {
  INVARIANT(size > 1, "a tree of two leaves or more divides");
  return std::bit_floor(size - 1);
}

// The root of entries [begin, end). `begin` is a multiple of the largest power of two that fits.
Result<Hash256> range_root(std::uint64_t begin, std::uint64_t end, const NodeReader& nodes) {
  const std::uint64_t size = end - begin;
  if (std::has_single_bit(size)) {
    const auto level = static_cast<unsigned>(std::countr_zero(size));
    return nodes(level, begin >> level);
  }
  const std::uint64_t middle = begin + split_of(size);
  TRY(const Hash256 left, range_root(begin, middle, nodes));
  TRY(const Hash256 right, range_root(middle, end, nodes));
  return node_hash(left, right);
}

// SUBPROOF of RFC 6962, section 2.1.2, for the range [begin, end): `whole` while the old tree is a
// subtree that the verifier knows.
Status subproof(std::uint64_t old_end, std::uint64_t begin, std::uint64_t end, bool whole,
                const NodeReader& nodes, Proof& proof) {
  if (old_end == end) {
    if (whole) return ok_status();
    TRY(const Hash256 root, range_root(begin, end, nodes));
    proof.push_back(root);
    return ok_status();
  }
  const std::uint64_t middle = begin + split_of(end - begin);
  if (old_end <= middle) {
    TRY_VOID(subproof(old_end, begin, middle, whole, nodes, proof));
    TRY(const Hash256 right, range_root(middle, end, nodes));
    proof.push_back(right);
    return ok_status();
  }
  TRY_VOID(subproof(old_end, middle, end, false, nodes, proof));
  TRY(const Hash256 left, range_root(begin, middle, nodes));
  proof.push_back(left);
  return ok_status();
}

Error wrong_length(const char* what, std::size_t has) {
  return Error::invalid(what, " of ", has,
                        " hashes does not have the length that the two sizes give");
}

}  // namespace

Hash256 leaf_hash(ByteSpan entry) { return sha256({kLeaf, entry}); }

Hash256 node_hash(const Hash256& left, const Hash256& right) {
  return sha256({kNode, left.bytes, right.bytes});
}

Hash256 empty_root() { return sha256({}); }

Hash256 subtree_root(std::span<const Hash256> leaves) {
  if (leaves.empty()) return empty_root();
  if (leaves.size() == 1) return leaves.front();
  const std::size_t middle = split_of(leaves.size());
  return node_hash(subtree_root(leaves.first(middle)), subtree_root(leaves.subspan(middle)));
}

Result<Hash256> tree_root(std::uint64_t size, const NodeReader& nodes) {
  if (size == 0) return empty_root();
  return range_root(0, size, nodes);
}

Result<Proof> inclusion_proof(std::uint64_t index, std::uint64_t size, const NodeReader& nodes) {
  REQUIRE(index < size, "entry ", index, " of a log of ", size, " entries");
  Proof proof;
  std::uint64_t begin = 0;
  std::uint64_t end = size;
  while (end - begin > 1) {
    const std::uint64_t middle = begin + split_of(end - begin);
    const bool left = index < middle;
    TRY(const Hash256 sibling,
        left ? range_root(middle, end, nodes) : range_root(begin, middle, nodes));
    proof.push_back(sibling);
    (left ? end : begin) = middle;
  }
  std::reverse(proof.begin(), proof.end());
  return proof;
}

Result<Proof> consistency_proof(std::uint64_t old_size, std::uint64_t size,
                                const NodeReader& nodes) {
  REQUIRE(old_size <= size, "a log of ", size, " entries does not extend one of ", old_size);
  Proof proof;
  if (old_size == 0 || old_size == size) return proof;
  TRY_VOID(subproof(old_size, 0, size, true, nodes, proof));
  return proof;
}

Status check_inclusion(const Hash256& leaf, std::uint64_t index, std::uint64_t size,
                       const Proof& proof, const Hash256& root) {
  REQUIRE(index < size, "entry ", index, " of a log of ", size, " entries");
  // RFC 9162, section 2.1.3.2: `last` is the last node of the level at which `at` stands.
  std::uint64_t at = index;
  std::uint64_t last = size - 1;
  Hash256 hash = leaf;
  for (const Hash256& sibling : proof) {
    if (last == 0) return wrong_length("an inclusion proof", proof.size());
    if ((at & 1) != 0 || at == last) {
      hash = node_hash(sibling, hash);
      while ((at & 1) == 0 && at != 0) {
        at >>= 1;
        last >>= 1;
      }
    } else {
      hash = node_hash(hash, sibling);
    }
    at >>= 1;
    last >>= 1;
  }
  if (last != 0) return wrong_length("an inclusion proof", proof.size());
  REQUIRE(hash == root, "the inclusion proof of entry ", index,
          " leads to another root than the checkpoint's");
  return ok_status();
}

Status check_consistency(std::uint64_t old_size, const Hash256& old_root, std::uint64_t size,
                         const Hash256& root, const Proof& proof) {
  REQUIRE(old_size <= size, "a log of ", size, " entries does not extend one of ", old_size);
  if (old_size == 0 || old_size == size) {
    if (!proof.empty()) return wrong_length("a consistency proof", proof.size());
    REQUIRE(old_root == (old_size == 0 ? empty_root() : root), "two checkpoints of ", old_size,
            " entries have two roots");
    return ok_status();
  }
  // RFC 9162, section 2.1.4.2.
  auto next = proof.begin();
  Hash256 old_hash = old_root;
  if (!std::has_single_bit(old_size)) {
    if (proof.empty()) return wrong_length("a consistency proof", proof.size());
    old_hash = *next++;
  }
  Hash256 hash = old_hash;
  std::uint64_t at = old_size - 1;
  std::uint64_t last = size - 1;
  while ((at & 1) != 0) {
    at >>= 1;
    last >>= 1;
  }
  for (; next != proof.end(); ++next) {
    if (last == 0) return wrong_length("a consistency proof", proof.size());
    if ((at & 1) != 0 || at == last) {
      old_hash = node_hash(*next, old_hash);
      hash = node_hash(*next, hash);
      while ((at & 1) == 0 && at != 0) {
        at >>= 1;
        last >>= 1;
      }
    } else {
      hash = node_hash(hash, *next);
    }
    at >>= 1;
    last >>= 1;
  }
  if (last != 0) return wrong_length("a consistency proof", proof.size());
  REQUIRE(old_hash == old_root && hash == root,
          "the consistency proof does not lead from the root of ", old_size, " entries to that of ",
          size);
  return ok_status();
}

Proof inclusion_path(std::uint64_t index, std::span<const Hash256> leaves) {
  INVARIANT(index < leaves.size(), "a path leads to a leaf that the tree has");
  Proof path;
  while (leaves.size() > 1) {
    const std::uint64_t middle = std::bit_floor(leaves.size() - 1);
    const bool is_left = index < middle;
    path.push_back(subtree_root(is_left ? leaves.subspan(middle) : leaves.first(middle)));
    leaves = is_left ? leaves.first(middle) : leaves.subspan(middle);
    if (!is_left) index -= middle;
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace hearth::ledger
