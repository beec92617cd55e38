// Who is told of which holders, and what nodes say of these.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/limits.h"
#include "coordinator/coordinator.h"
#include "proto/wrong_bytes.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;
using Names = std::vector<std::string>;

// One stage, so that all are to hold the same.
struct HoldMessagesTest : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  std::unique_ptr<Coordinator> machine =
      Coordinator::start(options(), clock, random, control, data);
  const Hash256 model = blake2b(as_bytes("a model"));
  std::map<std::string, LinkId> links;

  HoldMessagesTest() { machine->publish_model(model); }

  static CoordinatorOptions options() {
    CoordinatorOptions options = testing::swarm_options(1);
    options.relay = [](const Ticket&, const Ticket&, const std::string&, bool) {
      return ok_status();
    };
    return options;
  }
  void say(const std::string& node, const WorkerMessage& message) {
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    control.receive(links[node], FrameType::kControl, std::move(payload));
  }
  // `seen`: the host from which the session comes; empty: it is not known.
  void join(const std::string& node, bool holds, const std::string& seen = "") {
    links[node] = control.incoming();
    WorkerMessage message;
    *message.mutable_register_() = testing::worker(node);
    if (!seen.empty()) {
      message.mutable_register_()->set_data_address("192.168.1.2:4000");
      control.hosts[links[node]] = seen;
    }
    auto& holding = *message.mutable_register_()->mutable_holding();
    if (holds) {
      holding.mutable_layers()->set_end(4);
      holding.set_done(100);
      holding.set_total(100);
    }
    say(node, message);
  }
  void leave(const std::string& node) { control.lose(links[node]); }
  // As of the last plan that it heard.
  Names holders(const std::string& node) {
    Names names;
    for (const Frame& frame : control.sent[links[node]]) {
      CoordinatorMessage message;
      message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
      if (!message.has_hold()) continue;
      names.clear();
      for (const auto& holder : message.hold().holders()) names.push_back(holder.node());
    }
    return names;
  }
  WrongBytes wrong(const std::string& holder) const {
    return {holder, model, "tensor blk.0.attn_q.weight", 100, 200};
  }
  void accuse(const std::string& teller, const std::vector<WrongBytes>& all) {
    WorkerMessage message;
    for (const WrongBytes& one : all) {
      write_wrong_bytes(one, *message.mutable_heartbeat()->add_wrong_bytes());
    }
    message.mutable_heartbeat();
    say(teller, message);
  }
};

TEST_F(HoldMessagesTest, AHolderBehindARouterIsNamedOnlyToNodesBehindTheSameOne) {
  join("desk", true, "203.0.113.1");
  join("attic", false, "203.0.113.1");
  join("shed", false, "203.0.113.2");
  join("den", false);
  EXPECT_EQ(holders("attic"), (Names{"coordinator", "desk"}));
  EXPECT_EQ(holders("shed"), Names{"coordinator"});
  EXPECT_EQ(holders("den"), Names{"coordinator"});
}

TEST_F(HoldMessagesTest, OneWordCountsForWhoSaysIt) {
  join("desk", true);
  join("attic", false);
  join("shed", false);
  EXPECT_EQ(holders("attic"), (Names{"coordinator", "desk"}));
  accuse("attic", {wrong("desk")});
  EXPECT_EQ(holders("attic"), Names{"coordinator"}) << "it hears so at once";
  EXPECT_EQ(holders("shed"), (Names{"coordinator", "desk"}));
  const std::size_t before = control.sent[links["attic"]].size();
  for (int i = 0; i < 3; ++i) accuse("attic", {wrong("desk")});
  EXPECT_EQ(control.sent[links["attic"]].size(), before) << "said again it is not heard again";
  const auto accused = machine->status().accused;
  ASSERT_EQ(accused.size(), 1U);
  EXPECT_EQ(accused[0].node, "desk");
  EXPECT_EQ(accused[0].accusers, 1U);
  EXPECT_EQ(accused[0].item, "tensor blk.0.attn_q.weight");
  EXPECT_FALSE(accused[0].out);
}

TEST_F(HoldMessagesTest, TwoTakeAHolderOutUntilItRegistersAgain) {
  join("desk", true);
  for (const char* node : {"attic", "shed", "den"}) join(node, false);
  accuse("attic", {wrong("desk")});
  EXPECT_EQ(holders("den"), (Names{"coordinator", "desk"}));
  accuse("shed", {wrong("desk")});
  EXPECT_EQ(holders("den"), Names{"coordinator"}) << "who fetches now hears so";
  join("late", false);
  EXPECT_EQ(holders("late"), Names{"coordinator"});
  EXPECT_EQ(machine->status().accused[0].accusers, 2U);
  EXPECT_TRUE(machine->status().accused[0].out);
  leave("desk");
  EXPECT_EQ(machine->status().accused.size(), 1U) << "it is remembered";
  join("desk", true);
  EXPECT_TRUE(machine->status().accused.empty());
  join("later", false);
  EXPECT_EQ(holders("later"), (Names{"coordinator", "desk"}));
}

TEST_F(HoldMessagesTest, NobodyKeepsOthersFromTheCoordinator) {
  for (const char* node : {"attic", "shed", "den"}) join(node, false);
  accuse("attic", {wrong("coordinator")});
  accuse("shed", {wrong("coordinator")});
  EXPECT_TRUE(holders("attic").empty());
  EXPECT_TRUE(holders("shed").empty());
  EXPECT_EQ(holders("den"), Names{"coordinator"});
  ASSERT_EQ(machine->status().accused.size(), 1U);
  EXPECT_EQ(machine->status().accused[0].node, "coordinator");
  EXPECT_EQ(machine->status().accused[0].accusers, 2U);
  EXPECT_FALSE(machine->status().accused[0].out);
  leave("attic");
  join("attic", false);
  EXPECT_EQ(holders("attic"), Names{"coordinator"}) << "who starts again tries again";
  EXPECT_EQ(machine->status().accused[0].accusers, 1U);
}

TEST_F(HoldMessagesTest, WordsThatMeanNobodyArePassedOver) {
  join("desk", true);
  join("attic", false);
  links["whole"] = control.incoming();
  WorkerMessage whole;
  *whole.mutable_register_() = testing::worker("whole");
  say("whole", whole);
  accuse("whole", {wrong("desk")});
  WrongBytes other = wrong("desk");
  other.model = blake2b(as_bytes("another"));
  accuse("attic", {other, wrong("attic"), wrong("stranger")});
  EXPECT_TRUE(machine->status().accused.empty());
  EXPECT_FALSE(control.closed.contains(links["attic"]));
}

TEST_F(HoldMessagesTest, WhatIsOutOfBoundsEndsTheSession) {
  for (const char* node : {"attic", "shed"}) join(node, false);
  accuse("attic", std::vector<WrongBytes>(limits::kWrongBytesTold + 1, wrong("shed")));
  EXPECT_TRUE(control.closed.contains(links["attic"]));
  WrongBytes bad = wrong("attic");
  bad.end = bad.begin;
  accuse("shed", {bad});
  EXPECT_TRUE(control.closed.contains(links["shed"]));
}

TEST_F(HoldMessagesTest, AccusersAreRememberedUpToABound) {
  join("desk", true);
  for (std::uint32_t i = 0; i < limits::kAccusers + 4; ++i) {
    const std::string node = "node" + std::to_string(i);
    join(node, false);
    accuse(node, {wrong("desk")});
  }
  EXPECT_EQ(machine->status().accused[0].accusers, limits::kAccusers);
}

}  // namespace
}  // namespace hearth::coordinator
