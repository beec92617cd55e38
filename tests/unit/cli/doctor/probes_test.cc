#include "cli/doctor/probes.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(DoctorProbes, ListenersOfTheKernelsTable) {
  const auto found = read_listeners(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n"
      "   0: 0100007F:2CEC 00000000:0000 0A 00000000:00000000 00:00000000\n"
      "   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000\n"
      "   2: 0100007F:9C40 0100007F:2CEC 01 00000000:00000000 00:00000000\n"
      "   3: 00000000000000000000000001000000:1F90 0000:0000 0A 0:0 0:0\n"
      "   4: 00000000000000000000000000000000:1F91 0000:0000 0A 0:0 0:0\n"
      "   5: 0000000000000000FFFF00000100007F:1F92 0000:0000 0A 0:0 0:0\n");
  ASSERT_EQ(found.size(), 5U) << "a connection is no listener";
  EXPECT_EQ(found[0].port, 11'500);
  EXPECT_TRUE(found[0].loopback);
  EXPECT_EQ(found[1].port, 22);
  EXPECT_FALSE(found[1].loopback);
  EXPECT_TRUE(found[2].loopback);
  EXPECT_FALSE(found[3].loopback);
  EXPECT_TRUE(found[4].loopback);
}

TEST(DoctorProbes, LinesThatAreNoneAreLeftOut) {
  for (const char* bad : {"", "\n\n", "x", "0: 0100007F 0 0A", "0: 0100007F:zz 0 0A",
                          "0: 0100007F:10000 0 0A", "0: 0100007F:0000 0 0A", "0:"}) {
    EXPECT_TRUE(read_listeners(bad).empty()) << bad;
  }
}

TEST(DoctorProbes, ALockIsHeldByItsProcessAlone) {
  const std::string locks =
      "1: FLOCK  ADVISORY  WRITE 1234 08:01:131081 0 EOF\n"
      "1: -> FLOCK  ADVISORY  WRITE 55 08:01:131081 0 EOF\n"
      "2: POSIX  ADVISORY  READ 77 08:01:5 128 128\n";
  EXPECT_TRUE(holds_lock(locks, 1234, 131'081));
  EXPECT_FALSE(holds_lock(locks, 123, 131'081)) << "another process has its number now";
  EXPECT_FALSE(holds_lock(locks, 55, 131'081)) << "it waits";
  EXPECT_FALSE(holds_lock(locks, 1234, 31'081));
  EXPECT_FALSE(holds_lock(locks, 77, 5)) << "a database's";
  EXPECT_FALSE(holds_lock("", 1, 1));
}

TEST(DoctorProbes, VersionOfNvidiasModule) {
  EXPECT_EQ(nvidia_module_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun "
                                  "May 12 19:39:15 UTC 2024\nGCC version: gcc version 12.2.0\n"),
            "535.183.01");
  EXPECT_EQ(nvidia_module_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                                  "570.86.15  Release Build\n"),
            "570.86.15");
  EXPECT_EQ(nvidia_module_version(""), "");
  EXPECT_EQ(nvidia_module_version("no version\n1.2 3.4"), "");
}

TEST(DoctorProbes, Wsl) {
  EXPECT_EQ(wsl_version("6.1.0-44-amd64\n"), 0U);
  EXPECT_EQ(wsl_version("5.15.153.1-microsoft-standard-WSL2\n"), 2U);
  EXPECT_EQ(wsl_version("4.4.0-19041-Microsoft\n"), 1U);
  EXPECT_EQ(wsl_version(""), 0U);
}

TEST(DoctorProbes, ValuesOfAnOsRelease) {
  const std::string text = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n";
  EXPECT_EQ(value_of(text, "ID"), "debian");
  EXPECT_EQ(value_of(text, "VERSION_ID"), "12");
  EXPECT_EQ(value_of(text, "NAME"), "");
  EXPECT_EQ(value_of("", "ID"), "");
  EXPECT_EQ(value_of("ID=\"", "ID"), "\"");
}

TEST(DoctorProbes, TheDateOfAnAnswer) {
  HttpReply reply;
  EXPECT_NE(clock_of("x", reply, 0, 0).error, "");
  reply.headers["date"] = "yesterday";
  EXPECT_NE(clock_of("x", reply, 0, 0).error, "");
  reply.headers["date"] = "Sun, 06 Nov 1994 08:49:37 GMT";
  const auto source = clock_of("x", reply, 784'111'770.0, 784'111'772.0);
  EXPECT_EQ(source.error, "");
  EXPECT_DOUBLE_EQ(source.offset_seconds, 6.5);
  EXPECT_DOUBLE_EQ(source.uncertainty_seconds, 1.5);
}

}  // namespace
}  // namespace hearth::cli
