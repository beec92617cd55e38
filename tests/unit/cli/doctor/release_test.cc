#include "cli/doctor/release.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "ledger/note.h"

namespace hearth::cli {
namespace {

using std::chrono::day;
using std::chrono::month;
using std::chrono::year;

class ReleaseTest : public ::testing::Test {
 protected:
  Release release() const {
    Hash256 hash;
    hash.bytes.fill(std::byte{0xAB});
    return {{0, 2, 0},
            {year(2026), month(12), day(1)},
            {year(2027), month(6), day(1)},
            "Answers come faster.",
            {{hash, 12'345'678, "hearth_0.2.0~debian12_amd64.deb"}, {hash, 1, "SHA256SUMS"}}};
  }
  // A manifest of any text behind the first line, signed as the project signs.
  std::string signed_text(const std::string& text, const SecretKey& by) const {
    const std::string name = "hearth-release/" + by.public_key().hex();
    ledger::Note note{name + "\n" + text, {}};
    note.signatures.push_back(ledger::sign_note(note.text, name, by));
    return ledger::format_note(note);
  }
  Result<Release> parse(const std::string& text) const {
    return parse_release(as_bytes(signed_text(text, key)), key.public_key());
  }
  // The lines of release() with one replaced.
  std::string with(std::size_t number, const std::string& line) const {
    const std::string text = release_text(release(), key.public_key());
    std::string out;
    std::size_t begin = text.find('\n') + 1;  // signed_text() adds the first
    for (std::size_t i = 0; begin < text.size(); ++i) {
      const std::size_t end = text.find('\n', begin) + 1;
      out += i == number ? line : text.substr(begin, end - begin);
      begin = end;
    }
    return out;
  }
  void refused(const std::string& text, const std::string& reason) {
    const auto parsed = parse(text);
    ASSERT_FALSE(parsed.ok()) << reason;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(parsed.error().message.find(reason), std::string::npos) << parsed.error().message;
  }

  const SecretKey key = SecretKey::generate();
};

TEST_F(ReleaseTest, ReadsWhatWasSigned) {
  const auto parsed = parse(with(99, ""));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Release wanted = release();
  EXPECT_EQ(parsed->version, wanted.version);
  EXPECT_EQ(parsed->date, wanted.date);
  EXPECT_EQ(parsed->until, wanted.until);
  EXPECT_EQ(parsed->text, wanted.text);
  EXPECT_EQ(parsed->files, wanted.files);
}

TEST_F(ReleaseTest, OnlyTheKeysOwnSignatureCounts) {
  const std::string good = signed_text(with(99, ""), key);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] ^= 1;
    EXPECT_FALSE(parse_release(as_bytes(changed), key.public_key()).ok()) << i;
  }
  const SecretKey other = SecretKey::generate();
  const auto foreign = parse_release(as_bytes(good), other.public_key());
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, ErrorCode::kRefused);
  std::string changed = good;
  changed[changed.find("0.2.0")] = '1';
  EXPECT_EQ(parse_release(as_bytes(changed), key.public_key()).error().code, ErrorCode::kRefused);
  EXPECT_EQ(parse_release(as_bytes(std::string("<html>")), key.public_key()).error().code,
            ErrorCode::kInvalidInput);
}

TEST_F(ReleaseTest, RefusesEachWrongLineByName) {
  const std::string hash(64, 'a');
  refused(with(0, ""), "line 2");
  refused(with(0, "version 0.2\n"), "MAJOR.MINOR.PATCH");
  refused(with(1, "date 2026-13-01\n"), "line 3");
  refused(with(1, "date 2026-02-30\n"), "line 3");
  refused(with(1, "date 2026-2-3\n"), "line 3");
  refused(with(2, "until 2026-11-30\n"), "line 4");
  refused(with(3, "text \n"), "line 5");
  refused(with(3, "text " + std::string(limits::kReleaseTextBytes + 1, 'x') + "\n"), "line 5");
  refused(with(3, "text caf\xC3\xA9\n"), "line 5");
  refused(with(4, "file " + hash + " 1\n"), "'file' 1");
  refused(with(4, "file " + std::string(64, 'A') + " 1 a\n"), "SHA-256");
  for (const char* size : {"0", "01", "-1", "1e3", "68719476737", "99999999999999999999"}) {
    refused(with(4, "file " + hash + " " + size + " a\n"), "size");
  }
  for (const std::string name :
       {"", "../a", ".a", "-a", "~a", "a b", "a/b", "a\\b", "caf\xC3\xA9", "a;b", "$a"}) {
    refused(with(5, "file " + hash + " 1 " + name + "\n"), "'file' 2");
  }
  refused(with(5, "file " + hash + " 1 " + std::string(limits::kReleaseNameBytes + 1, 'a') + "\n"),
          "name");
  refused(with(5, "link x\n"), "does not know");
  std::string many;
  for (std::size_t i = 0; i < limits::kReleaseFiles; ++i) many += "file " + hash + " 1 a\n";
  refused(with(5, many), "more than 64");
}

TEST_F(ReleaseTest, ComparesVersionsByTheirNumbers) {
  EXPECT_LT(*parse_release_version("0.9.0"), *parse_release_version("0.10.0"));
  EXPECT_LT(*parse_release_version("0.9.65535"), *parse_release_version("1.0.0"));
  EXPECT_EQ(parse_release_version("12.3.4")->text(), "12.3.4");
  for (const char* text : {"", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.", "1.2.65536", "+1.2.3",
                           "v1.2.3", "1.2.3-rc1", " 1.2.3"}) {
    EXPECT_FALSE(parse_release_version(text).ok()) << text;
  }
}

}  // namespace
}  // namespace hearth::cli
