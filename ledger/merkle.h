// The Merkle tree of a log, as RFC 6962 (section 2.1) hashes it: SHA-256, a zero byte before an
// entry, a one byte before two hashes. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth::ledger {

Hash256 leaf_hash(ByteSpan entry);
Hash256 node_hash(const Hash256& left, const Hash256& right);
Hash256 empty_root();  // SHA-256 of nothing

// The root of a tree with these leaves, or of a subtree: any number but none.
Hash256 subtree_root(std::span<const Hash256> leaves);

// The hashes from the leaf's sibling up to the root's child, as in RFC 6962, section 2.1.1.
using Proof = std::vector<Hash256>;

// The proof that leaf `index` is one of these. index < leaves.size().
Proof inclusion_path(std::uint64_t index, std::span<const Hash256> leaves);

// The hash of entries [index << level, (index + 1) << level), all of which the tree has.
using NodeReader = std::function<Result<Hash256>(unsigned level, std::uint64_t index)>;

Result<Hash256> tree_root(std::uint64_t size, const NodeReader& nodes);
// kInvalidInput when index >= size.
Result<Proof> inclusion_proof(std::uint64_t index, std::uint64_t size, const NodeReader& nodes);
// kInvalidInput when old_size > size. Empty for an empty old tree and for equal sizes.
Result<Proof> consistency_proof(std::uint64_t old_size, std::uint64_t size,
                                const NodeReader& nodes);

// kInvalidInput says why the proof proves nothing.
Status check_inclusion(const Hash256& leaf, std::uint64_t index, std::uint64_t size,
                       const Proof& proof, const Hash256& root);
Status check_consistency(std::uint64_t old_size, const Hash256& old_root, std::uint64_t size,
                         const Hash256& root, const Proof& proof);

}  // namespace hearth::ledger
