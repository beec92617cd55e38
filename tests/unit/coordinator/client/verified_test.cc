#include "coordinator/client/verified.h"

#include <gtest/gtest.h>

namespace hearth::client {
namespace {

using Json = nlohmann::json;

TEST(Verified, WhatIsNotSaidIsNothing) {
  const Verified none = read_verified(Json::object());
  EXPECT_EQ(none.state, "");
  EXPECT_EQ(none.sentence, "");
  EXPECT_TRUE(none.object.is_null());
  EXPECT_EQ(read_verified(Json::parse(R"({"verified": {"state": "by_draw"}})")).sentence, "");
}

TEST(Verified, HowManyWindowsAndOthersIsSaid) {
  const Verified all = read_verified(Json::parse(R"({"verified": {"state": "verified", "windows": [
      {"choice": 0, "stage": 0, "window": 0, "entry": 4, "others": 2},
      {"choice": 0, "stage": 1, "window": 0, "entry": 5, "others": 1}]}})"));
  EXPECT_EQ(all.sentence,
            "verified: all 2 windows were recomputed, each by at least 1 other node, with the same "
            "result");
  EXPECT_FALSE(all.is_doubtful());
}

TEST(Verified, WhyItIsNotIsSaidSafely) {
  const Verified none =
      read_verified(Json::parse(R"({"verified": {"state": "unverified", "why": "a\u001bb"}})"));
  EXPECT_EQ(none.sentence,
            "not verified: a\x1b"
            "b");
  EXPECT_FALSE(none.is_doubtful());
}

TEST(Verified, ADisputeNamesItsPlace) {
  const Verified open = read_verified(Json::parse(R"({"verified": {"state": "disputed",
      "disputed": [{"choice": 0, "stage": 1, "window": 2, "entry": 9}]}})"));
  EXPECT_TRUE(open.is_doubtful());
  EXPECT_EQ(open.sentence,
            "in dispute: an auditor has another result for stage 2, window 2 (entry 9 of the "
            "ledger); there is no verdict yet");
}

TEST(Verified, ARetractedAnswerBringsTheRightOne) {
  const Verified bad = read_verified(Json::parse(R"({"verified": {"state": "retracted"},
      "retracted": [{"choice": 0, "from_token": 3, "stage": 0, "window": 0, "entry": 7}],
      "corrected": [{"choice": 1, "text": "other"},
                    {"choice": 0, "text": "right", "token_ids": [1, 2], "finish_reason": "stop"}]
      })"));
  EXPECT_TRUE(bad.is_doubtful());
  EXPECT_EQ(
      bad.sentence,
      "retracted from token 3 on: stage 1, window 0 (entry 7 of the ledger) has a false result");
  ASSERT_TRUE(bad.right);
  EXPECT_EQ(bad.right->text, "right");
  EXPECT_EQ(bad.right->token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(bad.object.contains("retracted"));
  const Verified same = read_verified(Json::parse(R"({"verified": {"state": "retracted"},
      "retracted": [{"from_token": null, "stage": 0, "window": 0, "entry": 7}]})"));
  EXPECT_FALSE(same.right);
  EXPECT_NE(same.sentence.find("the answer's tokens are right"), std::string::npos);
}

TEST(Verified, WhatIsNoneIsRefused) {
  EXPECT_THROW(read_verified(Json::parse(R"({"verified": 3})")), Json::exception);
  EXPECT_THROW(read_verified(Json::parse(R"({"verified": {"state": "retracted"}})")),
               Json::exception);
}

}  // namespace
}  // namespace hearth::client
