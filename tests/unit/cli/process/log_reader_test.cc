#include "cli/process/log_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "cli/process/log_files.h"
#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

struct LogReaderTest : ::testing::Test {
  LogsFolder folder;
  std::string path = folder.file("a.log");

  static Lines read(LogReader& reader) {
    Lines lines;
    reader.read([&](std::string_view line) { lines.emplace_back(line); });
    return lines;
  }
  // What a writer does with a full file.
  void rotate() const {
    for (std::uint32_t age = kLogFilesBefore; age > 0; --age) {
      std::error_code none;
      fs::rename(log_file_name(path, age - 1), log_file_name(path, age), none);
    }
  }
};

TEST_F(LogReaderTest, ReadsWhatComes) {
  LogReader reader(path);
  EXPECT_EQ(read(reader), Lines{}) << "not there yet";
  folder.append("a.log", "one\ntw");
  EXPECT_EQ(read(reader), Lines{"one"});
  EXPECT_EQ(read(reader), Lines{});
  folder.append("a.log", "o\n\nthree\n");
  EXPECT_EQ(read(reader), (Lines{"two", "", "three"}));
}

TEST_F(LogReaderTest, BeginsWithTheOldestFile) {
  folder.append("a.2.log", "1\n");
  folder.append("a.1.log", "2\n");
  folder.append("a.log", "3\n");
  LogReader reader(path);
  EXPECT_EQ(read(reader), (Lines{"1", "2", "3"}));
}

TEST_F(LogReaderTest, FollowsAFileThatIsRenamed) {
  folder.append("a.log", "1\n");
  LogReader reader(path);
  EXPECT_EQ(read(reader), Lines{"1"});
  folder.append("a.log", "2\n");
  rotate();
  EXPECT_EQ(read(reader), Lines{"2"}) << "the new one is not there yet";
  folder.append("a.log", "3\n");
  EXPECT_EQ(read(reader), Lines{"3"});
  folder.append("a.log", "4\n");
  rotate();
  folder.append("a.log", "5\n");
  rotate();
  folder.append("a.log", "6\n");
  EXPECT_EQ(read(reader), (Lines{"4", "5", "6"})) << "two at once";
}

TEST_F(LogReaderTest, AFileThatIsCutBeginsAnew) {
  folder.append("a.log", "one\ntwo\nhalf a line");
  LogReader reader(path);
  EXPECT_EQ(read(reader), (Lines{"one", "two"}));
  fs::resize_file(path, 0);
  folder.append("a.log", "new\n");
  EXPECT_EQ(read(reader), Lines{"new"});
}

TEST_F(LogReaderTest, AFileThatIsReplacedIsRead) {
  folder.append("a.log", "one\n");
  LogReader reader(path);
  EXPECT_EQ(read(reader), Lines{"one"});
  fs::remove(path);
  EXPECT_EQ(read(reader), Lines{});
  folder.append("a.log", "two\n");
  EXPECT_EQ(read(reader), Lines{"two"});
}

TEST_F(LogReaderTest, ALineWithoutAnEndComesInPieces) {
  folder.append("a.log", std::string(200'000, 'x') + "\n");
  LogReader reader(path);
  std::size_t all = 0;
  for (const std::string& line : read(reader)) {
    EXPECT_LE(line.size(), 65'536U);
    all += line.size();
  }
  EXPECT_EQ(all, 200'000U);
}

TEST_F(LogReaderTest, AFolderIsNoLog) {
  fs::create_directories(path);
  LogReader reader(path);
  EXPECT_EQ(read(reader), Lines{});
}

// A writer in another thread that renames its file again and again: nothing is lost or doubled as
// long as the reader is not further behind than the files that are kept.
TEST_F(LogReaderTest, LosesNothingOfAWriterInAHurry) {
  constexpr int kLines = 6'000;
  constexpr int kFileLines = 300;
  std::atomic<int> next{0};
  std::atomic<bool> given_up{false};
  std::thread writer([&] {
    auto file = std::make_unique<std::ofstream>(path, std::ios::app);
    for (int i = 0; i < kLines && !given_up; ++i) {
      if (i > 0 && i % kFileLines == 0) {
        while (next < i - 2 * kFileLines && !given_up) std::this_thread::yield();
        file.reset();
        rotate();
        file = std::make_unique<std::ofstream>(path, std::ios::app);
      }
      *file << i << std::endl;
    }
  });
  LogReader reader(path);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (next < kLines && !given_up) {
    for (const std::string& line : read(reader)) {
      if (line != std::to_string(next)) given_up = true;
      ++next;
    }
    if (std::chrono::steady_clock::now() > deadline) given_up = true;
  }
  writer.join();
  EXPECT_FALSE(given_up);
  EXPECT_EQ(next, kLines);
}

TEST(LastLines, AreBoundedInNumberAndBytes) {
  LastLines last(3, 10);
  for (const char* line : {"a", "b", "c", "d"}) last.add(line);
  EXPECT_EQ(last.lines(), (std::deque<std::string>{"b", "c", "d"}));
  last.add("123456789");
  EXPECT_EQ(last.lines(), (std::deque<std::string>{"d", "123456789"}));
  last.add(std::string(50, 'x'));
  EXPECT_EQ(last.lines().size(), 1U) << "one is always kept";
  LastLines none(0);
  none.add("a");
  EXPECT_TRUE(none.lines().empty());
}

}  // namespace
}  // namespace hearth::cli
