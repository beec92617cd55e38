#include "cli/escape.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(Escape, ControlsBecomeVisible) {
  EXPECT_EQ(escape_control("\x1b[2J\n\t\x7f"), "\\x1b[2J\\x0a\\x09\\x7f");
  EXPECT_EQ(escape_control(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escape_control("\xc2\x9b"
                           "2J"),
            "\\xc2\\x9b2J")
      << "the other way to write ESC [";
}

TEST(Escape, TextStaysAsItIs) {
  EXPECT_EQ(escape_control(""), "");
  EXPECT_EQ(escape_control("größer als 10 \xc2\xa0€ ✓"), "größer als 10 \xc2\xa0€ ✓");
  EXPECT_EQ(escape_control("\xc2"), "\xc2");
}

}  // namespace
}  // namespace hearth::cli
