#include "ledger/dispute/compare_windows.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "ledger/dispute/verdict.h"
#include "ledger/receipt.h"
#include "proto/committed_sampling.h"

namespace hearth::ledger {
namespace {

Hash256 root(const std::string& text) { return blake2b(as_bytes(text)); }

// Two windows of three stages; the second has two positions.
struct CompareWindowsTest : ::testing::Test {
  CompareWindowsTest() {
    request.salt = root("salt");
    request.split = {{0, 1}, {1, 2}, {2, 3}};
    request.prompt.assign(limits::kWindowPositions - 1, 5);
    request.answer = {6, 7, 8, 9};
    request.positions = limits::kWindowPositions + 2;
    finding.sampled = request.answer;
    finding.tokens = request.answer;
    for (std::uint32_t w = 0; w < 2; ++w) {
      const std::string name = std::to_string(w);
      finding.windows[w] = {root("a" + name), root("b" + name), commitment(w, request.answer)};
    }
    disputed.claimed = finding.windows;
    disputed.place = {1, 1};
    disputed.auditor = finding.windows[1][1];
  }
  Hash256 commitment(std::uint32_t window, const std::vector<TokenId>& answer) const {
    std::vector<std::uint32_t> tokens(request.prompt.begin(), request.prompt.end());
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    const std::uint32_t first = window * limits::kWindowPositions;
    const std::uint32_t count = window == 0 ? limits::kWindowPositions : 2;
    return commit_tokens(request.salt, first, std::span(tokens).subspan(first, count),
                         encode_committed(request.sampling));
  }
  Result<Ruling> ruling(const RefereeFinding* audited = nullptr) const {
    return rule(disputed, request, finding, audited);
  }

  RefereeCase request;
  RefereeFinding finding;
  DisputedRoots disputed;
};

TEST_F(CompareWindowsTest, TheFirstDifferenceIsByWindowThenByStage) {
  WindowRoots claimed = finding.windows;
  EXPECT_FALSE(first_difference(claimed, finding.windows, 3));
  claimed[1][0] = root("false");
  claimed[0][2] = root("false");
  EXPECT_EQ(first_difference(claimed, finding.windows, 3), (WindowPlace{0, 2}));
  EXPECT_EQ(first_difference(claimed, finding.windows, 2), (WindowPlace{1, 0}));
  claimed.erase(0);
  EXPECT_EQ(first_difference(claimed, finding.windows, 1), (WindowPlace{0, 0})) << "not claimed";
}

TEST_F(CompareWindowsTest, AFindingHasTheRequestsWindowsAndNoOthers) {
  EXPECT_TRUE(check_same_windows(disputed.claimed, finding.windows, 3));
  EXPECT_FALSE(check_same_windows(disputed.claimed, finding.windows, 2));
  EXPECT_TRUE(ruling());
  finding.windows[2] = finding.windows[1];
  EXPECT_FALSE(check_same_windows(disputed.claimed, finding.windows, 3));
  ASSERT_FALSE(ruling());
  EXPECT_EQ(ruling().error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(ruling().error().message.find("window 2"), std::string::npos);
  finding.windows.erase(2);
  finding.windows[1].pop_back();
  EXPECT_FALSE(ruling()) << "a stage is missing";
  finding.windows.clear();
  EXPECT_FALSE(ruling()) << "nothing was computed";
  disputed.place = {7, 0};
  EXPECT_FALSE(ruling()) << "a place that the request has not";
}

TEST_F(CompareWindowsTest, TrueRootsCommitToTheTrueTokens) {
  EXPECT_EQ(true_roots(request, finding), finding.windows);
  EXPECT_EQ(first_false_token(request, finding), request.prompt.size() + 4);
  // The token at the second position of window 1 is another one.
  finding.sampled = {6, 7, 1, 9};
  finding.tokens = {6, 7, 1, 2};
  EXPECT_EQ(first_false_token(request, finding), std::size_t{limits::kWindowPositions} + 1);
  const WindowRoots truth = true_roots(request, finding);
  EXPECT_EQ(truth.at(0), finding.windows.at(0));
  EXPECT_EQ(truth.at(1)[1], finding.windows.at(1)[1]);
  EXPECT_EQ(truth.at(1)[2], commitment(1, finding.tokens));
  // The last token was never fed: no commitment has it.
  finding.sampled = {6, 7, 8, 1};
  finding.tokens = finding.sampled;
  EXPECT_EQ(true_roots(request, finding), finding.windows);
}

TEST_F(CompareWindowsTest, OfTheTwoSidesTheOneWithAnotherRootIsFalse) {
  EXPECT_EQ(ruling()->who, Ruling::False::kAuditor);
  disputed.claimed[1][1] = root("false");
  EXPECT_EQ(ruling()->who, Ruling::False::kWorker);
  EXPECT_FALSE(ruling()->is_alone);
  EXPECT_EQ(ruling()->truth, finding.windows[1][1]);
  disputed.auditor = root("something else");
  EXPECT_TRUE(ruling()->is_alone);
  disputed.claimed[0][1] = root("false");
  EXPECT_EQ(ruling()->who, Ruling::False::kNobody) << "both had false input";
  EXPECT_NE(ruling()->why.find("window 0, stage 1"), std::string::npos);
}

TEST_F(CompareWindowsTest, ALastStageIsJudgedByItsTokens) {
  disputed.place = {1, 2};
  disputed.auditor = root("other tokens");
  disputed.generated = finding.windows;
  EXPECT_TRUE(ruling()->wants_audited);
  RefereeFinding audited = finding;
  EXPECT_EQ(ruling(&audited)->who, Ruling::False::kAuditor);
  (*disputed.generated)[1][0] = root("false");
  EXPECT_EQ(ruling(&audited)->who, Ruling::False::kNobody) << "a lie further up in its pipeline";
  audited.windows[1].pop_back();
  EXPECT_FALSE(ruling(&audited));
  finding.sampled = {6, 1, 8, 9};
  finding.tokens = {6, 1};
  finding.is_cut = true;
  EXPECT_EQ(ruling()->who, Ruling::False::kWorker) << "its token is not the model's";
  EXPECT_NE(ruling()->truth, disputed.claimed[1][2]);
}

}  // namespace
}  // namespace hearth::ledger
