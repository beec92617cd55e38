#include "proto/away.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "proto/control.pb.h"

namespace hearth {
namespace {

TEST(Away, TravelsAsItIs) {
  control::v1::Heartbeat beat;
  EXPECT_FALSE(away_of(beat));
  const Away away{true, 1'700'000'000, "hearth drain"};
  write_away(away, *beat.mutable_away());
  EXPECT_EQ(away_of(beat), away);
  write_away({}, *beat.mutable_away());
  EXPECT_EQ(away_of(beat), Away{});
}

TEST(Away, ANodeSaysNothingThatSteersATerminalOrFillsIt) {
  control::v1::Away message;
  message.set_until(-5);
  message.set_why("a\x1b[2J\nb" + std::string(5'000, 'x'));
  const Away away = read_away(message);
  EXPECT_EQ(away.until, 0);
  EXPECT_TRUE(away.why.starts_with("a[2Jbx")) << away.why.substr(0, 20);
  EXPECT_LE(away.why.size(), limits::kReasonBytes);
}

}  // namespace
}  // namespace hearth
