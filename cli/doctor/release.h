// A release manifest: the newest version and its files. It is a signed note (ledger/note.h) under
// the project's key, which belongs to no cluster:
//
//   hearth-release/<64 hex digits>        the project's public key
//   version 0.2.0
//   date 2026-12-01                       of the release
//   until 2027-06-01                      a later manifest replaces this one before that day
//   text Answers come faster.             one line for people
//   file <SHA-256> <bytes> <name>         at most limits::kReleaseFiles lines
//                                         (empty)
//   — hearth-release/<64 hex digits> ...  the key's signature
//
// Pure functions; the parser takes untrusted bytes.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

struct ReleaseVersion {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  std::uint16_t patch = 0;
  friend auto operator<=>(const ReleaseVersion&, const ReleaseVersion&) = default;
  std::string text() const;  // "0.2.0"
};
// kInvalidInput for any text that text() does not write.
Result<ReleaseVersion> parse_release_version(std::string_view text);

struct ReleaseFile {
  Hash256 sha256;
  std::uint64_t bytes = 0;  // 1 to limits::kReleaseFileBytes
  std::string name;         // without a folder
  friend bool operator==(const ReleaseFile&, const ReleaseFile&) = default;
};

struct Release {
  ReleaseVersion version;
  std::chrono::year_month_day date;
  std::chrono::year_month_day until;
  std::string text;  // printable ASCII, 1 to limits::kReleaseTextBytes
  std::vector<ReleaseFile> files;
};

std::string day_text(const std::chrono::year_month_day& date);  // "2026-12-01"

// What is signed.
std::string release_text(const Release& release, const PublicKey& key);

// kInvalidInput names the line that is wrong: every manifest has one spelling. kRefused when no
// right signature of `key` is there, before anything else of it is read.
Result<Release> parse_release(ByteSpan bytes, const PublicKey& key);

}  // namespace hearth::cli
