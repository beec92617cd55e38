#include "coordinator/http/generation/event_id.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

TEST(EventIdTest, WhatIsWrittenIsRead) {
  EventId longest{UINT64_MAX,
                  std::vector<std::uint32_t>(limits::kHttpSequences, limits::kModelContext + 2),
                  true};
  EXPECT_LE(event_id_text(longest).size(), limits::kLastEventIdBytes);
  for (const EventId& id :
       {EventId{1, {0}}, EventId{0xabcULL << 48, {7, 0, 23}}, longest, EventId{5, {18}, true}}) {
    const auto read = parse_event_id(event_id_text(id));
    ASSERT_TRUE(read.has_value()) << event_id_text(id);
    EXPECT_EQ(*read, id);
  }
  EXPECT_EQ(event_id_text({0x3f2a9c0d1b7e4455, {18, 2}, true}), "3f2a9c0d1b7e4455-18.2u");
}

TEST(EventIdTest, EverythingElseIsNone) {
  std::string many = "0123456789abcdef-0";
  for (std::size_t i = 0; i < limits::kHttpSequences; ++i) many += ".0";
  for (const std::string& text :
       {std::string(), std::string("17"), std::string("0123456789abcdef"),
        std::string("0123456789abcdef-"), std::string("0123456789ABCDEF-1"),
        std::string("0123456789abcdef-01"), std::string("0123456789abcdef-1."),
        std::string("0123456789abcdef-.1"), std::string("0123456789abcdef-1..2"),
        std::string("0123456789abcdef--1"), std::string("0123456789abcdef-+1"),
        std::string("0123456789abcdef-1uu"), std::string("0123456789abcdef-4294967296"),
        std::string("0123456789abcdef-1 "), std::string("0123456789abcdeg-1"),
        std::string("0x23456789abcdef-1"), std::string("0123456789abcdef-1\0", 19),
        std::string(limits::kLastEventIdBytes + 1, '1'), many}) {
    EXPECT_FALSE(parse_event_id(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace hearth::coordinator::http
