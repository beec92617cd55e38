#include "cli/terminal/escape.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

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
}

TEST(Escape, WhatIsNoTextBecomesVisible) {
  EXPECT_EQ(escape_control("\xc2"), "\\xc2");
  EXPECT_EQ(escape_control("a\x9b\xff"
                           "b"),
            "a\\x9b\\xffb");
  EXPECT_EQ(escape_control("\xe2\x9c✓"), "\\xe2\\x9c✓") << "a character that was cut";
  EXPECT_EQ(escape_control("\xc0\xb1"), "\\xc0\\xb1") << "an overlong form";
}

TEST(Escape, NamesAreShownInTheirOrder) {
  EXPECT_EQ(escape_control("den\u202egnp.exe"), "den\\xe2\\x80\\xaegnp.exe");
  EXPECT_EQ(escape_control("\u2066\u2069"), "\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
  EXPECT_EQ(escape_control("\u2029\u202f\u2065\u206a"), "\u2029\u202f\u2065\u206a");
  EXPECT_EQ(escape_json("\u202e"), "\u202e") << "for programs";
}

TEST(Escape, LinesStayLines) {
  EXPECT_EQ(escape_lines("a\n\tb\x1b\r\xc2\x9b\xff✓"), "a\n\tb\\x1b\\x0d\\xc2\\x9b\\xff✓");
}

// What stands on stdout, where that is a terminal or a pipe, after the text was printed.
std::string printed(bool terminal, std::string_view text) {
  int ends[2] = {-1, -1};
  if (terminal) {
    EXPECT_EQ(openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
    termios raw{};
    tcgetattr(ends[1], &raw);
    cfmakeraw(&raw);  // line breaks stay as they are
    tcsetattr(ends[1], TCSANOW, &raw);
  } else {
    EXPECT_EQ(pipe(ends), 0);
  }
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  print_foreign(text);
  dup2(before, STDOUT_FILENO);
  char seen[256];
  const ssize_t bytes = read(ends[0], seen, sizeof seen);
  for (const int fd : {before, ends[0], ends[1]}) close(fd);
  return {seen, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

TEST(Escape, ForeignTextSteersNoTerminal) {
  const std::string text =
      "a\tb\n\x1b]0;x\x07\xc2\x9b"
      "2J ✓";
  EXPECT_EQ(printed(true, text), "a\tb\n\\x1b]0;x\\x07\\xc2\\x9b2J ✓");
  EXPECT_EQ(printed(false, text), text) << "a file gets it as it is";
}

TEST(Escape, JsonSaysTheSame) {
  EXPECT_EQ(escape_json("{\n  \"a\": \"\xc2\x9b\x7f\xc2\xa0✓\"}"),
            "{\n  \"a\": \"\\u009b\\u007f\xc2\xa0✓\"}");
}

}  // namespace
}  // namespace hearth::cli
