// PrefixMap: the coordinator's estimate of the prompt beginnings in the prefix caches of a
// pipeline's stages (node/engine/prefix_cache.h). It only influences where a request goes. A
// sequence is known by a chain of short hashes, one a page of 32 tokens, that begins with its
// scope. A plain state machine; bounded by the pipeline's pages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"

namespace hearth::coordinator {

using PrefixChain = std::vector<std::uint64_t>;  // one a whole page

inline constexpr std::uint32_t kPrefixPage = 32;  // tokens

// Continues the chain of the first tokens over all of them.
void extend_chain(PrefixChain& chain, const Hash256& scope, std::span<const TokenId> tokens);

class PrefixMap {
 public:
  explicit PrefixMap(std::uint32_t pages);
  PrefixMap(PrefixMap&& other) noexcept;
  ~PrefixMap();

  // A sequence ended here: its end is evicted first and its beginning last.
  void left(const PrefixChain& chain);
  // The number of first whole pages that are present.
  std::uint32_t found(const PrefixChain& chain) const;
  std::size_t pages() const;

 private:
  struct Pages;  // keeps a header of Boost out of this one
  std::unique_ptr<Pages> pages_;
};

}  // namespace hearth::coordinator
