#include "cli/models/pull.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "model/synthetic.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;
namespace asio = boost::asio;
using asio::ip::tcp;

// One request at a time, each answered by a function from its head to the whole answer.
class WebServer {
 public:
  explicit WebServer(std::function<std::string(const std::string& head)> answer)
      : answer_(std::move(answer)),
        acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        thread_([this] { serve(); }) {}
  ~WebServer() {
    stopping_ = true;
    boost::system::error_code ignored;
    tcp::socket wake(io_);
    wake.connect(acceptor_.local_endpoint(), ignored);
    wake.close(ignored);
    thread_.join();
  }
  std::string address() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  std::vector<std::string> heads() {
    const std::lock_guard lock(mutex_);
    return heads_;
  }

 private:
  void serve() {
    while (!stopping_) {
      boost::system::error_code error;
      tcp::socket socket(io_);
      acceptor_.accept(socket, error);
      asio::streambuf buffer;
      const std::size_t size = asio::read_until(socket, buffer, "\r\n\r\n", error);
      if (error) continue;
      const std::string head(asio::buffers_begin(buffer.data()),
                             asio::buffers_begin(buffer.data()) + static_cast<long>(size));
      {
        const std::lock_guard lock(mutex_);
        heads_.push_back(head);
      }
      asio::write(socket, asio::buffer(answer_(head)), error);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::mutex mutex_;
  std::vector<std::string> heads_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::string reply(const std::string& status, const std::string& headers, const std::string& body,
                  const std::string& head) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         (head.starts_with("HEAD") ? "" : body);
}

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
  for (const char* source : {"http://example.org/m.gguf", "ftp://x/m.gguf", "file:///m.gguf",
                             "http://127.0.0.1.evil.org/m.gguf", "http://localhostx/m.gguf",
                             "hf:only/repo", "hf:a/../b/m.gguf"}) {
    EXPECT_EQ(pull_model(from(source, "m")).error().code, ErrorCode::kInvalidInput) << source;
  }
  EXPECT_FALSE(fs::exists(folder / "models" / "m.gguf"));
}

TEST_F(PullTest, ALocalFileIsTakenUnderItsSafeNameAndLeavesNothingBehind) {
  PullOptions options = from((folder / "My Model.gguf").string());
  for (int round = 0; round < 2; ++round) {  // the second time both names are links to one file
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
