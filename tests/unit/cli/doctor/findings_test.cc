#include "cli/doctor/findings.h"

#include <gtest/gtest.h>

#include <map>

namespace hearth::cli {
namespace {

using Findings = std::vector<Finding>;

// "warning: sudo ..." for each finding.
std::string told(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += std::string(health_name(finding.health)) + ": " + finding.mend + "\n";
  }
  return out;
}

ClockFacts::Source source(double offset, double uncertainty = 0.5) {
  return {"the server", "", offset, uncertainty};
}

TEST(DoctorClock, SecondsAreTolerable) {
  for (const auto& [offset, health] : std::map<double, Health>{{-0.4, Health::kOk},
                                                               {0.5, Health::kOk},
                                                               {2.4, Health::kOk},
                                                               {2.6, Health::kWarning},
                                                               {-59.0, Health::kWarning},
                                                               {61.0, Health::kFailed},
                                                               {-1e9, Health::kFailed}}) {
    const Findings found = judge_clock({true, {source(offset)}}, false);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].health, health) << offset;
    EXPECT_EQ(found[0].mend, health == Health::kOk ? "" : "sudo timedatectl set-ntp true");
  }
  EXPECT_NE(judge_clock({true, {source(9.0)}}, false)[0].text.find("9.0 s behind the server"),
            std::string::npos);
  EXPECT_NE(judge_clock({true, {source(-9.0)}}, false)[0].text.find("ahead of"), std::string::npos);
  EXPECT_EQ(judge_clock({true, {source(70.0)}}, true)[0].mend, "sudo hwclock -s");
  EXPECT_EQ(judge_clock({true, {source(70.0, 80.0)}}, false)[0].health, Health::kOk)
      << "an answer that took so long says nothing";
}

TEST(DoctorClock, WhatIsNotKnownIsNotJudged) {
  EXPECT_EQ(told(judge_clock({std::nullopt, {}}, false)), "skipped: \n");
  EXPECT_EQ(told(judge_clock({true, {}}, false)), "ok: \n");
  EXPECT_EQ(told(judge_clock({false, {}}, false)), "warning: sudo timedatectl set-ntp true\n");
  EXPECT_EQ(told(judge_clock({true, {{"x", "no answer", 0, 0}}}, false)), "warning: \nok: \n");
}

ServerFacts server(std::vector<ServerFacts::Port> ports) {
  ServerFacts facts;
  facts.file = "/d/serve.json";
  facts.pid = 77;
  facts.alive = true;
  facts.api_port = 11'500;
  facts.api_port_taken = true;
  facts.ports = std::move(ports);
  return facts;
}

TEST(DoctorPorts, WithoutAServer) {
  ServerFacts facts;
  facts.api_port = 11'500;
  EXPECT_EQ(told(judge_ports(facts)), "ok: \n");
  facts.api_port_taken = true;
  EXPECT_EQ(told(judge_ports(facts)), "warning: ss -ltnp 'sport = :11500'\n");
}

TEST(DoctorPorts, AServerThatWasKilledIsSaid) {
  ServerFacts facts = server({});
  facts.alive = false;
  facts.api_port_taken = false;
  EXPECT_EQ(told(judge_ports(facts)), "warning: rm /d/serve.json\nok: \n");
}

TEST(DoctorPorts, OfARunningServer) {
  EXPECT_EQ(told(judge_ports(server({{"api", 11'500, true, false, true},
                                     {"control", 4001, true, false, std::nullopt}}))),
            "ok: \nok: \n");
  EXPECT_EQ(told(judge_ports(server({{"api", 11'500, true, false, false}}))), "failed: kill 77\n");
  EXPECT_EQ(told(judge_ports(server({{"api", 11'500, false, false, std::nullopt}}))),
            "failed: kill 77\n");
}

TEST(DoctorCoordinator, EveryOutcome) {
  CoordinatorFacts facts;
  facts.address = "http://den:11500";
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "skipped: \n") << "no server is no fault";
  facts.member = "10.0.0.1:11501";
  EXPECT_NE(judge_coordinator(facts, "1").front().text.find("10.0.0.1:11501"), std::string::npos);
  facts.named = true;
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "skipped: \n") << "--offline";
  facts.asked = true;
  facts.version = "1";
  facts.ready = true;
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "ok: \n");
  EXPECT_EQ(told(judge_coordinator(facts, "2")), "warning: \n");
  facts.ledger_ahead_seconds = 34'560'000;
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "ok: \nwarning: timedatectl\n");
  facts.ledger_ahead_seconds = 2;
  facts.store = {"postgresql://db/h", 3, "den", "10.0.0.1:1"};
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "ok: \nok: \n");
  facts.store->away = "it is away";
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "ok: \nwarning: \n");
  facts.store.reset();
  facts.ready = false;
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "ok: \nwarning: hearth status\n");
  facts.refused = "no key";
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "warning: hearth doctor --api-key hk1...\n");
  facts.error = "no answer";
  EXPECT_EQ(told(judge_coordinator(facts, "1")), "failed: hearth serve --model MODEL\n");
}

TEST(DoctorDriver, NoCardIsNoFault) {
  DriverFacts facts;
  EXPECT_EQ(told(judge_driver(facts, false)), "ok: \n");
  facts.library = true;  // of a container's image
  EXPECT_EQ(told(judge_driver(facts, false)), "ok: \n");
}

TEST(DoctorDriver, ACardWithoutItsDriver) {
  DriverFacts facts;
  facts.cards = 1;
  facts.distribution = "debian";
  EXPECT_EQ(told(judge_driver(facts, false)),
            "warning: sudo apt install nvidia-driver && sudo reboot\n");
  facts.distribution = "ubuntu";
  EXPECT_EQ(told(judge_driver(facts, false)),
            "warning: sudo ubuntu-drivers install && sudo reboot\n");
  facts.distribution = "other";
  EXPECT_EQ(told(judge_driver(facts, false)), "warning: \n");
}

TEST(DoctorDriver, ADriverThatIsThere) {
  DriverFacts facts;
  facts.cards = 1;
  facts.kernel_module = "535.183.01";
  facts.distribution = "debian";
  EXPECT_EQ(told(judge_driver(facts, false)), "warning: sudo apt install libcuda1\n");
  facts.library = true;
  facts.cuda = 12'020;
  facts.init = 0;
  EXPECT_EQ(judge_driver(facts, false)[0].text, "NVIDIA's 535.183.01, CUDA 12.2");
  facts.init = 803;
  EXPECT_EQ(told(judge_driver(facts, false)), "failed: sudo reboot\n");
  facts.init = 100;
  EXPECT_EQ(told(judge_driver(facts, false)), "warning: nvidia-smi\n");
  facts.init = 999;
  EXPECT_EQ(told(judge_driver(facts, false)), "failed: nvidia-smi\n");
}

TEST(DoctorDriver, OfWindowsUnderWsl) {
  DriverFacts facts;
  facts.library = true;
  facts.init = 0;
  EXPECT_EQ(judge_driver(facts, true)[0].text, "NVIDIA's of Windows");
  facts.init = 100;
  EXPECT_EQ(told(judge_driver(facts, true)), "ok: \n");
}

TEST(DoctorWsl, EachModeHasItsLines) {
  EXPECT_TRUE(judge_wsl({0, false}, 11'500).empty());
  EXPECT_EQ(judge_wsl({1, false}, 11'500)[0].health, Health::kFailed);
  const Finding nat = judge_wsl({2, false}, 11'500)[0];
  EXPECT_EQ(nat.health, Health::kWarning);
  EXPECT_NE(nat.mend.find(R"([wsl2]\nnetworkingMode=mirrored\n)"), std::string::npos);
  const Finding mirrored = judge_wsl({2, true}, 4711)[0];
  EXPECT_NE(mirrored.mend.find("-Action Allow -LocalPorts 4711"), std::string::npos);
}

TEST(DoctorDisk, RoomRightsAndFiles) {
  DiskFacts facts{"/m", "", true, 50'000'000'000, 7, true};
  EXPECT_EQ(told(judge_disk(facts)), "ok: \n");
  facts.free_bytes = 9'999'999'999;
  EXPECT_EQ(judge_disk(facts)[0].health, Health::kWarning);
  facts.free_bytes = 999'999'999;
  EXPECT_EQ(judge_disk(facts)[0].health, Health::kFailed);
  facts.free_bytes = 50'000'000'000;
  facts.free_files = 0;
  EXPECT_EQ(judge_disk(facts)[0].health, Health::kFailed);
  facts.counts_files = false;
  EXPECT_EQ(judge_disk(facts)[0].health, Health::kOk);
  facts.writable = false;
  EXPECT_EQ(told(judge_disk(facts)), "failed: sudo chown -R \"$(id -u)\" /m\n");
  facts.error = "no such file";
  EXPECT_EQ(told(judge_disk(facts)), "failed: mkdir -p /m\n");
}

TEST(DoctorPermissions, SecretsAreTheirOwnersAlone) {
  EXPECT_EQ(told(judge_permissions("/d", {})), "ok: \n");
  EXPECT_EQ(told(judge_permissions("/d", {{"/d", 0700, true, true},
                                          {"/d/node.key", 0600, false, true},
                                          {"/d/old.key", 0400, false, true}})),
            "ok: \n");
  EXPECT_EQ(told(judge_permissions("/d e", {{"/d e", 0755, true, true},
                                            {"/d e/node.key", 0640, false, true},
                                            {"/d e/roster", 0600, false, false}})),
            "failed: chmod 700 '/d e'\n"
            "failed: chmod 600 '/d e/node.key'\n"
            "failed: sudo chown \"$(id -u)\" '/d e/roster'\n");
}

TEST(DoctorLimits, FilesForEveryConnection) {
  EXPECT_EQ(told(judge_limits({1024, 524'288})), "ok: \n");
  EXPECT_EQ(told(judge_limits({256, 524'288})), "warning: ulimit -n 4096\n");
  EXPECT_EQ(told(judge_limits({256, 1024})), "warning: ulimit -n 1024\n");
  EXPECT_EQ(judge_limits({256, 512})[0].mend.find("echo"), 0U);
}

TEST(Doctor, AWholeMachineIsJudgedInOrder) {
  const Findings found = judge(MachineFacts(), "1");
  std::string checks;
  for (const Finding& finding : found) checks += finding.check + " ";
  EXPECT_EQ(checks, "coordinator clock ports reach driver disk permissions limits ");
}

TEST(Doctor, WordsOfAShell) {
  EXPECT_EQ(shell_quoted("/a/b-c_1.2"), "/a/b-c_1.2");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("a'b$(x)"), R"('a'\''b$(x)')");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(DoctorReach, SaysWhatTheCoordinatorSawAndTheLineThatMendsIt) {
  ReachFacts reach;
  reach.skipped = "no worker of this machine is connected";
  EXPECT_EQ(judge_reach(reach).front().health, Health::kSkipped);
  reach = {"", "10.0.0.2:4000", "", 1.5};
  EXPECT_EQ(judge_reach(reach).front().health, Health::kOk);
  reach.error = "no answer within 3 s";
  const Finding failed = judge_reach(reach).front();
  EXPECT_EQ(failed.health, Health::kFailed);
  EXPECT_NE(failed.text.find("10.0.0.2:4000: no answer"), std::string::npos);
  EXPECT_EQ(failed.mend,
            "sudo ufw allow 4000/tcp\n"
            "sudo firewall-cmd --permanent --add-port=4000/tcp && sudo firewall-cmd --reload\n"
            "sudo nft insert rule inet filter input tcp dport 4000 accept");
}

}  // namespace
}  // namespace hearth::cli
