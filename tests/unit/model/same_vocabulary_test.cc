#include "model/same_vocabulary.h"

#include <gtest/gtest.h>

#include "tests/unit/model/raw_gguf.h"

namespace hearth::model {
namespace {

constexpr std::uint32_t kStringType = 8;
constexpr std::uint32_t kArrayType = 9;

std::string difference(const std::vector<std::string>& draft,
                       const std::vector<std::string>& target) {
  const auto file_of = [](const std::vector<std::string>& tokens) {
    RawGguf raw;
    raw.header(0, 1).key("tokenizer.ggml.tokens", kArrayType).put(kStringType);
    raw.put(std::uint64_t{tokens.size()});
    for (const std::string& token : tokens) raw.text(token);
    return raw;
  };
  const RawGguf first = file_of(draft);
  const RawGguf second = file_of(target);
  const auto one = first.parse();
  const auto other = second.parse();
  EXPECT_TRUE(one.ok() && other.ok());
  const Status same = check_same_vocabulary(**one, **other);
  return same.ok() ? "" : same.error().message;
}

TEST(SameVocabulary, NamesTheFirstTokenThatDiffers) {
  EXPECT_EQ(difference({"a", "b", "c"}, {"a", "b", "c"}), "");
  EXPECT_NE(difference({"a", "x\x1b", "c"}, {"a", "b", "d"})
                .find("token 1 is 'x\\x1b' of 3 in the draft model and 'b' of 3"),
            std::string::npos);
  EXPECT_NE(
      difference({"a"}, {"a", "b"}).find("token 1 is missing of 1 in the draft model and 'b' of 2"),
      std::string::npos);
  EXPECT_NE(
      difference({"a", "b"}, {"a"}).find("token 1 is 'b' of 2 in the draft model and missing of 1"),
      std::string::npos);
}

TEST(SameVocabulary, AFileWithoutAVocabularyIsRefused) {
  RawGguf raw;
  raw.header(0, 0);
  const auto file = raw.parse();
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Status same = check_same_vocabulary(**file, **file);
  ASSERT_FALSE(same.ok());
  EXPECT_NE(same.error().message.find("raw: key 'tokenizer.ggml.tokens'"), std::string::npos);
}

}  // namespace
}  // namespace hearth::model
