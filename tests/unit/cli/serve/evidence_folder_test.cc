#include "cli/serve/evidence_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "coordinator/proof/kept_verdict.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

struct EvidenceFolderTest : ::testing::Test {
  EvidenceFolderTest() {
    std::string name = (fs::temp_directory_path() / "hearth-evidence-XXXXXX").string();
    above = ::mkdtemp(name.data());
    folder = (above / "ledger" / "disputes").string();
  }
  ~EvidenceFolderTest() override { fs::remove_all(above); }
  Hash256 keep(const std::string& text) {
    const Hash256 hash = blake2b(as_bytes(text));
    EXPECT_TRUE(keep_verdict(folder, hash, as_bytes(text)).ok());
    return hash;
  }
  std::string evidence(const std::string& lines) {
    return std::string(coordinator::kVerdictEvidence) + lines;
  }
  fs::path above;
  std::string folder;
};

TEST_F(EvidenceFolderTest, WhatWasKeptIsReadAgainWhereItIsWhole) {
  EXPECT_TRUE(kept_verdicts(folder).empty()) << "there is no folder yet";
  keep(evidence("entry 1\n"));
  const Hash256 game = keep("HRD1 and what a game leaves");
  keep(evidence("entry 2\ndispute " + game.hex() + "\n"));
  keep(evidence("entry 3\ndispute " + Hash256().hex() + "\n"));  // whose file is not there
  const Hash256 damaged = keep(evidence("entry 4\n"));
  std::ofstream(folder + "/" + damaged.hex(), std::ios::app) << "more\n";
  std::ofstream(folder + "/notes") << evidence("entry 5\n");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  std::string all;
  for (const Bytes& one : kept_verdicts(folder)) all += std::string(as_text(one));
  for (const char* whole : {"entry 1", "entry 2"}) EXPECT_NE(all.find(whole), std::string::npos);
  for (const char* part : {"entry 3", "entry 4", "entry 5", "HRD1"}) {
    EXPECT_EQ(all.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace hearth::cli
