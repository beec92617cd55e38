#include "cli/models/pull.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/models/hub.h"
#include "model/synthetic.h"
#include "tests/unit/coordinator/client/web_server.h"

namespace hearth::cli {
namespace {

using client::reply;
using client::WebServer;

namespace fs = std::filesystem;

struct PullTest : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("hearth-pull-" + std::to_string(getpid()));
  std::string file;  // a GGUF file's bytes

  void SetUp() override {
    fs::create_directories(folder);
    setenv("HEARTH_CACHE_DIR", (folder / "cache").c_str(), 1);
    setenv("HEARTH_MODELS", (folder / "models").c_str(), 1);
    model::SyntheticOptions options;
    options.layers = 1;
    const Bytes bytes = model::synthetic_model_bytes(options).value();
    file.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::ofstream(folder / "My Model.gguf", std::ios::binary) << file;
  }
  void TearDown() override {
    for (const char* name : {"HEARTH_CACHE_DIR", "HEARTH_MODELS", "HF_ENDPOINT"}) unsetenv(name);
    fs::remove_all(folder);
  }
  static PullOptions from(const std::string& source, const std::string& name = "") {
    PullOptions options;
    options.source = source;
    options.name = name;
    options.quiet = true;
    return options;
  }
  std::string digest() { return sha256_of_file(folder / "My Model.gguf", "", true).value(); }
  std::string pulled(const std::string& name) {
    std::ifstream in(folder / "models" / (name + ".gguf"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool left_over(const std::string& name) {
    return fs::exists(folder / "models" / ("." + name + ".incomplete"));
  }
};

TEST_F(PullTest, NamesThatAreNoFileNamesAreRefusedBeforeAnythingIsWritten) {
  for (const char* name : {"../x", ".hidden", "a/b", "A", "a b", "..", "a\nb"}) {
    const auto refused = pull_model(from((folder / "My Model.gguf").string(), name));
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput) << name;
  }
  PullOptions upper = from((folder / "My Model.gguf").string());
  for (const std::string& sha : {std::string("abc"), std::string(64, 'A'), std::string(65, '0')}) {
    upper.sha256 = sha;
    EXPECT_FALSE(pull_model(upper).ok()) << sha;
  }
  for (const char* source :
       {"http://example.org/m.gguf", "ftp://x/m.gguf", "file:///m.gguf",
        "http://127.0.0.1.evil.org/m.gguf", "http://localhostx/m.gguf",
        "http://127.0.0.1:80@example.org/m.gguf", "hf:only/repo", "hf:a/../b/m.gguf"}) {
    EXPECT_EQ(pull_model(from(source, "m")).error().code, ErrorCode::kInvalidInput) << source;
  }
  EXPECT_FALSE(fs::exists(folder / "models" / "m.gguf"));
}

TEST_F(PullTest, ALocalFileIsTakenUnderItsSafeNameAndLeavesNothingBehind) {
  PullOptions options = from((folder / "My Model.gguf").string());
  for (int round = 0; round < 2; ++round) {
    const auto model = pull_model(options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->name, "my-model");
    EXPECT_EQ(model->sha256, digest());
    EXPECT_EQ(pulled("my-model"), file);
    EXPECT_FALSE(left_over("my-model"));
    options.force = true;
  }
  options.sha256 = std::string(64, '0');
  EXPECT_NE(pull_model(options).error().message.find(digest()), std::string::npos);
  EXPECT_EQ(pulled("my-model"), file) << "a bad copy replaces nothing";
  std::ofstream(folder / "text.gguf") << "not a model";
  EXPECT_NE(pull_model(from((folder / "text.gguf").string())).error().message.find("GGUF"),
            std::string::npos);
  EXPECT_FALSE(left_over("text"));
}

TEST_F(PullTest, WhatChangesInTheLocalFileLaterIsNotPulled) {
  const fs::path source = folder / "My Model.gguf";
  ASSERT_TRUE(pull_model(from(source.string())).ok());
  std::fstream(source, std::ios::binary | std::ios::in | std::ios::out) << "gone";
  EXPECT_EQ(pulled("my-model"), file);
}

TEST_F(PullTest, SecretsOfAnAddressAreNeitherKeptNorShown) {
  bool page = false;
  WebServer server([&](const std::string& head) {
    return reply("200 OK", "", page ? std::string("<html>") : file, head);
  });
  std::string address = server.address() + "/m.gguf?sig=query-secret";
  address.insert(std::string("http://").size(), "user:pass-secret@");
  const auto model = pull_model(from(address));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_NE(model->source.find("/m.gguf?..."), std::string::npos) << model->source;
  EXPECT_FALSE(may_be_published(model->source));
  PullOptions again = from(address, "other");
  page = true;
  const auto refused = pull_model(again);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("it is a web page"), std::string::npos);
  std::string kept = refused.error().message;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream in(entry.path());
    kept.append(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_EQ(kept.find("secret"), std::string::npos) << kept;
}

TEST_F(PullTest, AManifestMakesNobodyAskOverHttp) {
  for (const char* source : {"hf:org/repo/m.gguf@main", "https://a.org/m.gguf?sig=1"}) {
    EXPECT_TRUE(may_be_asked(source)) << source;
  }
  for (const char* source : {"http://a.org/m.gguf", "http://127.0.0.1:80/m.gguf", "/home/m.gguf",
                             "file:///home/m.gguf", "ftp://a.org/m.gguf", ""}) {
    EXPECT_FALSE(may_be_asked(source)) << source;
  }
}

TEST_F(PullTest, OnlySourcesWithoutSecretsMayBePublished) {
  for (const char* source : {"hf:org/repo/m.gguf@main", "https://a.org/m.gguf"}) {
    EXPECT_TRUE(may_be_published(source)) << source;
  }
  for (const char* source : {"http://a.org/m.gguf", "https://u:p@a.org/m.gguf", "/home/m.gguf",
                             "https://a.org/m.gguf?sig=1", "https://a.org/m.gguf#x"}) {
    EXPECT_FALSE(may_be_published(source)) << source;
  }
}

TEST_F(PullTest, APageOfAHubIsNoModelAndTheHintNamesTheFile) {
  WebServer server(
      [&](const std::string& head) { return reply("200 OK", "", "<!doctype html>", head); });
  const auto refused = pull_model(from(server.address() + "/org/repo/blob/main/m.gguf"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(server.address() + "/org/repo/resolve/main/m.gguf"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(PullTest, NamesOfAHubAreEncoded) {
  WebServer hub([&](const std::string& head) { return reply("200 OK", "", file, head); });
  setenv("HF_ENDPOINT", hub.address().c_str(), 1);
  const auto model = pull_model(from("hf:org/repo/a b/my model?#%.gguf@refs/pr/1", "m"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(hub.heads()[0].starts_with(
      "HEAD /org/repo/resolve/refs%2Fpr%2F1/a%20b/my%20model%3F%23%25.gguf "))
      << hub.heads()[0];
}

TEST_F(PullTest, ARenamedRepositoryIsFollowedToItsDigestAndCommit) {
  std::string upper = digest();
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  WebServer hub([&](const std::string& head) {
    if (head.find(" /old/") != std::string::npos) {
      return reply("307 Temporary Redirect", "Location: /new/repo/resolve/main/m.gguf\r\n", "",
                   head);
    }
    return reply("200 OK", "X-Linked-Etag: \"" + upper + "\"\r\nX-Repo-Commit: abc\r\n", file,
                 head);
  });
  setenv("HF_ENDPOINT", hub.address().c_str(), 1);
  PullOptions options = from("hf:old/repo/m.gguf");
  const auto model = pull_model(options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(hub.heads().back().starts_with("GET /new/repo/resolve/abc/m.gguf "));
  file[file.size() - 1] ^= 1;
  options.force = true;
  EXPECT_NE(pull_model(options).error().message.find("SHA-256"), std::string::npos);
}

TEST_F(PullTest, TheHubsEtagIsTheDigestHoweverItIsQuoted) {
  const auto pull_with = [&](const std::string& etag) {
    WebServer hub([&](const std::string& head) {
      return reply("200 OK", "X-Linked-Etag: " + etag + "\r\n", file, head);
    });
    setenv("HF_ENDPOINT", hub.address().c_str(), 1);
    PullOptions options = from("hf:org/repo/m.gguf", "hub");
    options.force = true;
    const auto model = pull_model(options);
    EXPECT_TRUE(hub.heads()[0].starts_with("HEAD /org/repo/resolve/main/m.gguf "));
    return model.ok() ? std::string("ok") : model.error().message;
  };
  const std::string wrong(64, '0');
  for (const std::string& quoted : {"\"" + digest() + "\"", "W/\"" + digest() + "\"", digest()}) {
    EXPECT_EQ(pull_with(quoted), "ok") << quoted;
  }
  for (const std::string& quoted : {"\"" + wrong + "\"", "W/\"" + wrong + "\"", wrong}) {
    EXPECT_NE(pull_with(quoted).find("expected " + wrong), std::string::npos) << quoted;
  }
  EXPECT_EQ(pull_with("\"d41d8cd98f00b204e9800998ecf8427e\""), "ok");  // another kind of tag
}

// A server that honours ranges when `ranges`; the first answer breaks off after `cut` bytes.
TEST_F(PullTest, ABrokenDownloadGoesOnWhereItStoppedOrFromTheStart) {
  for (const bool ranges : {true, false}) {
    int gets = 0;
    WebServer server([&](const std::string& head) {
      if (head.starts_with("HEAD")) return reply("200 OK", "", file, head);
      if (++gets == 1) {
        std::string whole = reply("200 OK", "", file, head);
        return whole.substr(0, whole.size() - file.size() / 2);
      }
      const auto range = head.find("ange: bytes=");
      EXPECT_NE(range, std::string::npos) << head;
      if (!ranges || range == std::string::npos) return reply("200 OK", "", file, head);
      const std::size_t begin = std::stoul(head.substr(range + 12));
      EXPECT_EQ(begin, file.size() - file.size() / 2);
      return reply("206 Partial Content",
                   "Content-Range: bytes " + std::to_string(begin) + "-" +
                       std::to_string(file.size() - 1) + "/" + std::to_string(file.size()) + "\r\n",
                   file.substr(begin), head);
    });
    const auto model = pull_model(from(server.address() + "/m.gguf?x=1", ranges ? "a" : "b"));
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(pulled(model->name), file);
    EXPECT_EQ(gets, 2);
  }
}

// A server that does not tell the size, and a file that is here whole from a pull that was stopped:
// there is nothing after its last byte.
TEST_F(PullTest, ARangeThatTheServerDoesNotHaveStartsOver) {
  int gets = 0;
  WebServer server([&](const std::string& head) {
    if (head.starts_with("HEAD")) return reply("405 Method Not Allowed", "", "", head);
    ++gets;
    if (head.find("ange: bytes=") != std::string::npos) {
      return reply("416 Range Not Satisfiable", "", "", head);
    }
    return reply("200 OK", "", file, head);
  });
  fs::create_directories(folder / "models");
  std::ofstream(folder / "models" / ".m.incomplete", std::ios::binary) << file;
  std::ofstream(folder / "models" / ".m.incomplete.json")
      << "{\"url\":\"" + server.address() + "/m.gguf\",\"sha256\":\"\"}";
  const auto model = pull_model(from(server.address() + "/m.gguf"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(pulled("m"), file);
  EXPECT_EQ(gets, 2);
}

TEST_F(PullTest, ARangeThatBeginsElsewhereIsFetchedAnew) {
  WebServer server([&](const std::string& head) {
    if (head.find("ange: bytes=") == std::string::npos) return reply("200 OK", "", file, head);
    return reply("206 Partial Content",
                 "Content-Range: bytes 0-9/" + std::to_string(file.size()) + "\r\n",
                 file.substr(0, 10), head);
  });
  fs::create_directories(folder / "models");
  std::ofstream(folder / "models" / ".m.incomplete", std::ios::binary) << file.substr(0, 100);
  std::ofstream(folder / "models" / ".m.incomplete.json")
      << "{\"url\":\"" + server.address() + "/m.gguf\",\"sha256\":\"\"}";
  const auto model = pull_model(from(server.address() + "/m.gguf"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(pulled("m"), file);
}

TEST_F(PullTest, StatusesThatMeanNoEndAtOnce) {
  for (const char* status : {"404 Not Found", "403 Forbidden", "410 Gone"}) {
    WebServer server([&](const std::string& head) { return reply(status, "", "page", head); });
    const auto refused = pull_model(from(server.address() + "/m.gguf"));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
    EXPECT_NE(refused.error().message.find(std::string(status).substr(0, 3)), std::string::npos);
    EXPECT_EQ(server.heads().size(), 2U) << "one HEAD, one GET, no second try";
  }
}

}  // namespace
}  // namespace hearth::cli
