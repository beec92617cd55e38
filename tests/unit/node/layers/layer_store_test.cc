#include "node/layers/layer_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "model/synthetic.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;

class FakeSource final : public RangeSource {
 public:
  FakeSource(std::string name, Bytes bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  std::string node() const override { return name_ == "hub" ? "" : name_; }
  Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) override {
    ++asked;
    if (gone) return Error{ErrorCode::kNotFound, "gone"};
    while (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sent += end - begin;
    return sink(ByteSpan(bytes_).subspan(begin, end - begin));
  }
  std::atomic<bool> gone{false};
  std::atomic<bool> slow{false};
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> asked{0};

 private:
  const std::string name_;
  const Bytes bytes_;
};

struct LayerStoreTest : ::testing::Test {
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  const model::Manifest manifest =
      model::make_manifest(**model::GgufFile::parse(bytes, "tiny"), {}).value();
  std::string folder;
  std::shared_ptr<FakeSource> peer = std::make_shared<FakeSource>("peer", bytes);
  std::shared_ptr<FakeSource> hub = std::make_shared<FakeSource>("hub", bytes);
  std::mutex mutex;
  std::vector<LayerRange> done;
  std::vector<std::string> failures;
  std::optional<Error> refuse;

  LayerStoreTest() {
    std::string path = (fs::temp_directory_path() / "hearth-store-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder = path;
  }
  ~LayerStoreTest() override { fs::remove_all(folder); }

  LayerStoreOptions options() {
    LayerStoreOptions store;
    store.manifest = manifest;
    store.fetch.folder = folder;
    store.fetch.pause = std::chrono::milliseconds(1);
    store.pause = std::chrono::milliseconds(20);
    store.peers = [this](const std::vector<Holder>& holders) {
      return holders.empty() ? Sources() : Sources{peer};
    };
    store.elsewhere = [this]() -> Result<Sources> { return Sources{hub}; };
    store.begin = [this](const HoldPlan&, std::uint64_t) {
      return refuse ? Status(*refuse) : ok_status();
    };
    store.done = [this](const HoldPlan& plan, const Fetched&) {
      const std::lock_guard lock(mutex);
      done.push_back(plan.layers);
    };
    store.failed = [this](const Error& error) {
      const std::lock_guard lock(mutex);
      failures.push_back(error.message);
    };
    return store;
  }
  static HoldPlan plan(LayerRange layers) { return {layers, "a test", {{"peer", "127.0.0.1:1"}}}; }
};

TEST_F(LayerStoreTest, BringsWhatIsWantedAndNothingElse) {
  LayerStore store(options());
  EXPECT_FALSE(store.holding().complete());
  store.want(plan({1, 3}));
  const auto path = store.obtain({1, 3});
  ASSERT_TRUE(path.ok()) << path.error().message;
  const std::uint64_t own = bytes_of(manifest, {1, 3}).value();
  EXPECT_LE(peer->sent, own * 102 / 100);
  EXPECT_EQ(hub->asked, 0U) << "peers come first";
  EXPECT_TRUE(store.holding().complete());
  EXPECT_EQ(store.holding().total, own);
  const model::ManifestTensor& tensor =
      manifest.tensors[model::stage_tensors(manifest, {1, 3})->front()];
  EXPECT_TRUE(store.shared()->holds(manifest.id(), tensor.offset, tensor.bytes));
  const std::uint64_t before = peer->sent;
  EXPECT_EQ(store.obtain({1, 3}).value(), *path);
  EXPECT_EQ(store.obtain({2, 3}).value(), *path) << "a part of what is there";
  EXPECT_EQ(peer->sent, before);
}

TEST_F(LayerStoreTest, TheHeaderAloneMakesAModelFile) {
  LayerStore store(options());
  const auto path = store.bring_header({{"peer", "127.0.0.1:1"}}, {});
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(peer->sent, manifest.header_bytes);
  const auto file = model::GgufFile::open(*path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->fingerprint(), (*model::GgufFile::parse(bytes, "tiny"))->fingerprint());
}

TEST_F(LayerStoreTest, GoesElsewhereWhenNoPeerIsOfUse) {
  peer->gone = true;
  LayerStore store(options());
  store.want(plan({0, 2}));
  EXPECT_TRUE(store.obtain({0, 2}).ok());
  EXPECT_GT(hub->sent, 0U);
}

TEST_F(LayerStoreTest, NeverElsewhereWhenOffline) {
  peer->gone = true;
  LayerStoreOptions offline = options();
  offline.elsewhere = nullptr;
  LayerStore store(offline);
  store.want(plan({0, 2}));
  const auto path = store.obtain({0, 2});
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(hub->asked, 0U);
  peer->gone = false;
  EXPECT_TRUE(store.obtain({0, 2}).ok()) << "it tries again";
}

TEST_F(LayerStoreTest, WhoSentWrongBytesIsToldOnce) {
  Bytes wrong = bytes;
  wrong[manifest.header_bytes / 2] ^= std::byte{1};
  peer = std::make_shared<FakeSource>("peer", wrong);
  LayerStore store(options());
  EXPECT_TRUE(store.bring_header({{"peer", "127.0.0.1:1"}}, {}).ok()) << "of the hub";
  store.want(plan({1, 3}));
  ASSERT_TRUE(store.obtain({1, 3}).ok());
  const WrongBytes header{"peer", manifest.id(), "the header", 0, manifest.header_bytes};
  EXPECT_EQ(store.take_wrong_bytes(), std::vector<WrongBytes>{header});
  EXPECT_TRUE(store.take_wrong_bytes().empty());
}

TEST_F(LayerStoreTest, AnotherRunFindsWhatIsThere) {
  {
    LayerStore store(options());
    store.want(plan({1, 3}));
    ASSERT_TRUE(store.obtain({1, 3}).ok());
  }
  const std::uint64_t before = peer->sent;
  LayerStore store(options());
  store.recall({0, 2});
  EXPECT_FALSE(store.holding().complete());
  EXPECT_GT(store.holding().done, 0U) << "one of the two layers";
  store.recall({1, 3});
  EXPECT_TRUE(store.holding().complete());
  EXPECT_TRUE(store.obtain({1, 3}).ok());
  EXPECT_EQ(peer->sent, before);
}

TEST_F(LayerStoreTest, ANewPlanEndsTheOldOne) {
  hub->slow = true;
  LayerStore store(options());
  Result<std::string> old = Error::invalid("not yet");
  // The waiter itself asks for the old layers: once they are asked of the hub, it waits.
  std::thread waiter([&] { old = store.obtain({0, 1}); });
  while (hub->asked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  store.want(plan({2, 3}));
  waiter.join();
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().code, ErrorCode::kCancelled);
  hub->slow = false;
  EXPECT_TRUE(store.obtain({2, 3}).ok());
  EXPECT_EQ(store.holding().layers, (LayerRange{2, 3}));
}

TEST_F(LayerStoreTest, WhatDoesNotFitIsNotTriedAgain) {
  refuse = Error{ErrorCode::kNoCapacity, "no room"};
  LayerStore store(options());
  store.want(plan({0, 2}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store.obtain({0, 2}).error().code, ErrorCode::kNoCapacity);
  }
  EXPECT_EQ(peer->asked, 0U);
}

TEST_F(LayerStoreTest, StopEndsAWait) {
  peer->slow = true;
  LayerStore store(options());
  Result<std::string> path = Error::invalid("not yet");
  store.want(plan({0, 1}));
  std::thread waiter([&] { path = store.obtain({0, 1}); });
  while (peer->asked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  store.stop();
  waiter.join();
  EXPECT_EQ(path.error().code, ErrorCode::kCancelled);
  peer->slow = false;
}

}  // namespace
}  // namespace hearth::node
