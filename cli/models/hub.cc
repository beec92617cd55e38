#include "cli/models/hub.h"

#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <cctype>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "cli/process/paths.h"
#include "cli/terminal/progress.h"
#include "model/gguf/parts.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::cli {
namespace {

constexpr int kRenamesMost = 5;
constexpr long kOk = 200;
constexpr int kPagesMost = 16;             // of a list of files; a page has a thousand
constexpr std::size_t kModelsListed = 64;  // in an error

// The digest of an entity tag, if it is one.
std::string digest_of(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  boost::algorithm::to_lower(etag);
  return etag;
}

// Encodes text as part of an address; `kept` lists characters that stay, such as '/'.
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

std::string hub_endpoint() {
  const std::string endpoint = environment_text("HF_ENDPOINT");
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

client::HttpClient::Headers hub_headers() {
  const auto token = environment_text("HF_TOKEN");
  if (token.empty()) return {};
  return {{"Authorization", "Bearer " + token}};
}

// 0 for text that is not a number of bytes.
std::uint64_t number_of(const std::string& digits) {
  const bool number = !digits.empty() && digits.size() < 19 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoull(digits) : 0;
}

Status check_answer(const std::string& url, const client::HttpReply& reply) {
  const std::string shown = client::without_secrets(url);
  if (reply.status == 401 || reply.status == 403) {
    return Error{
        ErrorCode::kNotFound,
        "the hub refuses " + shown + ": accept the model's licence on the hub and set HF_TOKEN"};
  }
  if (reply.status >= 400) {
    return Error::of(ErrorCode::kNotFound, shown, " answers ", reply.status, "; check the name");
  }
  return ok_status();
}

// A model of a repository: a GGUF file, or the first part of several.
struct HubModel {
  std::string path;
  std::uint64_t bytes = 0;  // of all parts
  std::uint64_t parts = 1;
  // The quantisation at the end of a name: "Q4_K_M" of "model-Q4_K_M.gguf"; empty when nothing
  // looks like one.
  std::string quantisation;
};

// The last piece of a name, between '-' or '.' and the end, of letters, digits and '_'.
std::string quantisation_of(std::string_view stem) {
  const auto last = stem.find_last_of("-.");
  std::string_view piece = last == stem.npos ? std::string_view() : stem.substr(last + 1);
  const bool one = !piece.empty() && std::ranges::all_of(piece, [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_');
  });
  return one ? boost::algorithm::to_upper_copy(std::string(piece)) : std::string();
}

// Whether the quantisation stands in the path, with '.' or '-' behind it as llama.cpp looks for it,
// and not as the end of another one (Q4_0 in IQ4_0).
bool has_quantisation(const std::string& path, const std::string& wanted) {
  const std::string upper = boost::algorithm::to_upper_copy(path);
  for (auto at = upper.find(wanted); at != upper.npos; at = upper.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(upper[at - 1])) == 0;
    if (begins && end < upper.size() && (upper[end] == '.' || upper[end] == '-')) return true;
  }
  return false;
}

// Other files of a model: a vision tower, an importance matrix or a drafting head.
bool is_companion(std::string_view path) {
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  constexpr std::string_view kWords[] = {"mmproj",  "imatrix", "mtp-",
                                         "eagle3-", "dflash-", "dspark-"};
  return std::ranges::any_of(kWords,
                             [&](std::string_view word) { return file.find(word) != file.npos; });
}

// The next page of a list, on the same hub; empty: this is the last. RFC 8288.
std::string next_page(const client::HttpReply& reply, const std::string& endpoint) {
  const auto link = reply.headers.find("link");
  if (link == reply.headers.end()) return "";
  const std::string& text = link->second;
  const auto end = text.find(">; rel=\"next\"");
  const auto begin = end == text.npos ? end : text.rfind('<', end);
  if (begin == text.npos) return "";
  std::string url = text.substr(begin + 1, end - begin - 1);
  return url.starts_with(endpoint + "/api/") ? url : "";
}

// Adds the models of a page to those before it. A part counts to the model of its first part, which
// may come on a later page.
Status read_page(const client::HttpReply& reply, const std::string& shown,
                 std::map<std::string, HubModel>& models) {
  const auto json = nlohmann::json::parse(reply.body, nullptr, false);
  REQUIRE(json.is_array(), shown,
          " does not answer with a list of files; check that HF_ENDPOINT is the address of a hub");
  for (const auto& each : json) {
    if (!each.is_object() || !each.contains("path") || !each["path"].is_string()) continue;
    const std::string path = each["path"];
    // A path with a line break could forge lines of an error message.
    if (!path.ends_with(".gguf") || is_companion(path) || path.size() > limits::kSourceBytes ||
        model::has_control_bytes(path)) {
      continue;
    }
    const auto part = model::part_name(path);
    HubModel& model = models[part ? part->of(1) : path];
    model.path = part ? part->of(1) : path;
    model.parts = part ? part->place.count : 1;
    model.quantisation = quantisation_of(part ? part->stem : path.substr(0, path.size() - 5));
    const bool sized = each.contains("size") && each["size"].is_number_unsigned();
    const std::uint64_t size = sized ? each["size"].get<std::uint64_t>() : 0;
    if (size <= limits::kModelFileBytes) model.bytes += size;
  }
  REQUIRE(models.size() <= limits::kGgufTensors, shown, " lists more than ", limits::kGgufTensors,
          " models; name a file: hf:org/repo/FILE");
  return ok_status();
}

Result<std::vector<HubModel>> models_of_hub(client::HttpClient& http, const HubRequest& request) {
  const std::string endpoint = hub_endpoint();
  const std::string revision = request.revision.empty() ? "main" : request.revision;
  std::string url = endpoint + "/api/models/" + percent_encode(request.repository, "/") + "/tree/" +
                    percent_encode(revision, "") + "?recursive=true";
  TRY_VOID(check_url(url));
  const client::HttpClient::Options asked{std::chrono::seconds(20), hub_headers(), true};
  std::map<std::string, HubModel> models;
  for (int page = 0; page < kPagesMost && !url.empty(); ++page) {
    TRY(const client::HttpReply reply, http.get(url, asked));
    TRY_VOID(check_answer(url, reply));
    TRY_VOID(read_page(reply, client::without_secrets(url), models));
    url = next_page(reply, endpoint);
  }
  std::vector<HubModel> list;
  for (auto& [path, model] : models) list.push_back(std::move(model));
  return list;
}

std::string text_of_request(const HubRequest& request) {
  std::string text = "hf:" + request.repository;
  if (!request.quantisation.empty()) text += ":" + request.quantisation;
  if (!request.revision.empty()) text += "@" + request.revision;
  return text;
}

// A table of models in the text of an error.
std::string lines_of(const std::vector<HubModel>& models) {
  std::string lines;
  for (std::size_t i = 0; i < std::min(models.size(), kModelsListed); ++i) {
    const HubModel& model = models[i];
    lines += "\n  " + model.path + " (" + format_bytes(model.bytes);
    if (model.parts > 1) lines += ", " + std::to_string(model.parts) + " parts";
    lines += ")";
  }
  if (models.size() > kModelsListed) {
    lines += "\n  and " + std::to_string(models.size() - kModelsListed) + " more";
  }
  return lines;
}

// How to name a model: "one, for example hf:org/repo:Q8_0, or a file, hf:org/repo/FILE".
std::string how_to_name(const std::string& repository, const std::string& quantisation) {
  const std::string file = "a file, hf:" + repository + "/FILE";
  if (quantisation.empty()) return file;
  return "one, for example hf:" + repository + ":" + quantisation + ", or " + file;
}

}  // namespace

Status check_url(const std::string& url) {
  REQUIRE(client::is_fetchable(url), "source ", client::without_secrets(url),
          ": only https:// addresses are fetched, and http:// ones of this machine "
          "(127.0.0.1, localhost, [::1]); use an https:// address, or download the file "
          "and pull its path");
  return ok_status();
}

bool may_be_published(const std::string& source) {
  const bool fits = source.size() <= limits::kSourceBytes &&
                    std::ranges::all_of(source, [](char c) { return c > 0x20 && c < 0x7F; });
  if (!fits) return false;
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
          "source hf:", reference, ": expected hf:org/repo/file[@revision] or hf:org/repo:Q4_K_M");
  const std::string endpoint = hub_endpoint();
  Remote remote;
  const std::string branch = "/resolve/" + percent_encode(revision, "") + "/";
  remote.url = endpoint + "/" + percent_encode(reference.substr(0, second), "/") + branch +
               percent_encode(reference.substr(second + 1), "/");
  TRY_VOID(check_url(remote.url));
  remote.headers = hub_headers();
  const client::HttpClient::Options asked{std::chrono::seconds(20), remote.headers, false};
  TRY(client::HttpReply reply, http.head(remote.url, asked));
  for (int renames = 0; renames < kRenamesMost && is_renamed(reply); ++renames) {
    remote.url = endpoint + reply.headers["location"];
    TRY(reply, http.head(remote.url, asked));
  }
  TRY_VOID(check_answer(remote.url, reply));
  const std::string etag = digest_of(reply.headers["x-linked-etag"]);
  if (is_sha256(etag)) remote.sha256 = etag;
  remote.bytes = number_of(reply.headers["x-linked-size"]);
  if (remote.bytes == 0 && reply.status == kOk) {
    remote.bytes = number_of(reply.headers["content-length"]);
  }
  const auto at = remote.url.find(branch);
  if (const auto& commit = reply.headers["x-repo-commit"]; !commit.empty() && at != branch.npos) {
    // A branch that moves cannot mix two versions.
    remote.url.replace(at, branch.size(), "/resolve/" + percent_encode(commit, "") + "/");
    remote.commit = commit;
  }
  return remote;
}

Result<Remote> locate(client::HttpClient& http, const std::string& source) {
  if (source.starts_with("hf:")) return resolve_hub(http, source.substr(3));
  Remote remote;
  remote.url = source;
  return remote;
}

Status measure(client::HttpClient& http, Remote& remote) {
  if (remote.bytes > 0) return ok_status();
  TRY(client::HttpReply reply,
      http.head(remote.url, {std::chrono::seconds(20), remote.headers, true}));
  if (reply.status < 400) remote.bytes = number_of(reply.headers["content-length"]);
  return ok_status();
}

Result<std::vector<std::string>> part_sources(const std::string& source) {
  const auto end = source.starts_with("hf:") ? source.rfind('@') : source.find_first_of("?#");
  const std::string path = source.substr(0, end);
  const std::string rest = end == std::string::npos ? std::string() : source.substr(end);
  const auto part = model::part_name(path);
  if (!part) return std::vector<std::string>{source};
  REQUIRE(part->place.number == 1, client::without_secrets(source), " is part ", part->place.number,
          " of ", part->place.count, " of a model: name the first part, ",
          client::without_secrets(part->of(1) + rest));
  std::vector<std::string> sources;
  for (const std::string& each : model::all_parts(path)) sources.push_back(each + rest);
  return sources;
}

std::string at_commit(const std::string& source, const std::string& commit) {
  if (commit.empty() || !source.starts_with("hf:")) return source;
  return source.substr(0, source.rfind('@')) + "@" + commit;
}

std::optional<HubRequest> hub_request(const std::string& source) {
  if (!source.starts_with("hf:")) return std::nullopt;
  HubRequest request;
  std::string text = source.substr(3);
  if (const auto at = text.rfind('@'); at != std::string::npos) {
    request.revision = text.substr(at + 1);
    text.resize(at);
  }
  if (const auto colon = text.rfind(':'); colon != std::string::npos) {
    request.quantisation = text.substr(colon + 1);
    text.resize(colon);
  }
  const auto slash = text.find('/');
  const bool repository = slash != std::string::npos && slash > 0 && slash + 1 < text.size() &&
                          text.find('/', slash + 1) == std::string::npos &&
                          text.find("..") == std::string::npos;
  if (!repository) return std::nullopt;
  request.repository = std::move(text);
  return request;
}

Result<std::string> choose_in_hub(client::HttpClient& http, const HubRequest& request) {
  TRY(const std::vector<HubModel> all, models_of_hub(http, request));
  const std::string named = text_of_request(request);
  REQUIRE(!all.empty(), named, ": the repository has no GGUF file of a model");
  const std::string wanted = boost::algorithm::to_upper_copy(request.quantisation);
  std::vector<HubModel> meant;
  for (const HubModel& model : all) {
    if (wanted.empty() || has_quantisation(model.path, wanted)) meant.push_back(model);
  }
  // Several models may have the quantisation in a folder or within the name. The one whose name
  // ends with it is meant.
  if (meant.size() > 1 && !wanted.empty()) {
    std::vector<HubModel> exact;
    for (const HubModel& model : meant) {
      if (model.quantisation == wanted) exact.push_back(model);
    }
    if (exact.size() == 1) meant = std::move(exact);
  }
  REQUIRE(!meant.empty(), named,
          ": no model of the repository has this name; it has:", lines_of(all), "\nname ",
          how_to_name(request.repository, all.front().quantisation));
  // When several models have the wanted quantisation, only a file distinguishes them.
  const std::string example = wanted.empty() ? meant.front().quantisation : std::string();
  REQUIRE(meant.size() == 1, named, ": the repository has ", meant.size(),
          " such models:", lines_of(meant), "\nname ", how_to_name(request.repository, example));
  std::string source = "hf:" + request.repository + "/" + meant.front().path;
  if (!request.revision.empty()) source += "@" + request.revision;
  return source;
}

}  // namespace hearth::cli
