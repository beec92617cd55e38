#include "coordinator/scheduling/prefix_map.h"

#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace hearth::coordinator {

void extend_chain(PrefixChain& chain, const Hash256& scope, std::span<const TokenId> tokens) {
  INVARIANT(chain.size() <= tokens.size() / kPrefixPage, "a chain is of the same tokens");
  for (std::size_t page = chain.size(); page < tokens.size() / kPrefixPage; ++page) {
    Bytes bytes;
    ByteWriter writer(bytes);
    if (chain.empty()) {
      writer.append(scope.bytes);
    } else {
      writer.write(chain.back());
    }
    for (const TokenId token : tokens.subspan(page * kPrefixPage, kPrefixPage)) {
      writer.write(token);
    }
    const Hash256 hash = blake2b(bytes);
    std::uint64_t link = 0;
    std::memcpy(&link, hash.bytes.data(), sizeof(link));
    chain.push_back(link);
  }
}

void PrefixMap::left(const PrefixChain& chain) {
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    const auto [found, fresh] = ages_.try_emplace(*link, next_);
    if (!fresh) by_age_.erase(std::exchange(found->second, next_));
    by_age_.emplace(next_++, *link);
  }
  while (ages_.size() > most_) {
    ages_.erase(by_age_.begin()->second);
    by_age_.erase(by_age_.begin());
  }
  INVARIANT(ages_.size() == by_age_.size(), "each page has one age");
}

std::uint32_t PrefixMap::found(const PrefixChain& chain) const {
  std::uint32_t pages = 0;
  while (pages < chain.size() && ages_.contains(chain[pages])) ++pages;
  return pages;
}

}  // namespace hearth::coordinator
