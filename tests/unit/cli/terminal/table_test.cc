#include "cli/terminal/table.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

using TableLines = std::vector<std::string>;

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"NODE", "STATE"});
  table.add({"attic-of-the-house", "free"});
  table.add({"den", "serving"});
  EXPECT_EQ(table.lines(), (TableLines{"NODE                STATE", "attic-of-the-house  free",
                                       "den                 serving"}));
}

TEST(Table, CountsCharactersAndEscapesControls) {
  Table table({"A", "B"});
  table.add({"größe", "x"});
  table.add({"\x1b[2J", "y"});
  EXPECT_EQ(table.lines(), (TableLines{"A        B", "größe    x", "\\x1b[2J  y"}));
}

TEST(Table, ClipsAtCharacters) {
  EXPECT_EQ(text_columns(""), 0U);
  EXPECT_EQ(text_columns("äö"), 2U);
  EXPECT_EQ(clip_columns("äöü", 2), "äö");
  EXPECT_EQ(clip_columns("äöü", 3), "äöü");
  EXPECT_EQ(clip_columns("abc", 0), "");
  EXPECT_EQ(clip_columns("abc", 9), "abc");
}

}  // namespace
}  // namespace hearth::cli
