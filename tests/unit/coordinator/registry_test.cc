#include "coordinator/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/limits.h"
#include "tests/unit/coordinator/workers.h"
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
  const std::string protocol = refusal([](auto& body) { body.set_protocol_version(9); });
  EXPECT_NE(protocol.find("protocol 1"), std::string::npos);
  EXPECT_NE(protocol.find("protocol 9"), std::string::npos);
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

TEST_F(RegistryTest, FindsTheSilentAndForgetsTheLost) {
  Node* node = add(1, "a");
  clock.advance(options.heartbeat_timeout - Duration(1));
  EXPECT_TRUE(registry.silent_nodes().empty());
  clock.advance(Duration(1));
  ASSERT_EQ(registry.silent_nodes().size(), 1u);
  registry.lose(*node);
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

}  // namespace
}  // namespace hearth::coordinator
