#include "cli/doctor/update.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hearth::cli {
namespace {

constexpr std::int64_t kNewYear = 1'798'761'600;  // 2027-01-01 00:00 UTC

Release sample() {
  using namespace std::chrono;
  return {{0, 2, 0},
          2026y / 12 / 1,
          2027y / 1 / 1,
          "Answers come faster.",
          {{Hash256{}, 12'345'678, "hearth.deb"}}};
}

TEST(Update, NamesTheReleaseAndItsFiles) {
  const auto said = compare_release(sample(), {0, 1, 9}, kNewYear, false);
  ASSERT_TRUE(said.ok());
  for (const char* part : {"hearth 0.2.0 of 2026-12-01 is out", "this program is 0.1.9",
                           "hearth.deb", "Answers come faster.", "sha256sum"}) {
    EXPECT_NE(said->find(part), std::string::npos) << part << " in " << *said;
  }
  EXPECT_NE(said->find(std::string(64, '0')), std::string::npos);
}

TEST(Update, SaysThatThereIsNothingNewer) {
  EXPECT_NE(compare_release(sample(), {0, 2, 0}, kNewYear, false)->find("is the newest"),
            std::string::npos);
  EXPECT_NE(compare_release(sample(), {0, 3, 0}, kNewYear, false)->find("is newer than"),
            std::string::npos);
}

TEST(Update, AnOldManifestIsRefused) {
  constexpr std::int64_t kDay = 24 * 3'600;
  EXPECT_TRUE(compare_release(sample(), {0, 2, 0}, kNewYear + kDay - 1, false).ok())
      << "the last day";
  const auto late = compare_release(sample(), {0, 2, 0}, kNewYear + kDay, true);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kRefused);
  EXPECT_NE(late.error().message.find("2027-01-01"), std::string::npos);
}

TEST(Update, JsonHasEverything) {
  const auto json = nlohmann::json::parse(*compare_release(sample(), {0, 1, 0}, kNewYear, true));
  EXPECT_EQ(json["current"], "0.1.0");
  EXPECT_EQ(json["newest"], "0.2.0");
  EXPECT_EQ(json["newer"], true);
  EXPECT_EQ(json["until"], "2027-01-01");
  EXPECT_EQ(json["files"][0]["bytes"], 12'345'678);
  const auto same = nlohmann::json::parse(*compare_release(sample(), {0, 2, 0}, kNewYear, true));
  EXPECT_EQ(same["newer"], false);
}

TEST(Update, ChecksItsWordsBeforeItReadsAnything) {
  const auto refused = [](const UpdateOptions& options) {
    const auto done = run_update(options);
    return done.ok() ? "" : done.error().message;
  };
  const std::string key = SecretKey::generate().public_key().hex();
  EXPECT_NE(refused({false, "", key, false}).find("--check"), std::string::npos);
  EXPECT_NE(refused({true, "x", "00", false}).find("64"), std::string::npos);
  EXPECT_NE(refused({true, "x", std::string(64, '0'), false}).find("Ed25519"), std::string::npos);
  EXPECT_NE(refused({true, "http://example.org/x", key, false}).find("https://"),
            std::string::npos);
  EXPECT_NE(refused({true, "/no/such/file", key, false}).find("/no/such/file"), std::string::npos);
}

}  // namespace
}  // namespace hearth::cli
