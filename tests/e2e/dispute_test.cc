// hearth verify --dispute as a process, on files of disputes that end in every way.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../unit/node/proof/disputed.h"

namespace hearth::node {
namespace {

struct Said {
  int code = -1;
  std::string out;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct DisputeVerb : ::testing::Test {
  void SetUp() override {
    folder =
        std::filesystem::temp_directory_path() / ("hearth-dispute-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    write("model.gguf", of.bytes);
    liar = of.liar([](std::uint32_t position, const ledger::TraceSlot& slot, Bytes& value) {
      if (position == 6 && slot == ledger::TraceSlot{ledger::TraceOp::kUp, 1}) {
        for (std::byte& byte : value) byte ^= std::byte{3};
      }
    });
    file = of.play(*liar, *of.honest, 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, const Bytes& bytes) const {
    const std::string path = (folder / name).string();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  Said verify(const std::string& path, const std::string& flags,
              const std::string& errors = "2>/dev/null") const {
    const std::string command = "timeout 60 " + std::string(std::getenv("HEARTH_BINARY")) +
                                " verify --dispute " + path + " " + flags;
    std::FILE* pipe = ::popen((command + " " + errors).c_str(), "r");
    Said said;
    std::array<char, 4'096> part{};
    for (std::size_t count; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
      said.out.append(part.data(), count);
    }
    const int status = ::pclose(pipe);
    said.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return said;
  }

  Disputed of{disputed_model("llama"), {0, 2}};
  std::unique_ptr<Tracer> liar;
  ledger::DisputeFile file;
  std::filesystem::path folder;
};

TEST_F(DisputeVerb, NamesWhoIsWrongAndWhere) {
  const std::string path = write("dispute", write_dispute(file).value());
  const Said said = verify(path, "--json");
  ASSERT_EQ(said.code, 0) << said.out;
  const auto json = said.json();
  EXPECT_EQ(json["guilty"], nlohmann::json::array({"worker"}));
  EXPECT_EQ(json["worker"], of.worker.public_key().hex());
  EXPECT_EQ(json["where"]["stage"], 0);
  EXPECT_EQ(json["where"]["position"], 6);
  EXPECT_EQ(json["where"]["layer"], 1);
  EXPECT_EQ(json["where"]["operation"], "up");
  EXPECT_EQ(json["weights"], "signed by both");
  EXPECT_EQ(json["discloses"], nlohmann::json::array({"salt", "activations"}));
  const Said text = verify(path, "--key " + of.cluster.public_key().hex());
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("stage 0, position 6, layer 1, up"), std::string::npos) << text.out;
}

TEST_F(DisputeVerb, TiesTheWeightsToAModelFile) {
  const std::string path = write("dispute", write_dispute(file).value());
  const Said said = verify(path, "--json --model " + (folder / "model.gguf").string());
  ASSERT_EQ(said.code, 0) << said.out;
  EXPECT_EQ(said.json()["weights"], "model");
  model::SyntheticOptions options = disputed_model("llama");
  options.layers = 4;
  const std::string other = write("other.gguf", model::synthetic_model_bytes(options).value());
  EXPECT_EQ(verify(path, "--model " + other).code, 6) << "another model proves nothing";
}

TEST_F(DisputeVerb, AFileThatProvesNothingIsSaidToBeNone) {
  Bytes bytes = write_dispute(file).value();
  bytes[bytes.size() / 2] ^= std::byte{1};
  const Said doctored = verify(write("doctored", bytes), "--json");
  EXPECT_EQ(doctored.code, 6) << doctored.out;
  EXPECT_EQ(doctored.json()["decided"], false);
  ledger::DisputeFile open = file;
  open.moves.pop_back();
  const Said unfinished = verify(write("open", write_dispute(open).value()), "--json");
  EXPECT_EQ(unfinished.code, 6) << unfinished.out;
  EXPECT_EQ(unfinished.json()["guilty"], nlohmann::json::array());
  EXPECT_NE(verify((folder / "nowhere").string(), "").code, 0);
  const std::string whole = write("dispute", write_dispute(file).value());
  EXPECT_EQ(verify(whole, "--key " + std::string(64, '0')).code, 6) << "of another cluster";
}

TEST_F(DisputeVerb, WhatCannotBeReadAsAFileIsSaidAtOnce) {
  const std::string fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Said said = verify(fifo, "", "2>&1");
  EXPECT_NE(said.code, 0);
  EXPECT_NE(said.code, 124) << "it waits for ever";
  EXPECT_NE(said.out.find("is no plain file"), std::string::npos) << said.out;
  EXPECT_NE(verify(folder.string(), "", "2>&1").out.find("is no plain file"), std::string::npos);
  const std::string large = write("large", {});
  std::filesystem::resize_file(large, ledger::kDisputeFileBytes + 1);
  EXPECT_NE(verify(large, "", "2>&1").out.find("has 67108865 bytes"), std::string::npos);
  const Said key = verify(write("dispute", write_dispute(file).value()), "--key zz", "2>&1");
  EXPECT_NE(key.code, 0);
  EXPECT_NE(key.out.find("--key: a cluster's key is 64 hex digits"), std::string::npos) << key.out;
  EXPECT_EQ(key.out.find("proves nothing"), std::string::npos) << key.out;
}

}  // namespace
}  // namespace hearth::node
