#include "cli/doctor/update.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hex.h"
#include "base/limits.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "coordinator/client/api_client.h"
#include "coordinator/client/http_client.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using std::chrono::sys_days;

constexpr std::chrono::seconds kManifestPatience{30};

Status check_size(std::size_t bytes) {
  REQUIRE(bytes <= limits::kNoteBytes, "a release manifest has at most ", limits::kNoteBytes,
          " bytes; this address or file has more");
  return ok_status();
}

Result<std::string> fetch_manifest(const std::string& url) {
  REQUIRE(client::is_fetchable(url),
          "the address of a release manifest must begin with https://, got ",
          client::without_secrets(url));
  client::HttpClient http(interrupted);
  client::HttpClient::Options options;
  options.timeout = kManifestPatience;
  options.follow_redirects = true;
  std::string text;
  TRY(const client::HttpReply reply,
      http.download(url, 0, options, ok_status, [&](std::string_view piece) {
        text += piece;
        return check_size(text.size());
      }));
  if (reply.status >= 400) return client::api_error(reply, client::without_secrets(url));
  return text;
}

Result<std::string> read_manifest(const std::string& from) {
  if (from.find("://") != std::string::npos) return fetch_manifest(from);
  TRY(const std::string text, read_text(from, limits::kNoteBytes));
  TRY_VOID(check_size(text.size()));
  return text;
}

Result<PublicKey> project_key(const std::string& given) {
  const std::string hex = given.empty() ? HEARTH_RELEASE_KEY : given;
  REQUIRE(
      !hex.empty(),
      "this program was built without the project's key (HEARTH_RELEASE_KEY); pass the key that "
      "the project publishes: --key, 64 hexadecimal digits");
  const auto bytes = from_hex(hex);
  REQUIRE(bytes && bytes->size() == PublicKey::kBytes,
          "--key must be a public key of 64 lower-case hexadecimal digits");
  const auto key = PublicKey::parse(*bytes);
  REQUIRE(key.ok(), "--key is no Ed25519 public key: ", key.error().message);
  return *key;
}

OrderedJson release_object(const Release& release, const ReleaseVersion& current) {
  OrderedJson files = OrderedJson::array();
  for (const ReleaseFile& file : release.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256.hex()}});
  }
  return {{"current", current.text()},
          {"newest", release.version.text()},
          {"newer", release.version > current},
          {"date", day_text(release.date)},
          {"until", day_text(release.until)},
          {"text", release.text},
          {"files", files}};
}

}  // namespace

Result<std::string> compare_release(const Release& release, const ReleaseVersion& current,
                                    std::int64_t today, bool json) {
  const std::int64_t end =
      sys_days(release.until).time_since_epoch() / std::chrono::seconds(1) + 24 * 3'600;
  if (today >= end) {
    return Error{
        ErrorCode::kRefused,
        "the release manifest was valid until " + day_text(release.until) +
            ", so it may hide newer releases; fetch it again, from the project itself, and "
            "check this machine's clock"};
  }
  if (json) return release_object(release, current).dump();
  const std::string ours = current.text();
  const std::string theirs = release.version.text() + " of " + day_text(release.date);
  if (release.version == current) return "hearth " + ours + " is the newest release, " + theirs;
  if (release.version < current)
    return "hearth " + ours + " is newer than the newest release, " + theirs;
  std::string out = "hearth " + theirs + " is out; this program is " + ours + "\n  " + release.text;
  for (const ReleaseFile& file : release.files) {
    out +=
        "\n  " + file.name + ", " + format_bytes(file.bytes) + "\n    SHA-256 " + file.sha256.hex();
  }
  return out +
         "\nnext: download a file, compare sha256sum FILE, and install it, one machine after the "
         "other";
}

Result<int> run_update(const UpdateOptions& options) {
  REQUIRE(options.check,
          "hearth never updates itself; to see whether there is a newer release: hearth update "
          "--check");
  TRY(const PublicKey key, project_key(options.key));
  const std::string from = options.from.empty() ? HEARTH_RELEASE_URL : options.from;
  REQUIRE(!from.empty(),
          "this program was built without the address of a release manifest "
          "(HEARTH_RELEASE_URL); pass a URL or a file: --from");
  TRY(const ReleaseVersion current, parse_release_version(HEARTH_VERSION));
  TRY(const std::string text, read_manifest(from));
  TRY(const Release release, parse_release(as_bytes(text), key));
  TRY(const std::string said,
      compare_release(release, current, SystemClock().unix_seconds(), options.json));
  return succeed(said);
}

}  // namespace hearth::cli
