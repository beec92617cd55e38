#include "cli/models/hub.h"

#include <chrono>

#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

bool is_loopback_http(const std::string& url) {
  for (const char* host : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    const std::string prefix(host);
    if (url.starts_with(prefix) && url.size() > prefix.size() &&
        (url[prefix.size()] == ':' || url[prefix.size()] == '/')) {
      return true;
    }
  }
  return false;
}

std::string strip_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

}  // namespace

Status check_url(const std::string& url) {
  REQUIRE(url.starts_with("https://") || is_loopback_http(url),
          "source " + url +
              ": only https:// addresses are fetched, and http:// ones of this machine "
              "(127.0.0.1, localhost, [::1]); use an https:// address, or download the file "
              "and pull its path");
  return ok_status();
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
  remote.url = endpoint + "/" + reference.substr(0, second) + "/resolve/" + revision + "/" +
               reference.substr(second + 1);
  TRY_VOID(check_url(remote.url));
  if (const auto token = environment_text("HF_TOKEN"); !token.empty()) {
    remote.headers["Authorization"] = "Bearer " + token;
  }
  TRY(client::HttpReply reply,
      http.head(remote.url, {std::chrono::seconds(20), remote.headers, false}));
  if (reply.status == 401 || reply.status == 403) {
    return Error{ErrorCode::kNotFound,
                 "the hub refuses " + remote.url +
                     ": accept the model's licence on the hub and set HF_TOKEN"};
  }
  if (reply.status >= 400) {
    return Error{ErrorCode::kNotFound,
                 remote.url + " answers " + std::to_string(reply.status) + "; check the name"};
  }
  const std::string etag = strip_etag(reply.headers["x-linked-etag"]);
  if (is_sha256(etag)) remote.sha256 = etag;
  const auto& size = reply.headers["x-linked-size"];
  if (!size.empty() && size.size() < 19 && size.find_first_not_of("0123456789") == size.npos) {
    remote.bytes = std::stoull(size);
  }
  if (const auto& commit = reply.headers["x-repo-commit"]; !commit.empty()) {
    remote.url = endpoint + "/" + reference.substr(0, second) + "/resolve/" + commit + "/" +
                 reference.substr(second + 1);  // a branch that moves cannot mix two versions
  }
  return remote;
}

}  // namespace hearth::cli
