#include "ledger/policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace hearth::ledger {
namespace {

TEST(Policy, TheTableHasEveryField) {
  EXPECT_EQ(policy_table().size() * sizeof(std::int64_t), sizeof(Policy));
  Policy policy;
  std::set<std::string_view> names;
  std::set<Hash256> hashes{policy_hash(policy)};
  for (const PolicyRow& row : policy_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.unit.empty() || row.why.empty()) << row.name;
    policy.*row.field += 1;
    EXPECT_TRUE(hashes.insert(policy_hash(policy)).second) << row.name << " changes the hash";
  }
}

// The table of the study behind these values: g = 0.7, q = 0.
TEST(Policy, TheInequalityIsThePublishedOne) {
  Policy policy;
  policy.assumed_collusion = 0;
  for (const auto& [rate, least] :
       {std::pair{20'000, 34.0}, {50'000, 13.0}, {100'000, 6.0}, {300'000, 1.3333}}) {
    policy.veteran_rate = rate;
    EXPECT_NEAR(deterrence(policy, Level::kVeteran).required, least, 0.001) << rate;
  }
}

TEST(Policy, NoLevelCanAffordToCheat) {
  for (const Level level : {Level::kProbation, Level::kRegular, Level::kVeteran}) {
    const Deterrence found = deterrence(Policy(), level);
    EXPECT_GT(found.margin(), 2.0) << level_name(level);
    EXPECT_GE(found.rate, 30'000) << "a floor of 3 %";
    EXPECT_GT(static_cast<double>(found.fault), 2 * found.required_fault)
        << "to concede is no way out, for two neighbours neither";
  }
  Policy careless;
  careless.veteran_rate = 3'000;
  EXPECT_LT(deterrence(careless, Level::kVeteran).margin(), 1.0) << "0.3 % would not do";
}

// g = 0.7, q = 0.33, and 2.2 times that: 2.2985 where the window's pay is all that is in escrow.
TEST(Policy, WhatPaysMuchBesideTheEscrowIsAuditedMore) {
  const Policy policy;
  EXPECT_EQ(stake_rate(policy, 100, 100), kMillion);
  EXPECT_EQ(stake_rate(policy, 100, 1'000), 229'850);
  EXPECT_EQ(stake_rate(policy, 100, 8'000), 28'731);
  EXPECT_EQ(stake_rate(policy, 100, 1'000'000), 28'731) << "a fault takes no more";
  EXPECT_LE(stake_rate(policy, 1, 80), policy.veteran_rate) << "who has enough feels nothing";
  EXPECT_EQ(stake_rate(policy, 100, 0), kMillion);
  EXPECT_EQ(stake_rate(policy, 0, 0), 0) << "a ledger that is a log only";
  EXPECT_EQ(stake_rate(policy, std::int64_t{1} << 50, std::int64_t{1} << 52), 574'626);
}

// An all-cheating streak as long as the escrow survives its audits with less than the text says.
TEST(Policy, TheEscrowOutlastsLuck) {
  const Policy policy;
  const double p = static_cast<double>(policy.regular_rate_floor) / kMillion;
  EXPECT_LT(std::pow(1 - p, static_cast<double>(policy.escrow_windows)), 4e-5);
}

}  // namespace
}  // namespace hearth::ledger
