#include "model/text/merge.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/random.h"

namespace hearth::model {
namespace {

using Values = std::vector<std::uint32_t>;
using Table =
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>>;

// Random merges over few symbols, so that equal ranks, ranks below the one that made them and
// long chains of them all occur.
Table random_table(SeededRandom& random, std::uint32_t symbols) {
  Table table;
  const std::uint32_t ranks = 1 + static_cast<std::uint32_t>(random.next() % 12);
  for (std::uint32_t left = 0; left < symbols; ++left) {
    for (std::uint32_t right = 0; right < symbols; ++right) {
      if (random.next() % 3 == 0) continue;
      const auto rank = static_cast<std::uint32_t>(random.next() % ranks);
      table[{left, right}] = {rank, static_cast<std::uint32_t>(random.next() % symbols)};
    }
  }
  return table;
}

Values merged(const Values& values, const Table& table, bool as_long) {
  MergeList list;
  for (const std::uint32_t value : values) list.nodes.push_back({.value = value});
  const auto find = [&](std::uint32_t left, std::uint32_t right) {
    return table.find({list.nodes[left].value, list.nodes[right].value});
  };
  const auto rank = [&](std::uint32_t left, std::uint32_t right) {
    const auto found = find(left, right);
    return found == table.end() ? kNoRank : found->second.first;
  };
  const auto join = [&](std::uint32_t left, std::uint32_t right) {
    list.nodes[left].value = find(left, right)->second.second;
  };
  if (as_long) {
    list.run_long(rank, join);
  } else {
    list.run_short(rank, join);
  }
  Values left;
  for (std::uint32_t i = values.empty() ? kNoNode : 0; i != kNoNode; i = list.nodes[i].next) {
    left.push_back(list.nodes[i].value);
  }
  return left;
}

Values by_definition(Values values, const Table& table) {
  for (;;) {
    std::size_t best = values.size();
    std::uint32_t lowest = kNoRank;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const auto found = table.find({values[i], values[i + 1]});
      if (found == table.end() || found->second.first >= lowest) continue;
      best = i;
      lowest = found->second.first;
    }
    if (best == values.size()) return values;
    values[best] = table.at({values[best], values[best + 1]}).second;
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeList, BothWaysMergeAsTheDefinitionSays) {
  SeededRandom random(11);
  for (int round = 0; round < 3000; ++round) {
    const auto symbols = static_cast<std::uint32_t>(2 + random.next() % 8);
    const Table table = random_table(random, symbols);
    Values values(random.next() % 60);
    for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random.next() % symbols);
    const Values expected = by_definition(values, table);
    ASSERT_EQ(merged(values, table, false), expected) << round;
    ASSERT_EQ(merged(values, table, true), expected) << round;
  }
}

TEST(MergeList, ARunOfOneSymbolHalvesFromTheLeft) {
  const Table table = {{{0, 0}, {5, 1}}, {{1, 1}, {3, 2}}};
  for (const std::size_t length : {0U, 1U, 2U, 7U, 20'000U}) {
    const Values left = merged(Values(length, 0), table, true);
    Values expected(length / 4, 2);
    if (length % 4 >= 2) expected.push_back(1);
    if (length % 2 == 1) expected.push_back(0);
    EXPECT_EQ(left, expected) << length;
  }
}

}  // namespace
}  // namespace hearth::model
