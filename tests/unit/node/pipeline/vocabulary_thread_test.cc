#include "node/pipeline/vocabulary_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "model/gguf/writer.h"
#include "model/synthetic.h"

namespace hearth::node {
namespace {

std::shared_ptr<const model::GgufFile> tiny_file() {
  static const Bytes bytes = model::synthetic_model_bytes({}).value();
  return model::GgufFile::parse(bytes, "tiny").value();
}

void await_ready(const VocabularyThread& thread) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!thread.ready() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(thread.ready());
}

TEST(VocabularyThread, ReadsBeforeItIsAskedAndOnce) {
  VocabularyThread thread;
  EXPECT_FALSE(thread.ready());
  thread.begin(tiny_file());
  await_ready(thread);
  const auto first = thread.get().value();
  EXPECT_GT(first->size(), 0U);
  thread.begin(tiny_file());
  EXPECT_TRUE(thread.ready()) << "a later load finds what was read";
  EXPECT_EQ(thread.get().value(), first);
}

TEST(VocabularyThread, WaitsForWhatIsBeingReadAndEndsWithIt) {
  const auto file = tiny_file();
  VocabularyThread waiting;
  waiting.begin(file);
  EXPECT_TRUE(waiting.get().ok());
  VocabularyThread unused;
  unused.begin(file);
}

TEST(VocabularyThread, AFileWithoutATokenizerIsSaid) {
  model::GgufWriter writer;
  writer.add("general.architecture", "llama");
  const Bytes bytes = writer.bytes().value();
  VocabularyThread thread;
  thread.begin(model::GgufFile::parse(bytes, "bare").value());
  const auto read = thread.get();
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(read.error().message.find("tokenizer"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
