#include "cli/models/hub.h"

#include <boost/algorithm/string/case_conv.hpp>
#include <cctype>
#include <chrono>

#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

constexpr int kRenamesMost = 5;

// The digest of an entity tag, if it is one.
std::string digest_of(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  boost::algorithm::to_lower(etag);
  return etag;
}

// As part of an address; '/' stays where `kept` says so.
std::string percent_encode(std::string_view text, std::string_view kept) {
  constexpr std::string_view kUnreserved = "-._~";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool ascii = byte < 0x80 && std::isalnum(byte) != 0;
    if (ascii || kUnreserved.find(c) != kUnreserved.npos || kept.find(c) != kept.npos) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

// A repository that was renamed answers with its new address, on the same hub.
bool is_renamed(const client::HttpReply& reply) {
  const auto location = reply.headers.find("location");
  return reply.status >= 300 && reply.status < 400 && location != reply.headers.end() &&
         !reply.headers.contains("x-linked-etag") && location->second.starts_with("/") &&
         !location->second.starts_with("//");
}

}  // namespace

Status check_url(const std::string& url) {
  REQUIRE(client::is_fetchable(url),
          "source " + client::without_secrets(url) +
              ": only https:// addresses are fetched, and http:// ones of this machine "
              "(127.0.0.1, localhost, [::1]); use an https:// address, or download the file "
              "and pull its path");
  return ok_status();
}

bool may_be_published(const std::string& source) {
  return source.starts_with("hf:") ||
         (source.starts_with("https://") && source.find_first_of("?#@") == std::string::npos);
}

bool may_be_asked(const std::string& source) {
  return source.starts_with("hf:") || source.starts_with("https://");
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<Remote> resolve_hub(client::HttpClient& http, std::string reference) {
  std::string revision = "main";
  if (const auto at = reference.rfind('@'); at != std::string::npos) {
    revision = reference.substr(at + 1);
    reference.resize(at);
  }
  const auto first = reference.find('/');
  const auto second = first == std::string::npos ? first : reference.find('/', first + 1);
  REQUIRE(second != std::string::npos && second + 1 < reference.size() &&
              reference.find("..") == std::string::npos,
          "source hf:" + reference + ": expected hf:org/repo/file[@revision]");
  std::string endpoint = environment_text("HF_ENDPOINT");
  if (endpoint.empty()) endpoint = "https://huggingface.co";
  Remote remote;
  const std::string branch = "/resolve/" + percent_encode(revision, "") + "/";
  remote.url = endpoint + "/" + percent_encode(reference.substr(0, second), "/") + branch +
               percent_encode(reference.substr(second + 1), "/");
  TRY_VOID(check_url(remote.url));
  if (const auto token = environment_text("HF_TOKEN"); !token.empty()) {
    remote.headers["Authorization"] = "Bearer " + token;
  }
  const client::HttpClient::Options asked{std::chrono::seconds(20), remote.headers, false};
  TRY(client::HttpReply reply, http.head(remote.url, asked));
  for (int renames = 0; renames < kRenamesMost && is_renamed(reply); ++renames) {
    remote.url = endpoint + reply.headers["location"];
    TRY(reply, http.head(remote.url, asked));
  }
  const std::string shown = client::without_secrets(remote.url);
  if (reply.status == 401 || reply.status == 403) {
    return Error{
        ErrorCode::kNotFound,
        "the hub refuses " + shown + ": accept the model's licence on the hub and set HF_TOKEN"};
  }
  if (reply.status >= 400) {
    return Error{ErrorCode::kNotFound,
                 shown + " answers " + std::to_string(reply.status) + "; check the name"};
  }
  const std::string etag = digest_of(reply.headers["x-linked-etag"]);
  if (is_sha256(etag)) remote.sha256 = etag;
  const auto& size = reply.headers["x-linked-size"];
  if (!size.empty() && size.size() < 19 && size.find_first_not_of("0123456789") == size.npos) {
    remote.bytes = std::stoull(size);
  }
  const auto at = remote.url.find(branch);
  if (const auto& commit = reply.headers["x-repo-commit"]; !commit.empty() && at != branch.npos) {
    // A branch that moves cannot mix two versions.
    remote.url.replace(at, branch.size(), "/resolve/" + percent_encode(commit, "") + "/");
  }
  return remote;
}

}  // namespace hearth::cli
