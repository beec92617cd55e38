#include "coordinator/workers/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/limits.h"
#include "base/random.h"
#include "coordinator/pipelines/range_pool.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using testing::FakeClock;
using testing::swarm_options;
using testing::worker;

struct RegistryTest : ::testing::Test {
  CoordinatorOptions options = swarm_options(2);
  FakeClock clock;
  Registry registry{options, clock};

  std::string refusal(const std::function<void(control::v1::Register&)>& change) {
    control::v1::Register body = worker("w");
    change(body);
    const Status status = registry.check(body);
    return status.ok() ? "" : status.error().message;
  }
  Node* add(std::uint64_t link, const std::string& name) {
    return *registry.add(LinkId(link), worker(name));
  }
};

TEST_F(RegistryTest, AcceptsAFittingWorker) {
  EXPECT_EQ(refusal([](auto&) {}), "");
}

TEST_F(RegistryTest, NamesBothSidesOfAMismatch) {
  const std::string protocol = refusal([](auto& body) { body.set_protocol_version(2); });
  EXPECT_NE(protocol.find("protocol " + std::to_string(kProtocolOldest) + " to " +
                          std::to_string(kProtocolVersion) + " "),
            std::string::npos);
  EXPECT_NE(protocol.find("protocol 2"), std::string::npos);
  const std::string canonical = refusal([](auto& body) { body.set_canonical_version(8); });
  EXPECT_NE(canonical.find("arithmetic 8"), std::string::npos);
  const std::string model = refusal([](auto& body) { body.set_model_fingerprint("beef"); });
  EXPECT_NE(model.find("beef"), std::string::npos);
  EXPECT_NE(model.find(options.model_fingerprint), std::string::npos);
  const std::string layers = refusal([](auto& body) { body.set_layers(7); });
  EXPECT_NE(layers.find("4 layers"), std::string::npos);
  EXPECT_NE(layers.find("worker's 7"), std::string::npos);
}

TEST_F(RegistryTest, RefusesFieldsOutOfRange) {
  EXPECT_NE(refusal([](auto& body) { body.set_node(""); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_node("a\nb"); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_node(std::string(129, 'a')); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_data_address(""); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_data_address(std::string(300, 'a')); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_isa("\x1b[2J"); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_weight_bytes_per_second(std::nan("")); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_weight_bytes_per_second(-1); }), "");
  EXPECT_EQ(refusal([](auto& body) { body.set_device("cuda:0 NVIDIA A100"); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_device("cuda:0\x1b[2J"); }), "");
  EXPECT_NE(refusal([](auto& body) { body.set_device(std::string(1'025, 'a')); }), "");
}

// A member may not bring the epochs of a swarm to their end.
TEST_F(RegistryTest, ClaimsOfEpochsAreBounded) {
  options.first_epoch = 1'000;
  const auto claim = [&](std::uint64_t epoch) {
    return refusal([&](auto& body) { body.set_newest_epoch(epoch); });
  };
  EXPECT_EQ(claim(0), "");
  EXPECT_EQ(claim(1'000 + limits::kEpochLead), "");
  for (const std::uint64_t epoch : {1'001 + limits::kEpochLead, ~std::uint64_t{0}}) {
    EXPECT_NE(claim(epoch).find("newest_epoch is " + std::to_string(epoch)), std::string::npos);
  }
}

TEST_F(RegistryTest, FreeNodesComeInTheOrderOfRegistrationAndTheRestedLast) {
  add(1, "b");
  add(2, "a");
  Node* third = add(3, "c");
  registry.assign(*third, Epoch(1), 0, {0, 4});
  auto free = registry.free_nodes();
  ASSERT_EQ(free.size(), 2u);
  EXPECT_EQ(free[0]->status.name, "b");
  registry.free(*free[0], std::chrono::milliseconds(500));
  registry.free(*third, Duration::zero());
  EXPECT_EQ(registry.free_nodes().size(), 2u) << "b rests";
  clock.advance(std::chrono::milliseconds(500));
  free = registry.free_nodes();
  ASSERT_EQ(free.size(), 3u);
  EXPECT_EQ(free[2]->status.name, "b");
}

TEST_F(RegistryTest, WhoseWorkHasNoReceiptsIsChosenLast) {
  add(1, "a")->status.unreceipted = "another build";
  add(2, "b");
  const auto free = registry.free_nodes();
  ASSERT_EQ(free.size(), 2u);
  EXPECT_EQ(free[0]->status.name, "b");
  EXPECT_TRUE(doubtful(*free[1]) && !doubtful(*free[0])) << "placed where others do not suffice";
}

TEST_F(RegistryTest, FindsTheSilentAndForgetsTheLost) {
  Node* node = add(1, "a");
  clock.advance(options.heartbeat_timeout - Duration(1));
  EXPECT_TRUE(registry.silent_nodes().empty());
  clock.advance(Duration(1));
  ASSERT_EQ(registry.silent_nodes().size(), 1u);
  node->status.kv_tokens_used = 7;
  registry.lose(*node);
  EXPECT_EQ(node->status.kv_tokens_used, 0u);
  EXPECT_TRUE(registry.silent_nodes().empty());
  EXPECT_EQ(registry.find(LinkId(1)), nullptr);
  registry.forget();
  ASSERT_EQ(registry.snapshot().size(), 1u);
  EXPECT_EQ(registry.snapshot()[0].state, "lost");
  clock.advance(std::chrono::seconds(60));
  registry.forget();
  EXPECT_TRUE(registry.snapshot().empty());
}

TEST_F(RegistryTest, BoundsSessionsAndRememberedNames) {
  for (std::uint32_t i = 0; i < 3 * limits::kWorkers; ++i) {
    Node* node = add(i + 1, "w" + std::to_string(i));
    registry.lose(*node);
    registry.forget();
  }
  EXPECT_LE(registry.snapshot().size(), limits::kWorkers);
  for (std::uint32_t i = 0; i < limits::kWorkers; ++i) add(10'000 + i, "v" + std::to_string(i));
  const auto refused = registry.add(LinkId(99'999), worker("one-more"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
}

TEST_F(RegistryTest, TextFieldsAtTheirLimits) {
  using Body = control::v1::Register;
  EXPECT_EQ(refusal([](Body& body) { body.set_node(std::string(limits::kNodeNameBytes, 'n')); }),
            "");
  EXPECT_EQ(
      refusal([](Body& body) { body.set_data_address(std::string(limits::kAddressBytes, 'a')); }),
      "");
  EXPECT_NE(refusal([](Body& body) {
              body.set_data_address(std::string(limits::kAddressBytes + 1, 'a'));
            }).find("data_address has 257 bytes"),
            std::string::npos);
  EXPECT_EQ(refusal([](Body& body) { body.set_isa(std::string(32, 'i')); }), "");
  EXPECT_NE(refusal([](Body& body) { body.set_isa(std::string(33, 'i')); }), "");
  for (int c = 0; c < 128; ++c) {
    const std::string text = std::string("a") + static_cast<char>(c);
    const bool visible = c > 0x20 && c < 0x7F;
    EXPECT_EQ(refusal([&](Body& body) { body.set_data_address(text); }).empty(), visible) << c;
    EXPECT_EQ(refusal([&](Body& body) { body.set_isa(text); }).empty(), visible) << c;
  }
  EXPECT_NE(refusal([](Body& body) { body.set_weight_bytes_per_second(INFINITY); }), "");
  EXPECT_EQ(refusal([](Body& body) { body.set_weight_bytes_per_second(0); }), "");
}

TEST_F(RegistryTest, ANameThatComesBackStartsAfresh) {
  Node* node = add(1, "a");
  registry.assign(*node, Epoch(4), 1, {2, 4});
  node->status.steps_total = 99;
  registry.lose(*node);
  EXPECT_EQ(registry.snapshot()[0].epoch, Epoch());
  clock.advance(options.heartbeat_timeout * 3);
  registry.free(*node, Duration::zero());
  EXPECT_EQ(registry.find("a")->state, Node::State::kLost) << "the lost are not freed";
  add(2, "b");
  Node* again = add(3, "a");
  EXPECT_EQ(again->state, Node::State::kFree);
  EXPECT_EQ(again->status.steps_total, 0u);
  EXPECT_EQ(registry.find(LinkId(1)), nullptr);
  EXPECT_EQ(registry.find(LinkId(3)), again);
  EXPECT_TRUE(registry.silent_nodes().empty());
  ASSERT_EQ(registry.free_nodes().size(), 2u);
  EXPECT_EQ(registry.free_nodes()[0]->status.name, "b") << "it has lost its turn";
  EXPECT_EQ(registry.snapshot().size(), 2u);
}

// Against a model: who is connected, who is silent, who is remembered.
TEST_F(RegistryTest, RandomLivesAgreeWithAModel) {
  struct Life {
    bool lost = false;
    TimePoint heard{};
  };
  SeededRandom random(9);
  std::map<std::string, Life> model;
  std::uint64_t link = 0;
  for (int round = 0; round < 5'000; ++round) {
    const std::string name = "n" + std::to_string(random.next() % 12);
    const auto known = model.find(name);
    switch (random.next() % 5) {
      case 0:
        if (known != model.end() && !known->second.lost) break;
        add(++link, name);
        model[name] = {false, clock.now()};
        break;
      case 1:
        if (known == model.end() || known->second.lost) break;
        registry.lose(*registry.find(name));
        known->second = {true, clock.now()};
        break;
      case 2:
        if (known == model.end() || known->second.lost) break;
        registry.find(name)->last_heard = clock.now();
        known->second.heard = clock.now();
        break;
      case 3: clock.advance(std::chrono::milliseconds(random.next() % 4'000)); break;
      default:
        registry.forget();
        std::erase_if(model, [&](const auto& entry) {
          return entry.second.lost && clock.now() - entry.second.heard >= std::chrono::seconds(60);
        });
    }
    std::size_t connected = 0;
    std::set<std::string> silent;
    for (const auto& [key, life] : model) {
      connected += life.lost ? 0 : 1;
      const bool old = clock.now() - life.heard >= options.heartbeat_timeout;
      if (!life.lost && old) silent.insert(key);
    }
    ASSERT_EQ(registry.connected(), connected);
    ASSERT_EQ(registry.snapshot().size(), model.size());
    std::set<std::string> found;
    for (const Node* node : registry.silent_nodes()) found.insert(node->status.name);
    ASSERT_EQ(found, silent);
  }
}

}  // namespace
}  // namespace hearth::coordinator
