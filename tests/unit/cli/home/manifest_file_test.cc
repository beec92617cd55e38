#include "cli/home/manifest_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "model/synthetic.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

struct ManifestFileTest : ::testing::Test {
  const SecretKey cluster = SecretKey::generate();
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  const model::Manifest manifest =
      model::make_manifest(**model::GgufFile::parse(bytes, "tiny"), {}).value();
  std::string home;
  std::string desk;

  ManifestFileTest() {
    std::string path = (fs::temp_directory_path() / "hearth-manifest-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    home = path + "/home";
    desk = path + "/desk";
    fs::create_directory(home);
    fs::create_directory(desk);
  }
  ~ManifestFileTest() override { fs::remove_all(fs::path(home).parent_path()); }

  ManifestFile open(const std::string& folder) const {
    return ManifestFile::open(folder, cluster.public_key()).value();
  }
  // Signed, in the order of the calls, by the coordinator.
  Bytes publish(const model::Manifest& what) const {
    ManifestFile file = open(home);
    EXPECT_TRUE(file.publish(what, cluster).ok());
    return file.bytes();
  }
  model::Manifest other() const {
    model::Manifest changed = manifest;
    changed.tensors[0].sha256.bytes[0] ^= std::byte{1};
    return changed;
  }
  std::size_t evidence() const {
    const fs::directory_iterator all(desk);
    return static_cast<std::size_t>(std::count_if(begin(all), end(all), [](const auto& entry) {
      return entry.path().filename().string().starts_with("manifest.evidence-");
    }));
  }
};

// Of several coordinators, each has led and made some.
TEST_F(ManifestFileTest, ACoordinatorNumbersOnFromWhatAnotherOneMade) {
  ManifestFile first = open(home);
  ASSERT_TRUE(first.publish(other(), cluster).ok());
  ASSERT_TRUE(first.publish(manifest, cluster).ok());
  ManifestFile second = open(desk);
  ASSERT_TRUE(second.publish(manifest, cluster).ok());
  EXPECT_EQ(*second.follow(first.bytes()), true);
  EXPECT_EQ(*second.follow(first.bytes()), false);
  ASSERT_TRUE(second.publish(other(), cluster).ok());
  EXPECT_EQ(second.manifest()->number, 3U);
  EXPECT_EQ(*second.follow(first.bytes()), false) << "it is older";
  EXPECT_TRUE(first.take(second.bytes()).ok()) << "as a worker takes it";
  EXPECT_EQ(open(desk).manifest()->number, 3U);
}

TEST_F(ManifestFileTest, IsSignedNumberedAndKept) {
  const Bytes first = publish(manifest);
  EXPECT_EQ(publish(manifest), first) << "the same file has the same manifest";
  ManifestFile file = open(desk);
  EXPECT_FALSE(file.manifest());
  ASSERT_TRUE(file.take(first).ok());
  EXPECT_EQ(file.manifest()->number, 1U);
  EXPECT_EQ(file.manifest()->id(), manifest.id());
  ASSERT_TRUE(file.take(publish(other())).ok());
  EXPECT_EQ(open(desk).manifest()->number, 2U);
  EXPECT_EQ(open(desk).manifest()->id(), other().id());
}

TEST_F(ManifestFileTest, NothingButTheClusterKeyIsBelieved) {
  const SecretKey stranger = SecretKey::generate();
  ManifestFile theirs = ManifestFile::open(home, stranger.public_key()).value();
  ASSERT_TRUE(theirs.publish(manifest, stranger).ok());
  ManifestFile file = open(desk);
  EXPECT_EQ(file.take(theirs.bytes()).error().code, ErrorCode::kRefused);
  EXPECT_FALSE(file.take(model::encode_manifest(manifest, {})).ok()) << "not signed";
  const auto as_roster = [&](ByteSpan message) {
    const Signature signature = cluster.sign("hearth roster v1", message);
    return Bytes(signature.begin(), signature.end());
  };
  EXPECT_FALSE(file.take(model::encode_manifest(manifest, as_roster)).ok()) << "another purpose";
  EXPECT_FALSE(file.manifest());
  EXPECT_FALSE(ManifestFile::open(home, cluster.public_key()).ok());
}

TEST_F(ManifestFileTest, RollbackAndForkAreRefusedAndKept) {
  const Bytes first = publish(manifest);
  const Bytes second = publish(other());
  ManifestFile file = open(desk);
  ASSERT_TRUE(file.take(second).ok());
  EXPECT_TRUE(file.take(second).ok()) << "the same again";
  EXPECT_EQ(file.take(first).error().code, ErrorCode::kRefused);
  EXPECT_EQ(evidence(), 1U);
  fs::remove(home + "/manifest");
  publish(manifest);
  model::Manifest third = manifest;
  third.tensors[1].sha256.bytes[0] ^= std::byte{1};
  EXPECT_EQ(file.take(publish(third)).error().code, ErrorCode::kRefused) << "another number 2";
  EXPECT_EQ(evidence(), 2U);
  EXPECT_EQ(file.manifest()->id(), other().id());
}

TEST_F(ManifestFileTest, ADamagedFileSaysWhatToDo) {
  publish(manifest);
  std::ofstream(home + "/manifest", std::ios::binary | std::ios::in).write("x", 1);
  const auto file = ManifestFile::open(home, cluster.public_key());
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("remove it"), std::string::npos);
}

}  // namespace
}  // namespace hearth::cli
