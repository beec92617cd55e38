#include "cli/home/reboot.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

class RebootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hearth-reboot-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void make(const std::string& folder, const std::string& file) const {
    fs::create_directories(root_ / folder);
    if (!file.empty()) std::ofstream(root_ / folder / file) << "x";
  }
  void enable(const std::string& unit) const {
    const fs::path folder = root_ / "etc/systemd/system/multi-user.target.wants";
    fs::create_directories(folder);
    fs::create_symlink("/lib/systemd/system/" + unit, folder / unit);
  }
  std::string text(Part part) const { return reboot_text(read_reboot(root_), part); }

  fs::path root_;
};

TEST_F(RebootTest, WithoutSystemdNothingIsSaid) {
  enable("hearth-server.service");
  for (const Part part : {Part::kNone, Part::kServer, Part::kWorker}) EXPECT_EQ(text(part), "");
}

TEST_F(RebootTest, WhatIsEnabledStarts) {
  make("run/systemd/system", "");
  enable("hearth-server.service");
  EXPECT_EQ(text(Part::kNone), "hearth-server starts with this machine");
  EXPECT_EQ(text(Part::kServer), "hearth-server starts with this machine");
  EXPECT_EQ(text(Part::kWorker).find("this worker does not start with this machine; "), 0U);
  enable("hearth-worker.service");
  EXPECT_EQ(text(Part::kWorker), "hearth-server and hearth-worker start with this machine");
}

TEST_F(RebootTest, WhatDoesNotStartNamesTheNextStep) {
  make("run/systemd/system", "");
  EXPECT_EQ(text(Part::kNone), "");
  EXPECT_EQ(text(Part::kServer),
            "this server does not start with this machine; the services of the package do: "
            "docs/install.md, or deploy/install.sh");
  make("usr/lib/systemd/system", "hearth-server.service");
  EXPECT_EQ(text(Part::kServer),
            "this server does not start with this machine; to have a service: sudo hearth-service "
            "init NAME, then sudo systemctl enable --now hearth-server");
  EXPECT_EQ(text(Part::kWorker),
            "this worker does not start with this machine; to have a service: sudo hearth-service "
            "join TOKEN, then sudo systemctl enable --now hearth-worker");
}

}  // namespace
}  // namespace hearth::cli
