#include "coordinator/scheduling/prefix_map.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstring>
#include <deque>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace hearth::coordinator {
namespace {

// Entries of pages that became younger: at most so many and half of all.
constexpr std::size_t kSkipped = 1'024;

}  // namespace

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

struct PrefixMap::Pages {
  using Aged = std::pair<std::uint64_t, std::uint64_t>;  // page, age

  bool is_newest(const Aged& page) const {
    const auto found = ages.find(page.first);
    return found != ages.end() && found->second == page.second;
  }

  std::uint32_t most;
  boost::unordered_flat_map<std::uint64_t, std::uint64_t> ages = {};
  // The oldest first. An entry whose page has become younger since is skipped.
  std::deque<Aged> by_age = {};
  std::uint64_t next = 0;
};

PrefixMap::PrefixMap(std::uint32_t pages) : pages_(new Pages{pages}) {}
PrefixMap::PrefixMap(PrefixMap&& other) noexcept = default;
PrefixMap::~PrefixMap() = default;

void PrefixMap::left(const PrefixChain& chain) {
  Pages& all = *pages_;
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    all.ages[*link] = all.next;
    all.by_age.emplace_back(*link, all.next++);
  }
  while (all.ages.size() > all.most) {
    if (all.is_newest(all.by_age.front())) all.ages.erase(all.by_age.front().first);
    all.by_age.pop_front();
  }
  if (all.by_age.size() <= 2 * all.ages.size() + kSkipped) return;
  std::erase_if(all.by_age, [&all](const Pages::Aged& page) { return !all.is_newest(page); });
  INVARIANT(all.ages.size() == all.by_age.size(), "each page has one newest age");
}

// left() makes a page younger than those behind it in every chain, so where one is present, all
// before it are. Most pipelines have not even the first one.
std::uint32_t PrefixMap::found(const PrefixChain& chain) const {
  const auto& ages = pages_->ages;
  if (chain.empty() || !ages.contains(chain.front())) return 0;
  const auto gone = std::ranges::partition_point(
      chain, [&ages](std::uint64_t link) { return ages.contains(link); });
  return static_cast<std::uint32_t>(gone - chain.begin());
}

std::size_t PrefixMap::pages() const { return pages_->ages.size(); }

}  // namespace hearth::coordinator
