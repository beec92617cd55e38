#include "ledger/merkle.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace hearth::ledger {
namespace {

std::vector<Hash256> leaves_of(std::uint64_t size) {
  std::vector<Hash256> leaves;
  for (std::uint64_t i = 0; i < size; ++i) leaves.push_back(leaf_hash(as_bytes(std::to_string(i))));
  return leaves;
}

NodeReader nodes_of(const std::vector<Hash256>& leaves) {
  return [&leaves](unsigned level, std::uint64_t index) -> Result<Hash256> {
    return subtree_root(std::span(leaves).subspan(index << level, std::size_t{1} << level));
  };
}

// The tree of the RFC's reference implementation: eight entries, and the root of every beginning.
TEST(Merkle, KnownAnswers) {
  const std::vector<const char*> entries = {"",
                                            "00",
                                            "10",
                                            "2021",
                                            "3031",
                                            "40414243",
                                            "5051525354555657",
                                            "606162636465666768696a6b6c6d6e6f"};
  const std::vector<const char*> roots = {
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
      "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
      "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
      "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
      "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
      "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  std::vector<Hash256> leaves;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    leaves.push_back(leaf_hash(*from_hex(entries[i])));
    EXPECT_EQ(subtree_root(leaves).hex(), roots[i]) << i;
    EXPECT_EQ(tree_root(leaves.size(), nodes_of(leaves))->hex(), roots[i]) << i;
  }
  EXPECT_EQ(empty_root().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// Every proof of every tree of up to 70 entries, and each of its hashes changed, taken and doubled.
TEST(Merkle, InclusionIsProvedAndNothingElse) {
  const std::vector<Hash256> all = leaves_of(70);
  for (std::uint64_t size = 1; size <= all.size(); ++size) {
    const std::vector<Hash256> leaves(all.begin(), all.begin() + static_cast<long>(size));
    const Hash256 root = subtree_root(leaves);
    for (std::uint64_t index = 0; index < size; ++index) {
      const Proof proof = *inclusion_proof(index, size, nodes_of(leaves));
      ASSERT_TRUE(check_inclusion(leaves[index], index, size, proof, root)) << index << "/" << size;
      EXPECT_FALSE(check_inclusion(all[(index + 1) % 70], index, size, proof, root));
      if (index + 1 < size) {
        EXPECT_FALSE(check_inclusion(leaves[index], index + 1, size, proof, root));
      }
      for (std::size_t i = 0; i < proof.size(); ++i) {
        Proof wrong = proof;
        wrong[i].bytes[31] ^= std::byte{1};
        EXPECT_FALSE(check_inclusion(leaves[index], index, size, wrong, root));
        wrong = proof;
        wrong.erase(wrong.begin() + static_cast<long>(i));
        EXPECT_FALSE(check_inclusion(leaves[index], index, size, wrong, root));
      }
      Proof longer = proof;
      longer.push_back(root);
      EXPECT_FALSE(check_inclusion(leaves[index], index, size, longer, root));
    }
    EXPECT_FALSE(inclusion_proof(size, size, nodes_of(leaves)));
    EXPECT_FALSE(check_inclusion(leaves[0], size, size, {}, root));
  }
}

TEST(Merkle, ConsistencyIsProvedAndNothingElse) {
  const std::vector<Hash256> all = leaves_of(70);
  for (std::uint64_t size = 0; size <= all.size(); ++size) {
    const std::vector<Hash256> leaves(all.begin(), all.begin() + static_cast<long>(size));
    const Hash256 root = subtree_root(leaves);
    for (std::uint64_t old_size = 0; old_size <= size; ++old_size) {
      const Hash256 old_root = subtree_root(std::span(leaves).first(old_size));
      const Proof proof = *consistency_proof(old_size, size, nodes_of(leaves));
      ASSERT_TRUE(check_consistency(old_size, old_root, size, root, proof))
          << old_size << " " << size;
      Hash256 other = old_root;
      other.bytes[0] ^= std::byte{1};
      EXPECT_FALSE(check_consistency(old_size, other, size, root, proof));
      if (old_size > 0 && old_size < size) {
        other = root;
        other.bytes[0] ^= std::byte{1};
        EXPECT_FALSE(check_consistency(old_size, old_root, size, other, proof));
      }
      for (std::size_t i = 0; i < proof.size(); ++i) {
        Proof wrong = proof;
        wrong[i].bytes[0] ^= std::byte{1};
        EXPECT_FALSE(check_consistency(old_size, old_root, size, root, wrong));
        wrong = proof;
        wrong.erase(wrong.begin() + static_cast<long>(i));
        EXPECT_FALSE(check_consistency(old_size, old_root, size, root, wrong));
      }
      Proof longer = proof;
      longer.push_back(root);
      EXPECT_FALSE(check_consistency(old_size, old_root, size, root, longer));
    }
    EXPECT_FALSE(consistency_proof(size + 1, size, nodes_of(leaves)));
    EXPECT_FALSE(check_consistency(size + 1, root, size, root, {}));
  }
}

TEST(Merkle, APathAmongLeavesProvesEachOfThem) {
  for (const std::size_t size : {1U, 2U, 3U, 37U, 128U, 129U}) {
    std::vector<Hash256> leaves;
    for (std::size_t i = 0; i < size; ++i) leaves.push_back(leaf_hash(as_bytes(std::to_string(i))));
    const Hash256 root = subtree_root(leaves);
    for (std::size_t index = 0; index < size; ++index) {
      const Proof path = inclusion_path(index, leaves);
      EXPECT_TRUE(check_inclusion(leaves[index], index, size, path, root).ok());
      EXPECT_EQ(path, *inclusion_proof(index, size, nodes_of(leaves)));
    }
  }
}

}  // namespace
}  // namespace hearth::ledger
