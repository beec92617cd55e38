#include "cli/models/parts_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/limits.h"
#include "cli/models/hub.h"
#include "model/synthetic.h"
#include "tests/tools/parts_writer.h"
#include "tests/unit/coordinator/client/web_server.h"

namespace hearth::cli {
namespace {

using client::reply;
using client::WebServer;

TEST(PartSources, ComeFromTheFirst) {
  EXPECT_EQ(part_sources("hf:org/repo/m.gguf@main").value(),
            std::vector<std::string>{"hf:org/repo/m.gguf@main"});
  EXPECT_EQ(part_sources("hf:org/repo/m-00001-of-00002.gguf@refs/pr/1").value(),
            (std::vector<std::string>{"hf:org/repo/m-00001-of-00002.gguf@refs/pr/1",
                                      "hf:org/repo/m-00002-of-00002.gguf@refs/pr/1"}));
  EXPECT_EQ(part_sources("https://a.org/m-00001-of-00002.gguf?x=1#y").value().back(),
            "https://a.org/m-00002-of-00002.gguf?x=1#y");
  const auto second = part_sources("https://a.org/m-00002-of-00002.gguf?sig=secret");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("name the first part, https://a.org/m-00001-of-00002.gguf"),
            std::string::npos);
  EXPECT_EQ(second.error().message.find("secret"), std::string::npos);
  EXPECT_EQ(at_commit("hf:a/b/c", "1"), "hf:a/b/c@1");
  EXPECT_EQ(at_commit("hf:a/b/c@main", "1"), "hf:a/b/c@1");
  EXPECT_EQ(at_commit("https://a/b", "1"), "https://a/b");
}

// A server of parts, which knows ranges as real ones do.
struct PartsSourceTest : ::testing::Test {
  std::map<std::string, Bytes> files;  // by path
  std::uint64_t claimed = 0;           // bytes of every file, as HEAD tells; 0: the truth
  WebServer server{[this](const std::string& head) { return answer(head); }};
  const Bytes whole = model::synthetic_model_bytes({}).value();

  PartsSourceTest() {
    const auto parts = model::synthetic_part_bytes({}, 3, true).value();
    for (std::uint32_t i = 1; i <= 3; ++i) files[path(i)] = parts[i - 1];
  }
  static std::string path(std::uint32_t part) { return model::PartName{"/m", {1, 3}}.of(part); }
  std::string answer(const std::string& head) {
    const std::string target =
        head.substr(head.find(' ') + 1, head.find(" HTTP") - head.find(' ') - 1);
    const auto file = files.find(target);
    if (file == files.end()) return reply("404 Not Found", "", "", head);
    const std::string all(as_text(file->second));
    if (head.starts_with("HEAD")) {
      if (claimed == 0) return reply("200 OK", "", all, head);
      return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(claimed) +
             "\r\n\r\n";
    }
    const auto range = head.find("ange: bytes=");
    if (range == head.npos) return reply("200 OK", "", all, head);
    const std::size_t begin = std::stoul(head.substr(range + 12));
    const std::size_t last = std::stoul(head.substr(head.find('-', range + 12) + 1));
    const std::uint64_t bytes = claimed > 0 ? claimed : all.size();
    return reply("206 Partial Content",
                 "Content-Range: bytes " + std::to_string(begin) + "-" + std::to_string(last) +
                     "/" + std::to_string(bytes) + "\r\n",
                 all.substr(std::min(begin, all.size()), last + 1 - begin), head);
  }
  Result<std::shared_ptr<node::RangeSource>> open(std::uint32_t part = 1) {
    client::HttpClient http;
    return open_source(http, server.address() + path(part), whole.size(), std::chrono::seconds(30));
  }
  Result<Bytes> read(std::uint64_t begin, std::uint64_t end) {
    TRY(const auto source, open());
    Bytes bytes;
    TRY_VOID(source->read(begin, end, [&](ByteSpan piece) -> Status {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return ok_status();
    }));
    return bytes;
  }
};

TEST_F(PartsSourceTest, RangesAreThoseOfTheOneFile) {
  const std::uint64_t header = model::GgufFile::parse(whole, "w").value()->header().size();
  for (const auto& [begin, end] : {std::pair<std::uint64_t, std::uint64_t>{0, whole.size()},
                                   {0, header},
                                   {header, header + 1},
                                   {10, header + 5'000},
                                   {whole.size() - 7, whole.size()},
                                   {50'001, 150'002}}) {
    const auto bytes = read(begin, end);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_TRUE(std::ranges::equal(*bytes, ByteSpan(whole).subspan(begin, end - begin))) << begin;
  }
  EXPECT_FALSE(read(0, whole.size() + 1).ok());
}

TEST_F(PartsSourceTest, PartsOfAnotherModelAreOfNoUse) {
  const Bytes second = files[path(2)];
  files[path(2)] = files[path(3)];
  const auto swapped = read(0, 10);
  EXPECT_EQ(swapped.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(swapped.error().message.find("the parts are swapped"), std::string::npos);
  files[path(2)] = second;
  model::SyntheticOptions other;
  other.vocabulary = 500;
  const auto parts = model::synthetic_part_bytes(other, 3, true).value();
  for (std::uint32_t i = 1; i <= 3; ++i) files[path(i)] = parts[i - 1];
  EXPECT_NE(read(0, 10).error().message.find("its parts make another model"), std::string::npos);
  files.erase(path(3));
  EXPECT_EQ(read(0, 10).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(open(2).error().code, ErrorCode::kInvalidInput);
}

TEST_F(PartsSourceTest, HeadersAreNotFetchedForAFetchThatHasEnded) {
  const auto source = open().value();
  for (const std::size_t pieces : {0U, 1U}) {
    const std::size_t asked = server.heads().size();
    std::size_t had = 0;
    const Status read = source->read(0, 10, [&](ByteSpan bytes) -> Status {
      EXPECT_TRUE(bytes.empty()) << "no header is whole yet";
      if (had++ < pieces) return ok_status();
      return Error{ErrorCode::kCancelled, "interrupted"};
    });
    EXPECT_EQ(read.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(server.heads().size() - asked, 2 * pieces) << "HEAD and GET of the first part";
  }
}

// A server may claim any length, and must not make a worker keep that much.
TEST_F(PartsSourceTest, LengthsThatAServerClaimsMakeNothing) {
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 50, limits::kModelFileBytes, std::uint64_t{3}}) {
    claimed = bytes;
    EXPECT_FALSE(read(0, 10).ok()) << bytes;
  }
}

}  // namespace
}  // namespace hearth::cli
