#include "cli/worker/known_rates.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

namespace hearth::cli {
namespace {

constexpr std::int64_t kNow = 1'790'000'000;
constexpr std::int64_t kDay = 24 * 3600;

class KnownRatesTest : public ::testing::Test {
 protected:
  KnownRatesTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hearth-rates-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~KnownRatesTest() override { std::filesystem::remove_all(folder_); }

  std::optional<node::StageRate> known(const RateSubject& subject, std::int64_t now = kNow) {
    return known_rate(folder_, subject, now);
  }

  const RateSubject subject_{"abc", "avx2", 2, 10e9};
  const node::StageRate rate_{1e-5, {1e-3, 4e-3}, {2e-3, 5e-3}};
  std::filesystem::path folder_;
};

TEST_F(KnownRatesTest, WhatWasKeptIsKnownOfTheSameSubjectAlone) {
  EXPECT_FALSE(known(subject_));
  keep_rate(folder_, subject_, rate_, kNow);
  const auto found = known(subject_);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->step_seconds, 1e-5);
  EXPECT_DOUBLE_EQ(found->layer.batch, 4e-3);
  EXPECT_DOUBLE_EQ(found->head.one, 2e-3);
  RateSubject other = subject_;
  other.threads = 3;
  EXPECT_FALSE(known(other));
  other = subject_;
  other.model = "abd";
  EXPECT_FALSE(known(other));
}

TEST_F(KnownRatesTest, OldFiguresAndThoseOfABusyMachineDoNotCount) {
  keep_rate(folder_, subject_, rate_, kNow);
  EXPECT_TRUE(known(subject_, kNow + 29 * kDay));
  EXPECT_FALSE(known(subject_, kNow + 31 * kDay));
  EXPECT_FALSE(known(subject_, kNow - 31 * kDay));
  RateSubject now = subject_;
  now.weight_bytes_per_second = 5e9;  // it is busy now
  EXPECT_TRUE(known(now));
  now.weight_bytes_per_second = 20e9;  // it was busy then
  EXPECT_FALSE(known(now));
}

TEST_F(KnownRatesTest, DamagedFilesAreUnknown) {
  keep_rate(folder_, subject_, rate_, kNow);
  const std::filesystem::path file = *std::filesystem::directory_iterator(folder_);
  std::string whole;
  std::getline(std::ifstream(file), whole, '\0');
  for (const std::string& text : {std::string(), whole.substr(0, whole.size() - 1), whole + "1\n",
                                  "nan" + whole, "-" + whole, std::string(1'000, '1')}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_FALSE(known(subject_)) << text;
  }
  std::ofstream(file, std::ios::trunc) << whole;
  EXPECT_TRUE(known(subject_));
}

}  // namespace
}  // namespace hearth::cli
