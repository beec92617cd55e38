#include "cli/models/pull.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "base/limits.h"
#include "cli/models/hub.h"
#include "model/gguf/parts.h"
#include "model/synthetic.h"
#include "tests/tools/parts_writer.h"
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
  std::string digest() { return sha256_of_file(folder / "My Model.gguf", {}).value(); }
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
  for (const char* source : {"http://example.org/m.gguf", "ftp://x/m.gguf", "file:///m.gguf",
                             "http://127.0.0.1.evil.org/m.gguf", "http://localhostx/m.gguf",
                             "http://127.0.0.1:80@example.org/m.gguf", "hf:only", "hf:a/..",
                             "hf:a/../b/m.gguf", "hf:a/b/m-00002-of-00003.gguf"}) {
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
  // A manifest with such a source is refused, and nodes could not join.
  for (const std::string& source :
       {std::string("hf:org/repo/my model.gguf"), std::string("hf:org/repo/mod\xC3\xA8le.gguf"),
        std::string("hf:org/repo/a\nb.gguf"),
        "hf:org/repo/" + std::string(limits::kSourceBytes, 'm')}) {
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

// The hub of one repository, org/Repo-GGUF: its list of files and their bytes, with ranges.
struct Hub {
  std::map<std::string, std::string> files;
  std::map<std::string, std::size_t> cut;  // the first answer of a file ends after so many bytes
  std::string absent;                      // a file that is listed, and does not come
  std::vector<std::string> gets;           // "path from byte N", in order
  std::string list_headers;
  WebServer server{[this](const std::string& head) { return answer(head); }};

  Hub() { setenv("HF_ENDPOINT", server.address().c_str(), 1); }

  std::string list() const {
    nlohmann::json json = nlohmann::json::array({{{"type", "directory"}, {"path", "sub"}}});
    for (const auto& [path, bytes] : files) {
      json.push_back({{"type", "file"}, {"path", path}, {"size", bytes.size()}});
    }
    return json.dump();
  }
  std::string answer(const std::string& head) {
    const std::string target =
        head.substr(head.find(' ') + 1, head.find(" HTTP") - head.find(' ') - 1);
    if (target == "/api/models/org/Repo-GGUF/tree/main?recursive=true") {
      return reply("200 OK", list_headers, list(), head);
    }
    const std::string base = "/org/Repo-GGUF/resolve/";
    const auto slash = target.find('/', base.size());
    const auto file = target.starts_with(base) && slash != target.npos
                          ? files.find(target.substr(slash + 1))
                          : files.end();
    if (file == files.end()) return reply("404 Not Found", "", "none", head);
    const std::string& bytes = file->second;
    Sha256 hash;
    hash.update(as_bytes(bytes));
    std::string headers = "X-Linked-Etag: \"" + hash.finish().hex() +
                          "\"\r\nX-Linked-Size: " + std::to_string(bytes.size()) +
                          "\r\nX-Repo-Commit: c0ffee\r\n";
    if (head.starts_with("HEAD")) return reply("200 OK", headers, bytes, head);
    if (file->first == absent) return reply("404 Not Found", "", "none", head);
    const auto range = head.find("ange: bytes=");
    const std::size_t begin = range == head.npos ? 0 : std::stoul(head.substr(range + 12));
    gets.push_back(target.substr(base.size()) + " from byte " + std::to_string(begin));
    if (begin > 0) {
      headers += "Content-Range: bytes " + std::to_string(begin) + "-" +
                 std::to_string(bytes.size() - 1) + "/" + std::to_string(bytes.size()) + "\r\n";
    }
    std::string whole =
        reply(begin > 0 ? "206 Partial Content" : "200 OK", headers, bytes.substr(begin), head);
    const auto short_of = cut.find(file->first);
    if (short_of != cut.end()) {
      whole.resize(whole.size() - (bytes.size() - begin) + short_of->second);
      cut.erase(short_of);
    }
    return whole;
  }
  // A model in three parts, the first without tensors.
  void add_parts(const std::string& stem) {
    model::SyntheticOptions options;
    options.layers = 1;
    const auto parts = model::synthetic_part_bytes(options, 3, true).value();
    for (std::uint32_t i = 1; i <= 3; ++i) {
      files[model::PartName{stem, {1, 3}}.of(i)] = std::string(as_text(parts[i - 1]));
    }
  }
};

TEST_F(PullTest, AllPartsComeAndAPullGoesOnInTheMiddleOfTheSecond) {
  Hub hub;
  hub.add_parts("Q4_0/Repo-Q4_0");
  const std::string second = "Q4_0/Repo-Q4_0-00002-of-00003.gguf";
  hub.cut[second] = 1000;
  PullOptions options = from("hf:org/Repo-GGUF:q4_0");
  const auto model = pull_model(options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->name, "repo.q4_0");
  EXPECT_EQ(model->source, "hf:org/Repo-GGUF/Q4_0/Repo-Q4_0-00001-of-00003.gguf");
  EXPECT_EQ(model->path, folder / "models" / "repo.q4_0-00001-of-00003.gguf");
  EXPECT_EQ(model->part_sha256.size(), 3U);
  EXPECT_EQ(hub.gets,
            (std::vector<std::string>{"c0ffee/Q4_0/Repo-Q4_0-00001-of-00003.gguf from byte 0",
                                      "c0ffee/Q4_0/Repo-Q4_0-00002-of-00003.gguf from byte 0",
                                      "c0ffee/Q4_0/Repo-Q4_0-00002-of-00003.gguf from byte 1000",
                                      "c0ffee/Q4_0/Repo-Q4_0-00003-of-00003.gguf from byte 0"}));
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    const std::string end = model::PartName{"", {1, 3}}.of(i);
    const std::string file = hub.files["Q4_0/Repo-Q4_0" + end];
    bytes += file.size();
    EXPECT_EQ(pulled("repo.q4_0" + end.substr(0, end.size() - 5)), file);
  }
  EXPECT_EQ(model->bytes, bytes);
  EXPECT_TRUE(model::GgufFile::open(model->path.string()).ok());
  for (const auto& entry : fs::directory_iterator(folder / "models")) {
    EXPECT_EQ(entry.path().string().find("incomplete"), std::string::npos) << entry.path();
  }
  // It is here now, under its name and as one model; and is found without the network.
  setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
  options.offline = true;
  EXPECT_TRUE(pull_model(options).ok());
  ASSERT_EQ(list_models().size(), 1U);
  EXPECT_EQ(list_models().front().bytes, bytes);
  EXPECT_EQ(list_models().front().part_sha256, model->part_sha256);
  EXPECT_EQ(*resolve_model("repo.q4_0"), model->path);
  ASSERT_TRUE(remove_model("repo.q4_0").ok());
  EXPECT_TRUE(list_models().empty());
}

// What a stopped process has left: the first part whole, the second begun.
TEST_F(PullTest, AStoppedPullOfPartsGoesOnWhereItWas) {
  Hub hub;
  hub.add_parts("m");
  const PullOptions options = from("hf:org/Repo-GGUF/m-00001-of-00003.gguf", "m");
  hub.absent = "m-00003-of-00003.gguf";
  EXPECT_FALSE(pull_model(options).ok());
  hub.absent.clear();
  const fs::path second = folder / "models" / ".m.incomplete-parts" / "m-00002-of-00003.gguf";
  ASSERT_TRUE(fs::exists(second));
  fs::resize_file(second, 500);
  hub.gets.clear();
  const auto model = pull_model(options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(hub.gets, (std::vector<std::string>{"c0ffee/m-00002-of-00003.gguf from byte 500",
                                                "c0ffee/m-00003-of-00003.gguf from byte 0"}));
}

TEST_F(PullTest, APartThatIsNotTheHubsIsNamedAndTheOthersAreKept) {
  Hub hub;
  hub.add_parts("m");
  const PullOptions options = from("hf:org/Repo-GGUF/m-00001-of-00003.gguf", "m");
  // Swapped on the hub: each has its own digest, and a part that is not its own.
  std::swap(hub.files["m-00002-of-00003.gguf"], hub.files["m-00003-of-00003.gguf"]);
  const auto swapped = pull_model(options);
  ASSERT_FALSE(swapped.ok());
  EXPECT_NE(swapped.error().message.find("the parts are swapped"), std::string::npos)
      << swapped.error().message;
  EXPECT_TRUE(list_models().empty());
  hub.files.erase("m-00002-of-00003.gguf");
  const auto missing = pull_model(options);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("m-00002-of-00003.gguf answers 404"), std::string::npos)
      << missing.error().message;
  PullOptions digest = options;
  digest.sha256 = std::string(64, '0');
  EXPECT_NE(pull_model(digest).error().message.find("has 3 parts"), std::string::npos);
  const auto later = pull_model(from("hf:org/Repo-GGUF/m-00003-of-00003.gguf@main", "m"));
  EXPECT_NE(later.error().message.find(
                "name the first part, hf:org/Repo-GGUF/m-00001-of-00003.gguf@main"),
            std::string::npos)
      << later.error().message;
}

TEST_F(PullTest, ALocalModelInPartsIsCopiedWholeAndReplacesOneOfItsName) {
  ASSERT_TRUE(pull_model(from((folder / "My Model.gguf").string(), "m")).ok());
  model::SyntheticOptions small;
  small.layers = 1;
  const std::string first =
      model::write_synthetic_parts((folder / "Big.gguf").string(), small, 2, false).value();
  const auto model = pull_model(from(first));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->name, "big");
  PullOptions replace = from(first, "m");
  replace.force = true;
  ASSERT_TRUE(pull_model(replace).ok());
  EXPECT_FALSE(fs::exists(folder / "models" / "m.gguf"));
  EXPECT_EQ(list_models().size(), 2U);
  replace.source = (folder / "My Model.gguf").string();
  ASSERT_TRUE(pull_model(replace).ok());
  EXPECT_FALSE(fs::exists(folder / "models" / "m-00001-of-00002.gguf"));
  EXPECT_EQ(list_models().size(), 2U);

  const std::string second = model::all_parts(first)[1];
  const auto other = pull_model(from(second, "other"));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("name the first part, " + first), std::string::npos)
      << other.error().message;
  fs::remove(second);
  EXPECT_NE(pull_model(from(first, "n")).error().message.find("part 2 of 2 is missing"),
            std::string::npos);
}

TEST_F(PullTest, APartThatIsMissingComesWithTheNextPull) {
  model::SyntheticOptions small;
  small.layers = 1;
  const std::string first =
      model::write_synthetic_parts((folder / "m.gguf").string(), small, 3, false).value();
  const auto model = pull_model(from(first));
  ASSERT_TRUE(model.ok()) << model.error().message;
  const fs::path second = folder / "models" / "m-00002-of-00003.gguf";
  fs::remove(second);
  ASSERT_TRUE(pull_model(from(first)).ok());
  EXPECT_TRUE(fs::exists(second));
}

TEST_F(PullTest, WhatAPullOfOtherFilesLeftGoesWithTheNextOne) {
  model::SyntheticOptions small;
  small.layers = 1;
  const std::string first =
      model::write_synthetic_parts((folder / "m.gguf").string(), small, 2, false).value();
  const fs::path models = folder / "models";
  for (const std::string& source : {first, (folder / "My Model.gguf").string()}) {
    fs::create_directories(models / ".m.incomplete-parts");
    for (const char* left :
         {".m.incomplete", ".m.incomplete.json", ".m.incomplete-parts/m-00002-of-00009.gguf"}) {
      std::ofstream(models / left) << "some bytes";
    }
    PullOptions options = from(source, "m");
    options.force = true;
    ASSERT_TRUE(pull_model(options).ok());
    for (const auto& entry : fs::directory_iterator(models)) {
      EXPECT_EQ(entry.path().string().find("incomplete"), std::string::npos) << entry.path();
    }
  }
}

// Parts of two models of one shape would be opened as one, with wrong weights.
TEST_F(PullTest, OldPartsAreNoModelWhileNewOnesReplaceThem) {
  model::SyntheticOptions small;
  small.layers = 1;
  const std::string first =
      model::write_synthetic_parts((folder / "m.gguf").string(), small, 3, false).value();
  PullOptions options = from(first);
  ASSERT_TRUE(pull_model(options).ok());
  // The third part is replaced, and then the second cannot be.
  const fs::path second = folder / "models" / "m-00002-of-00003.gguf";
  fs::remove(second);
  fs::create_directories(second / "in the way");
  options.force = true;
  EXPECT_FALSE(pull_model(options).ok());
  EXPECT_TRUE(list_models().empty());
  fs::remove_all(second);
  EXPECT_TRUE(pull_model(options).ok());
  EXPECT_EQ(list_models().size(), 1U);
}

TEST_F(PullTest, ARepositoryIsAskedForItsModels) {
  Hub hub;
  const auto refusal = [&](const std::string& source) {
    const auto model = pull_model(from(source));
    return model.ok() ? "pulled " + model->source : model.error().message;
  };
  EXPECT_NE(refusal("hf:org/Repo-GGUF:Q4_0").find("has no GGUF file of a model"),
            std::string::npos);
  hub.files["README.md"] = "text";
  hub.files["mmproj-F16.gguf"] = file;
  hub.files["Repo-Q4_0.gguf"] = file;
  EXPECT_EQ(refusal("hf:org/Repo-GGUF"), "pulled hf:org/Repo-GGUF/Repo-Q4_0.gguf")
      << "the only one";
  EXPECT_EQ(list_models().front().name, "repo");
  hub.files["Repo-IQ4_0.gguf"] = file;
  hub.files["Repo-Q8_0.gguf"] = file;
  hub.add_parts("Q2_K/Repo-Q2_K");
  for (const char* quantisation : {"Q4_0", "q4_0"}) {
    EXPECT_EQ(refusal(std::string("hf:org/Repo-GGUF:") + quantisation + "@main"),
              "pulled hf:org/Repo-GGUF/Repo-Q4_0.gguf@main");
    ASSERT_TRUE(remove_model("repo.q4_0").ok());
  }
  ASSERT_TRUE(remove_model("repo").ok());
  const std::string several = refusal("hf:org/Repo-GGUF");
  EXPECT_NE(
      several.find("the repository has 4 such models:\n  Q2_K/Repo-Q2_K-00001-of-00003.gguf ("),
      std::string::npos)
      << several;
  EXPECT_NE(several.find(", 3 parts)"), std::string::npos) << several;
  EXPECT_NE(several.find("for example hf:org/Repo-GGUF:Q2_K, or a file, hf:org/Repo-GGUF/FILE"),
            std::string::npos)
      << several;
  EXPECT_EQ(several.find("mmproj"), std::string::npos) << several;
  EXPECT_NE(refusal("hf:org/Repo-GGUF:Q5_K_M").find("no model of the repository has this name"),
            std::string::npos);
  // Two whose names have it: the one that ends with it, else both are listed.
  hub.files["Q8_0/Repo-BF16.gguf"] = file;
  hub.files["Repo-Q8_0-v2.gguf"] = file;
  EXPECT_EQ(refusal("hf:org/Repo-GGUF:Q8_0"), "pulled hf:org/Repo-GGUF/Repo-Q8_0.gguf");
  ASSERT_TRUE(remove_model("repo.q8_0").ok());
  hub.files["other/Repo-Q8_0.gguf"] = file;
  EXPECT_NE(refusal("hf:org/Repo-GGUF:Q8_0").find("has 3 such models"), std::string::npos)
      << refusal("hf:org/Repo-GGUF:Q8_0");
  EXPECT_NE(refusal("hf:org/none:Q8_0").find("answers 404; check the name"), std::string::npos);
}

TEST_F(PullTest, NamesOfAHubForgeNoLineAndMakeNoEmptyExample) {
  Hub hub;
  hub.files["model.gguf"] = file;
  hub.files["other.gguf"] = file;
  hub.files["x\nhearth: all is well.gguf"] = file;
  for (const char* source : {"hf:org/Repo-GGUF", "hf:org/Repo-GGUF:Q8_0"}) {
    const auto refused = pull_model(from(source));
    ASSERT_FALSE(refused.ok());
    const std::string& text = refused.error().message;
    EXPECT_TRUE(text.ends_with("\nname a file, hf:org/Repo-GGUF/FILE")) << text;
    EXPECT_EQ(text.find("all is well"), std::string::npos) << text;
  }
  // Nor a path of their own: what is pulled has the name of the repository.
  hub.files = {{"../../../m-Q8_0.gguf", file}, {"/tmp/m-Q4_0.gguf", file}};
  EXPECT_NE(pull_model(from("hf:org/Repo-GGUF:Q8_0")).error().message.find("expected hf:org/repo"),
            std::string::npos);
  const auto model = pull_model(from("hf:org/Repo-GGUF:Q4_0"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->path, folder / "models" / "repo.q4_0.gguf");
}

TEST_F(PullTest, AListOfFilesIsBoundedAndStaysOnTheHub) {
  Hub hub;
  hub.files["Repo-Q8_0.gguf"] = file;
  for (const std::string& next :
       {std::string("https://elsewhere.example/api/models"), hub.server.address() + "evil/api/x"}) {
    hub.list_headers = "Link: <" + next + ">; rel=\"next\"\r\n";
    PullOptions options = from("hf:org/Repo-GGUF:Q8_0");
    options.force = true;
    EXPECT_TRUE(pull_model(options).ok()) << next;
  }
  // A list without an end.
  const std::size_t before = hub.server.heads().size();
  hub.list_headers = "Link: <" + hub.server.address() +
                     "/api/models/org/Repo-GGUF/tree/main?recursive=true>; rel=\"next\"\r\n";
  PullOptions options = from("hf:org/Repo-GGUF:Q8_0");
  options.force = true;
  EXPECT_TRUE(pull_model(options).ok());
  EXPECT_LT(hub.server.heads().size(), before + 32);
  for (const char* answer :
       {"", "{}", "null", "[1, {\"path\": 3}, {\"path\": \"x.gguf\", \"size\": -1}]", "[[[[",
        "<html>"}) {
    WebServer odd([&](const std::string& head) { return reply("200 OK", "", answer, head); });
    setenv("HF_ENDPOINT", odd.address().c_str(), 1);
    EXPECT_FALSE(pull_model(from("hf:org/Repo-GGUF:Q8_0", "odd")).ok()) << answer;
  }
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
