#include "cli/command/nearest.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(EditDistance, CountsWhatATypistDoes) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("run", "run"), 0U);
  EXPECT_EQ(edit_distance("rnu", "run"), 1U);  // swapped
  EXPECT_EQ(edit_distance("runn", "run"), 1U);
  EXPECT_EQ(edit_distance("ru", "run"), 1U);
  EXPECT_EQ(edit_distance("ran", "run"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(DidYouMean, NamesTheNearest) {
  const std::vector<std::string> verbs = {"run", "status", "serve", "ps"};
  EXPECT_EQ(did_you_mean("stauts", verbs), "; did you mean 'status'?");
  EXPECT_EQ(did_you_mean("p", verbs), "; did you mean 'ps'?");
  EXPECT_EQ(did_you_mean("serv", verbs), "; did you mean 'serve'?");
}

TEST(DidYouMean, NamesNothingWhenNoneIsNear) {
  EXPECT_EQ(did_you_mean("bogus", {"run", "status", "serve", "ps"}), "");
  EXPECT_EQ(did_you_mean("update", {"plan", "pause", "leave"}), "");
  EXPECT_EQ(did_you_mean("-n", {"--json", "--help", "--host"}), "");
  EXPECT_EQ(did_you_mean("bogus", {"x"}), "");
  EXPECT_EQ(did_you_mean("bogus", {}), "");
}

TEST(DidYouMean, AVeryLongWordIsCutFirst) {
  const std::string known(60, 'a');
  EXPECT_EQ(did_you_mean(std::string(1 << 20, 'a'), {known}), "; did you mean '" + known + "'?");
}

}  // namespace
}  // namespace hearth::cli
