#include "cli/serve/evidence_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ledger/dispute/evidence.h"

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
    return std::string(ledger::kVerdictEvidence) + lines;
  }
  fs::path above;
  std::string folder;
};

TEST_F(EvidenceFolderTest, WhatWasKeptIsReadAgainWhereItIsWhole) {
  EXPECT_TRUE(kept_verdicts(folder).empty()) << "there is no folder yet";
  keep(evidence("entry 1\n"));
  keep("something else");
  keep(evidence("entry 2\n"));
  const Hash256 damaged = keep(evidence("entry 4\n"));
  std::ofstream(folder + "/" + damaged.hex(), std::ios::app) << "more\n";
  std::ofstream(folder + "/notes") << evidence("entry 5\n");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  std::string all;
  for (const Bytes& one : kept_verdicts(folder)) all += std::string(as_text(one));
  for (const char* whole : {"entry 1", "entry 2"}) EXPECT_NE(all.find(whole), std::string::npos);
  for (const char* part : {"entry 4", "entry 5", "something else"}) {
    EXPECT_EQ(all.find(part), std::string::npos) << part;
  }
}

// As the next leader reads it, on another disk.
TEST_F(EvidenceFolderTest, EvidenceOfAStoredLogIsWithTheLogAndHere) {
  const auto log = [&] {
    return *ledger::open_log_folder((above / "log").string(), ledger::LogAccess::kCreate);
  };
  const std::string text = evidence("entry 1\n");
  {
    const Evidence first = evidence_in(folder, log());
    EXPECT_TRUE(first.kept().empty());
    EXPECT_TRUE(first.keep(blake2b(as_bytes(text)), as_bytes(text)).ok());
  }
  EXPECT_EQ(kept_verdicts(folder).size(), 1U) << "for hearth verify";
  fs::remove_all(folder);
  const auto found = evidence_in(folder, log()).kept();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(as_text(found[0]), text);
}

}  // namespace
}  // namespace hearth::cli
