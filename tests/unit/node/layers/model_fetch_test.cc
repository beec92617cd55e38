#include "node/layers/model_fetch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>

#include "base/random.h"
#include "model/gguf/parts.h"
#include "model/synthetic.h"
#include "tests/tools/parts_writer.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;
using model::Manifest;

// The model's bytes, and what may go wrong with them on their way.
class ListedSource final : public RangeSource {
 public:
  ListedSource(std::string name, Bytes bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  std::string node() const override { return of_node; }
  Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) override {
    ++requests;
    std::uint64_t at = begin;
    while (at < end) {
      if (fails) TRY_VOID(fails());
      const std::uint64_t count = std::min<std::uint64_t>(1000, end - at);
      TRY_VOID(sink(ByteSpan(bytes_).subspan(at, count)));
      sent += count;
      at += count;
    }
    return too_much ? sink(ByteSpan(bytes_).first(1)) : ok_status();
  }

  std::function<Status()> fails;  // asked before every kilobyte
  bool too_much = false;
  std::string of_node;  // empty: a web server
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> requests{0};

 private:
  const std::string name_;
  const Bytes bytes_;
};

struct ModelFetchTest : ::testing::Test {
  Bytes bytes = model::synthetic_model_bytes({}).value();
  Manifest manifest = model::make_manifest(**model::GgufFile::parse(bytes, "tiny"), {}).value();
  std::vector<std::size_t> wanted = *model::stage_tensors(manifest, {1, 3});
  std::string folder;
  std::vector<std::string> warnings;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> progress;
  FetchOptions options;

  ModelFetchTest() {
    std::string pattern = (fs::temp_directory_path() / "hearth-fetch-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    options.folder = folder + "/cache";
    options.pause = std::chrono::milliseconds(1);
    fs::create_directory(options.folder);
    options.warn = [this](const std::string& text) { warnings.push_back(text); };
    options.progress = [this](std::uint64_t done, std::uint64_t total) {
      progress.emplace_back(done, total);
    };
  }
  ~ModelFetchTest() override { fs::remove_all(folder); }

  std::shared_ptr<ListedSource> source(const std::string& name) {
    return add(std::make_shared<ListedSource>(name, bytes));
  }
  std::shared_ptr<ListedSource> add(std::shared_ptr<ListedSource> each) {
    options.sources.push_back(each);
    return each;
  }
  // With one bit of the middle of a tensor of ours the other way.
  std::shared_ptr<ListedSource> liar(const std::string& name) {
    Bytes wrong = bytes;
    const auto& tensor = manifest.tensors[wanted[wanted.size() / 2]];
    wrong[tensor.offset + tensor.bytes / 2] ^= std::byte{4};
    return add(std::make_shared<ListedSource>(name, wrong));
  }
  Result<Fetched> fetch() { return fetch_tensors(manifest, wanted, options); }
  std::uint64_t own_bytes() const {
    std::uint64_t sum = manifest.header_bytes;
    for (const std::size_t index : wanted) sum += manifest.tensors[index].bytes;
    return sum;
  }
  std::string write(const std::string& name, const Bytes& content) {
    const std::string path = folder + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    return path;
  }
  void expect_right(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    const std::string got((std::istreambuf_iterator<char>(in)), {});
    ASSERT_EQ(got.size(), bytes.size());
    const std::string_view all = as_text(bytes);
    EXPECT_EQ(got.substr(0, manifest.header_bytes), all.substr(0, manifest.header_bytes));
    for (const std::size_t index : wanted) {
      const auto& tensor = manifest.tensors[index];
      EXPECT_EQ(got.substr(tensor.offset, tensor.bytes), all.substr(tensor.offset, tensor.bytes))
          << tensor.name;
    }
  }
  bool warned(const std::string& of) const {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& text) { return text.find(of) != std::string::npos; });
  }
};

TEST_F(ModelFetchTest, FetchesItsOwnBytesAndNoOthers) {
  const auto from = source("hub");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.error().message;
  EXPECT_FALSE(fetched->in_place);
  EXPECT_EQ(fetched->wanted, own_bytes());
  EXPECT_EQ(fetched->fetched, from->sent);
  EXPECT_LE(static_cast<double>(from->sent), 1.02 * static_cast<double>(own_bytes()));
  expect_right(fetched->path);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(progress.front(), std::pair(std::uint64_t{0}, own_bytes()));
  EXPECT_EQ(progress.back(), std::pair(own_bytes(), own_bytes()));
  struct stat info {};
  ASSERT_EQ(::stat(fetched->path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(ModelFetchTest, WhatIsThereIsNotFetchedAgain) {
  const auto from = source("hub");
  ASSERT_TRUE(fetch().ok());
  const std::uint64_t before = from->sent;
  ASSERT_EQ(fetch()->fetched, 0U);
  EXPECT_EQ(from->sent, before);
  wanted = *model::stage_tensors(manifest, {1, 4});
  const auto more = fetch();
  ASSERT_TRUE(more.ok());
  EXPECT_LT(more->fetched, own_bytes() - before + 8192) << "the new layer alone";
  expect_right(more->path);
  options.sources.clear();
  EXPECT_TRUE(fetch().ok()) << "nothing has to be asked";
}

TEST_F(ModelFetchTest, WhatADiskMadeOfItIsFoundAndFetchedAgain) {
  const auto from = source("a");
  const auto first = fetch();
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto& tensor = manifest.tensors[wanted[wanted.size() / 2]];
  struct stat before {};
  ASSERT_EQ(::stat(first->path.c_str(), &before), 0);
  {
    std::fstream file(first->path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(tensor.offset + tensor.bytes / 2));
    file.put(static_cast<char>(bytes[tensor.offset + tensor.bytes / 2] ^ std::byte{4}));
  }
  // As a backup brings files back: the time says nothing.
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, first->path.c_str(), times, 0), 0);
  const std::uint64_t sent = from->sent;
  const auto again = fetch();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->fetched, tensor.bytes);
  EXPECT_GE(from->sent - sent, tensor.bytes);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(tensor.name), std::string::npos) << warnings[0];
  options.sources.clear();
  EXPECT_TRUE(fetch().ok()) << "now it is right";
}

TEST_F(ModelFetchTest, AWholeFileIsUsedWhereItLies) {
  options.files = {folder + "/missing", folder, write("short", Bytes(10)),
                   write("zeros", Bytes(bytes.size())), write("model", bytes)};
  const auto from = source("hub");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok());
  EXPECT_TRUE(fetched->in_place);
  EXPECT_EQ(fetched->path, folder + "/model");
  EXPECT_EQ(from->requests, 0U);
  EXPECT_TRUE(warnings.empty()) << "another model is no reason for one";
}

TEST_F(ModelFetchTest, AModelInPartsIsUsedWhereItLiesAndAWrongPartIsNot) {
  const std::string first = model::write_synthetic_parts(folder + "/m.gguf", {}, 3, true).value();
  const std::string second = model::all_parts(first)[1];
  options.files = {first};
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.error().message;
  EXPECT_TRUE(fetched->in_place);
  EXPECT_EQ(fetched->path, first);
  EXPECT_EQ(fetched->wanted, own_bytes());
  EXPECT_EQ(model::GgufFile::open(fetched->path).value()->fingerprint(),
            model::GgufFile::parse(bytes, "whole").value()->fingerprint());
  // One bit of a tensor of ours in the second part.
  const auto parts = model::GgufFile::open(first).value();
  const auto ours = std::ranges::find_if(wanted, [&](std::size_t index) {
    return parts->find_tensor(manifest.tensors[index].name)->part == 1;
  });
  ASSERT_NE(ours, wanted.end());
  const std::string& name = manifest.tensors[*ours].name;
  const auto at = static_cast<std::streamoff>(parts->find_tensor(name)->part_offset);
  std::fstream file(second, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const char changed = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(changed);
  file.close();
  source("hub");
  const auto again = fetch();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_FALSE(again->in_place);
  EXPECT_TRUE(warned(first + " is not used: tensor " + name));
  expect_right(again->path);
  fs::remove(second);
  options.folder = folder + "/another";
  fs::create_directory(options.folder);
  EXPECT_FALSE(fetch()->in_place) << "a part is missing";
}

TEST_F(ModelFetchTest, AWholeFileWithAWrongBitIsNamedAndNotUsed) {
  Bytes wrong = bytes;
  const auto& tensor = manifest.tensors[wanted.back()];
  wrong[tensor.offset] ^= std::byte{1};
  options.files = {write("model", wrong)};
  source("hub");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok());
  EXPECT_FALSE(fetched->in_place);
  expect_right(fetched->path);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(folder + "/model"), std::string::npos);
  EXPECT_NE(warnings[0].find(tensor.name), std::string::npos);
}

TEST_F(ModelFetchTest, AWrongBitInOthersLayersIsNotOurs) {
  Bytes wrong = bytes;
  wrong[manifest.tensors[0].offset] ^= std::byte{1};
  const auto first = *model::stage_tensors(manifest, {0, 1});
  ASSERT_EQ(std::count(first.begin(), first.end(), 0U), 1);
  ASSERT_EQ(std::count(wanted.begin(), wanted.end(), 0U), 0);
  options.files = {write("model", wrong)};
  EXPECT_TRUE(fetch()->in_place);
  wanted = first;
  EXPECT_FALSE(fetch().ok()) << "what was right for one stage is not so for another";
}

TEST_F(ModelFetchTest, AFileThatChangedIsHashedAgain) {
  options.files = {write("model", bytes)};
  ASSERT_TRUE(fetch()->in_place);
  Bytes wrong = bytes;
  wrong[manifest.tensors[wanted.back()].offset] ^= std::byte{1};
  write("model", wrong);
  fs::last_write_time(folder + "/model", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(fetch().error().code, ErrorCode::kNotFound);
}

TEST_F(ModelFetchTest, AFileThatChangedAndHasItsDateAgainIsHashedAgain) {
  options.files = {write("model", bytes)};
  ASSERT_TRUE(fetch()->in_place);
  const auto date = fs::last_write_time(folder + "/model");
  std::fstream file(folder + "/model", std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(manifest.tensors[wanted.back()].offset);
  const char wrong = static_cast<char>(bytes[static_cast<std::size_t>(at)] ^ std::byte{1});
  file.seekp(at);
  file.write(&wrong, 1);
  file.close();
  fs::last_write_time(folder + "/model", date);
  ASSERT_EQ(fs::last_write_time(folder + "/model"), date);
  EXPECT_EQ(fetch().error().code, ErrorCode::kNotFound);
}

TEST_F(ModelFetchTest, ALiarIsNamedAndTheRangeComesFromElsewhere) {
  for (const bool first : {true, false}) {
    fs::remove_all(options.folder);
    fs::create_directory(options.folder);
    options.sources.clear();
    warnings.clear();
    if (first) liar("liar");
    source("honest");
    if (!first) liar("liar");
    options.connections = 1;
    const auto fetched = fetch();
    ASSERT_TRUE(fetched.ok()) << fetched.error().message;
    expect_right(fetched->path);
    if (!first) continue;  // it was never asked
    EXPECT_TRUE(warned("liar is dropped: tensor blk."));
    EXPECT_FALSE(warned("honest"));
    EXPECT_LE(static_cast<double>(fetched->fetched), 1.3 * static_cast<double>(own_bytes()))
        << "what was right is kept";
  }
}

TEST_F(ModelFetchTest, ANodeThatLiesIsToldOf) {
  const auto bad = liar("desk at 127.0.0.1:1");
  bad->of_node = "desk";
  liar("https://example.org");
  source("attic at 127.0.0.1:2")->of_node = "attic";
  options.connections = 1;
  std::vector<WrongBytes> told;
  options.wrong = [&](const WrongBytes& wrong) { told.push_back(wrong); };
  ASSERT_TRUE(fetch().ok());
  ASSERT_EQ(told.size(), 1U) << "of nodes alone, and once";
  const auto& tensor = manifest.tensors[wanted[wanted.size() / 2]];
  EXPECT_EQ(told[0], (WrongBytes{"desk", manifest.id(), "tensor " + tensor.name, tensor.offset,
                                 tensor.offset + tensor.bytes}));
}

TEST_F(ModelFetchTest, LiarsAloneGiveNothing) {
  liar("one");
  liar("two");
  const auto fetched = fetch();
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(fetched.error().message.find("one: tensor blk."), std::string::npos);
  EXPECT_NE(fetched.error().message.find("two: tensor blk."), std::string::npos);
}

// A liar before the kill: its bytes have no name any more, and no source is blamed for them.
TEST_F(ModelFetchTest, BytesOfAnEarlierRunBlameNoSource) {
  const auto bad = liar("liar");
  int left = 40;
  bad->fails = [&] { return --left > 0 ? ok_status() : Status(Error{ErrorCode::kIo, "gone"}); };
  options.connections = 1;
  ASSERT_FALSE(fetch().ok());
  options.sources.clear();
  warnings.clear();
  source("honest");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.error().message;
  expect_right(fetched->path);
  EXPECT_FALSE(warned("honest"));
}

TEST_F(ModelFetchTest, WhatBreaksOffGoesOnWhereItStopped) {
  const auto from = source("flaky");
  SeededRandom random(3);
  std::mutex mutex;
  int failures = 6;
  from->fails = [&]() -> Status {
    const std::lock_guard lock(mutex);
    if (failures == 0 || random.next() % 20 != 0) return ok_status();
    --failures;
    return Error{failures % 2 == 0 ? ErrorCode::kUnavailable : ErrorCode::kTimeout, "lost"};
  };
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.error().message;
  EXPECT_EQ(failures, 0);
  expect_right(fetched->path);
  EXPECT_LE(static_cast<double>(fetched->fetched), 1.02 * static_cast<double>(own_bytes()));
}

TEST_F(ModelFetchTest, ADeadSourceIsGivenUpAndTheRestComesFromAnother) {
  const auto dead = source("dead");
  dead->fails = [] { return Status(Error{ErrorCode::kNotFound, "it answers 404"}); };
  source("alive");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok());
  EXPECT_TRUE(warned("dead is dropped: it answers 404"));
  expect_right(fetched->path);
}

TEST_F(ModelFetchTest, MoreThanWasAskedForIsRefused) {
  source("generous")->too_much = true;
  const auto fetched = fetch();
  ASSERT_FALSE(fetched.ok());
  EXPECT_NE(fetched.error().message.find("more bytes than requested"), std::string::npos);
}

TEST_F(ModelFetchTest, NoSourceIsSaidAtOnce) {
  const auto fetched = fetch();
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().code, ErrorCode::kNotFound);
  EXPECT_NE(fetched.error().message.find(std::to_string(own_bytes())), std::string::npos);
}

TEST_F(ModelFetchTest, ItCanBeCancelledAndGoesOnLater) {
  const auto from = source("hub");
  options.cancelled = [&] { return from->sent > own_bytes() / 2; };
  EXPECT_EQ(fetch().error().code, ErrorCode::kCancelled);
  const std::uint64_t before = from->sent;
  options.cancelled = {};
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok());
  expect_right(fetched->path);
  EXPECT_LE(fetched->fetched + before, own_bytes() + own_bytes() / 10);
}

TEST_F(ModelFetchTest, AManifestThatDisagreesWithTheFileIsRefused) {
  source("hub");
  std::swap(manifest.tensors[wanted[0]].name, manifest.tensors[wanted[1]].name);
  const auto fetched = fetch();
  ASSERT_FALSE(fetched.ok());
  EXPECT_NE(fetched.error().message.find("different places"), std::string::npos);
  manifest.tensors[0].bytes = 0;
  EXPECT_EQ(fetch().error().code, ErrorCode::kInvalidInput);
}

TEST_F(ModelFetchTest, AFileThatWasLostIsFetchedAnew) {
  source("hub");
  const std::string path = fetch()->path;
  fs::remove(path);
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok());
  expect_right(fetched->path);
}

}  // namespace
}  // namespace hearth::node
