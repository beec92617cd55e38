#include "cli/terminal/screen.h"

#include <gtest/gtest.h>

#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

TEST(Screen, DrawsOverWhatStandsThereAndClearsTheRest) {
  EXPECT_EQ(screen_bytes({"ab", "c"}, 80, 24), "\033[Hab\033[K\nc\033[K\n\033[J");
  EXPECT_EQ(screen_bytes({}, 80, 24), "\033[H\033[J");
}

TEST(Screen, FitsTheTerminal) {
  EXPECT_EQ(screen_bytes({"abcd"}, 3, 24), "\033[Habc\033[K\n\033[J");
  EXPECT_EQ(screen_bytes({"1", "2", "3"}, 80, 4), "\033[H1\033[K\n2\033[K\n3\033[K\n\033[J");
  EXPECT_EQ(screen_bytes({"1", "2", "3", "4"}, 80, 4),
            "\033[H1\033[K\n2\033[K\n... 2 lines more\033[K\n\033[J");
  EXPECT_EQ(screen_bytes({"1", "2"}, 80, 0), "\033[H... 2 lines more\033[K\n\033[J");
}

// stdout of a test is no terminal: pictures stand below one another.
TEST(Watch, DrawsAsManyAsAskedFor) {
  int asked = 0;
  ::testing::internal::CaptureStdout();
  const int code = watch({0.05, 3, true}, [&]() -> Result<Lines> {
    return Lines{"picture", std::to_string(++asked)};
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "picture\n1\n\npicture\n2\n\npicture\n3\n");
  EXPECT_EQ(code, kExitDone);
}

TEST(Watch, LinesOfOneAreNotSetApart) {
  ::testing::internal::CaptureStdout();
  watch({0.05, 2, true}, []() -> Result<Lines> { return Lines{"{}"}; });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "{}\n{}\n");
}

TEST(Watch, EndsWhereTheFirstFailsAndGoesOnWhereALaterOneDoes) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(watch({0.05, 2, true},
                  []() -> Result<Lines> {
                    return Error{ErrorCode::kUnavailable, "no answer"};
                  }),
            kExitUnreachable);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "hearth: no answer\n");
  for (const bool plain : {true, false}) {
    int asked = 0;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = watch({0.05, 3, plain}, [&]() -> Result<Lines> {
      if (++asked == 2) return Error{ErrorCode::kUnavailable, "gone\x1b[2J"};
      return Lines{std::to_string(asked)};
    });
    const std::string why = "hearth: gone\\x1b[2J; retrying\n";
    EXPECT_EQ(::testing::internal::GetCapturedStdout(),
              plain ? "1\n3\n" : "1\n\n1\n" + why + "3\n");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), plain ? why : "");
    EXPECT_EQ(code, kExitDone);
  }
}

TEST(Watch, ARefusalIsTheEnd) {
  int asked = 0;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = watch({0.05, 9, true}, [&]() -> Result<Lines> {
    if (++asked == 2) return Error{ErrorCode::kRefused, "revoked"};
    return Lines{"1"};
  });
  ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "hearth: revoked\n");
  EXPECT_EQ(code, kExitRefused);
}

}  // namespace
}  // namespace hearth::cli
