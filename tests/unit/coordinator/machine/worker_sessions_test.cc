// What workers say when they register.
#include "coordinator/machine/worker_sessions.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

struct WorkerSessionsTest : ::testing::Test {
  Swarm swarm{2};

  CoordinatorMessage register_worker(const std::string& name, std::uint64_t newest_epoch) {
    WorkerMessage message;
    *message.mutable_register_() = testing::worker(name);
    message.mutable_register_()->set_newest_epoch(newest_epoch);
    swarm.sessions[name] = swarm.control.incoming();
    swarm.say(swarm.sessions[name], message);
    return last_told(name);
  }
  CoordinatorMessage last_told(const std::string& name) {
    return swarm.told(swarm.sessions[name]).back();
  }
};

// This coordinator began with an earlier clock than the one before it had.
TEST_F(WorkerSessionsTest, PipelinesGoOnAboveTheEpochsThatWorkersWereAssigned) {
  register_worker("a", 500);
  const std::uint64_t epoch = register_worker("b", 700).assign().epoch();
  EXPECT_GT(epoch, 700u);
  EXPECT_EQ(last_told("a").assign().epoch(), epoch);
  // One of a higher number comes while others serve: the pipelines that form afterwards follow.
  register_worker("c", epoch + 900);
  EXPECT_TRUE(register_worker("d", ~std::uint64_t{0}).has_refused());
  EXPECT_GT(register_worker("e", 0).assign().epoch(), epoch + 900);
}

// Who comes back to the same coordinator changes nothing.
TEST_F(WorkerSessionsTest, AnEpochOfThisCoordinatorIsNothingNew) {
  register_worker("a", 0);
  const std::uint64_t epoch = register_worker("b", 0).assign().epoch();
  swarm.control.lose(swarm.sessions["b"]);
  EXPECT_EQ(register_worker("b", epoch).assign().epoch(), epoch + 1);
}

TEST_F(WorkerSessionsTest, WattsComeFromTheJoulesThatAWorkerTells) {
  swarm.join("a");
  swarm.join("b");
  const auto beat = [&](const std::string& name, double joules) {
    WorkerMessage message;
    message.mutable_heartbeat()->set_energy_joules_total(joules);
    swarm.say(swarm.sessions[name], message);
  };
  for (int i = 0; i < 9; ++i) {
    beat("a", 5'000.0 + 30.0 * i);
    beat("b", i % 2 == 0 ? -1.0 : 1e300);
    if (i < 8) swarm.clock.advance(milliseconds(250));
  }
  const NodeStatus a = status_of(swarm, "a");
  EXPECT_EQ(a.energy_joules_total, 5'240.0);
  EXPECT_DOUBLE_EQ(a.watts, 120.0);
  EXPECT_EQ(status_of(swarm, "b").energy_joules_total, std::nullopt);
  EXPECT_EQ(status_of(swarm, "b").watts, 0.0);
}

TEST_F(WorkerSessionsTest, AWorkersAddressIsOnTheMachineOfItsSession) {
  for (const std::string host : {"10.0.0.9", "10.0.0.5"}) {
    WorkerMessage message;
    *message.mutable_register_() = testing::worker("desk");
    message.mutable_register_()->set_data_address(host + ":22");
    const LinkId link = swarm.control.incoming();
    swarm.control.hosts[link] = "10.0.0.5";
    swarm.sessions["desk"] = link;
    swarm.say(link, message);
    const std::string reason = last_told("desk").refused().reason();
    EXPECT_EQ(reason.find("data_address") != std::string::npos, host == "10.0.0.9");
  }
}

TEST_F(WorkerSessionsTest, WhoIsRemovedFromTheRosterIsNotShownAsLost) {
  register_worker("a", 0);
  register_worker("b", 0);
  const auto publish = [&](std::uint64_t number, const std::vector<std::string>& names) {
    Roster roster;
    roster.number = number;
    for (const std::string& name : names) {
      roster.entries.push_back({SecretKey::generate().public_key(), name, Role::kWorker, {}});
    }
    swarm.machine->publish_roster(*sign_roster(roster, SecretKey::generate()));
  };
  publish(1, {"a", "b"});
  swarm.control.lose(swarm.sessions["b"]);
  swarm.machine->on_timer();
  EXPECT_EQ(status_of(swarm, "b").state, "lost");
  publish(2, {"a"});
  swarm.machine->on_timer();
  EXPECT_EQ(swarm.machine->status().nodes.size(), 1u);
}

TEST_F(WorkerSessionsTest, AnAdminsOrderReachesTheWorkerThatItNames) {
  register_worker("a", 0);
  EXPECT_TRUE(swarm.machine->order("a", Away{true, 70, ""}).ok());
  ASSERT_TRUE(last_told("a").has_host_order());
  EXPECT_TRUE(last_told("a").host_order().away().drain());
  EXPECT_EQ(last_told("a").host_order().away().until(), 70);
  EXPECT_TRUE(swarm.machine->order("a", std::nullopt).ok());
  EXPECT_FALSE(last_told("a").host_order().has_away());
  EXPECT_EQ(swarm.machine->order("b", std::nullopt).error().code, ErrorCode::kNotFound);
  swarm.control.lose(swarm.sessions["a"]);
  EXPECT_EQ(swarm.machine->order("a", std::nullopt).error().code, ErrorCode::kNotFound);
}

// It would end its session over a message of an unknown kind.
TEST_F(WorkerSessionsTest, AnOlderWorkerIsGivenNoOrder) {
  WorkerMessage message;
  *message.mutable_register_() = testing::worker("old");
  message.mutable_register_()->set_protocol_version(kProtocolOrders - 1);
  swarm.sessions["old"] = swarm.control.incoming();
  swarm.say(swarm.sessions["old"], message);
  EXPECT_EQ(swarm.machine->order("old", Away{}).error().code, ErrorCode::kVersion);
  EXPECT_FALSE(last_told("old").has_host_order());
}

TEST_F(WorkerSessionsTest, StagesUseTheOldestProtocolAmongThem) {
  register_worker("a", 0);
  WorkerMessage message;
  *message.mutable_register_() = testing::worker("old");
  message.mutable_register_()->set_protocol_version(kProtocolDraftModel - 1);
  swarm.sessions["old"] = swarm.control.incoming();
  swarm.say(swarm.sessions["old"], message);
  for (const char* name : {"a", "old"}) {
    ASSERT_TRUE(last_told(name).has_assign()) << name;
    EXPECT_EQ(last_told(name).assign().protocol(), kProtocolDraftModel - 1) << name;
  }
}

}  // namespace
}  // namespace hearth::coordinator
