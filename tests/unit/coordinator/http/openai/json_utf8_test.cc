// Every border of UTF-8 and of the JSON bounds, against a decoder written from the definition.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/random.h"
#include "coordinator/http/openai/json.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::coordinator::http {
namespace {

std::string encode(std::uint32_t code) {
  std::string out;
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
  return out;
}

// By decoding each sequence and encoding its value again: only the shortest form comes back.
bool oracle_valid(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const std::size_t length = byte(0) < 0x80   ? 1
                               : byte(0) < 0xC0 ? 0
                               : byte(0) < 0xE0 ? 2
                               : byte(0) < 0xF0 ? 3
                               : byte(0) < 0xF8 ? 4
                                                : 0;
    if (length == 0 || at + length > text.size()) return false;
    std::uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
      code = code << 6 | (byte(i) & 0x3FU);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    if (encode(code) != text.substr(at, length)) return false;
    at += length;
  }
  return true;
}

TEST(JsonUtf8, EveryCodePointAtABorderPasses) {
  for (const std::uint32_t border :
       {0x20U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xFFFU, 0x1000U, 0xCFFFU, 0xD000U, 0xD7FFU, 0xE000U,
        0xFFFDU, 0xFFFFU, 0x10000U, 0x3FFFFU, 0x40000U, 0xFFFFFU, 0x100000U, 0x10FFFFU}) {
    const std::string text = encode(border);
    EXPECT_TRUE(model::is_utf8(text)) << border;
    EXPECT_EQ(valid_utf8(text), text) << border;
    auto parsed = parse_json("\"" + text + "\"");
    ASSERT_TRUE(parsed.ok()) << border;
    EXPECT_EQ(parsed->get<std::string>(), text);
  }
}

TEST(JsonUtf8, AllPairsAndRandomTextsAgreeWithTheOracle) {
  const auto check = [](const std::string& text) {
    const bool valid = oracle_valid(text);
    ASSERT_EQ(model::is_utf8(text), valid) << ::testing::PrintToString(text);
    const std::string mended = valid_utf8(text);
    ASSERT_TRUE(oracle_valid(mended)) << ::testing::PrintToString(text);
    ASSERT_EQ(mended == text, valid) << ::testing::PrintToString(text);
    ASSERT_EQ(valid_utf8(mended), mended);
  };
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) check({static_cast<char>(a), static_cast<char>(b)});
  }
  const unsigned char edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1,
                                 0xC2, 0xDF, 0xE0, 0xEC, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
  SeededRandom random(7);
  for (int round = 0; round < 40'000; ++round) {
    std::string text;
    for (std::uint64_t n = random.next() % 8; n > 0; --n) {
      text += static_cast<char>(edges[random.next() % std::size(edges)]);
    }
    check(text);
  }
}

// Whatever text goes into an answer, the answer is JSON of valid UTF-8 and reads back.
TEST(JsonUtf8, AnswersAreAlwaysReadable) {
  SeededRandom random(8);
  for (int round = 0; round < 2'000; ++round) {
    std::string text;
    for (std::uint64_t n = random.next() % 12; n > 0; --n) {
      text += static_cast<char>(random.next() % 256);
    }
    const std::string written = dump(OrderedJson{{"t", text}});
    ASSERT_TRUE(oracle_valid(written));
    auto read = parse_json(written);
    ASSERT_TRUE(read.ok()) << written;
    if (oracle_valid(text)) {
      EXPECT_EQ((*read)["t"], text);
    }
  }
}

TEST(JsonUtf8, NothingIsReadPastOrBesideTheValue) {
  using namespace std::string_literals;
  for (const std::string& bad :
       {"{}\0"s,     "{}\0garbage"s, "\0{}"s,      "{\"a\":1\0}"s, "\"a\0b\""s,
        "[1]\0\0"s,  "{} {}"s,       "{}x"s,       "[1,]"s,        "[,1]"s,
        "{\"a\"}"s,  "{a:1}"s,       "/* */{}"s,   "{}//"s,        "+1"s,
        ".5"s,       "5."s,          "1e"s,        "0x1"s,         "-"s,
        "tru"s,      "TRUE"s,        "\"\\x41\""s, "\"\\u12\""s,   "\"\\ud800\\u0041\""s,
        "\"a\nb\""s, "\"open"s,      "\xEF\xBB"s,  "\xEF "s}) {
    auto parsed = parse_json(bad);
    ASSERT_FALSE(parsed.ok()) << ::testing::PrintToString(bad);
    EXPECT_EQ(parsed.error().code, "invalid_json");
    EXPECT_NE(parsed.error().message.find("byte"), std::string::npos) << parsed.error().message;
  }
  EXPECT_EQ(parse_json("\"\\u0000\"")->get<std::string>(), std::string(1, '\0'))
      << "written out it is a character like any other";
  EXPECT_EQ(*parse_json("\"\\ud83d\\ude00\""), Json("\xF0\x9F\x98\x80"));
  for (const char* good : {"0", "-0", "1e308", " [ ] \r\n\t", "null", "5e-324", "1E+2"}) {
    EXPECT_TRUE(parse_json(good).ok()) << good;
  }
}

TEST(JsonUtf8, ValuesAreCountedExactly) {
  const auto zeros = [](std::size_t count) {
    std::string text = "[0";
    for (std::size_t i = 1; i < count; ++i) text += ",0";
    return text + "]";
  };
  EXPECT_TRUE(parse_json(zeros(limits::kJsonValues - 1)).ok()) << "the array is a value, too";
  auto over = parse_json(zeros(limits::kJsonValues));
  ASSERT_FALSE(over.ok());
  EXPECT_NE(over.error().message.find(std::to_string(limits::kJsonValues)), std::string::npos);
}

TEST(JsonUtf8, DepthCountsWhatIsOpenNotWhatWas) {
  std::string wide = "[";
  for (int i = 0; i < 200; ++i) wide += i == 0 ? "[{}]" : ",[{}]";
  EXPECT_TRUE(parse_json(wide + "]").ok());
  std::string mixed;
  for (std::uint32_t i = 0; i < limits::kJsonDepth; ++i) mixed += i % 2 == 0 ? "[" : "{\"a\":";
  std::string closed = mixed + "0";
  for (std::uint32_t i = limits::kJsonDepth; i-- > 0;) closed += i % 2 == 0 ? "]" : "}";
  EXPECT_TRUE(parse_json(closed).ok());
  EXPECT_NE(parse_json(mixed + "[").error().message.find("deeper"), std::string::npos);
}

}  // namespace
}  // namespace hearth::coordinator::http
