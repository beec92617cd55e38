#include "coordinator/client/http_client.h"

#include <curl/curl.h>

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/limits.h"
#include "coordinator/client/api_address.h"
#include "coordinator/client/member_link.h"

namespace hearth::client {
namespace {

// What one transfer needs while libcurl calls back.
struct Transfer {
  CURL* curl = nullptr;
  HttpReply reply;
  std::function<Status(std::string_view)> on_body;
  Status failed = ok_status();
  bool follows = false;  // redirects
};

constexpr std::size_t kLocationShown = 256;
constexpr long kOk = 200;
constexpr long kPartialContent = 206;
constexpr long kMultipleChoices = 300;
constexpr long kBadRequest = 400;

long status_of(const Transfer& transfer) {
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// libcurl follows a redirect once its headers are complete; here it is refused before that.
Status check_location(const Transfer& transfer, const std::string& location) {
  const long status = status_of(transfer);
  if (!transfer.follows || status < kMultipleChoices || status >= kBadRequest) return ok_status();
  char* from = nullptr;
  curl_easy_getinfo(transfer.curl, CURLINFO_EFFECTIVE_URL, &from);
  return check_redirect(from == nullptr ? "" : from, location);
}

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/"))
    transfer.reply.headers.clear();  // headers of a redirect are not the answer's
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    const std::string value = boost::algorithm::trim_copy(std::string(line.substr(colon + 1)));
    const std::string name = boost::algorithm::to_lower_copy(std::string(line.substr(0, colon)));
    if (name == "location") transfer.failed = check_location(transfer, value);
    if (!transfer.failed.ok()) return 0;
    transfer.reply.headers[name] = value;
  }
  return size * count;
}

size_t on_data(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.failed = transfer.on_body({data, size * count});
  return transfer.failed.ok() ? size * count : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const HttpClient::Cancelled*>(user))() ? 1 : 0;
}

Error curl_error(CURLcode code, const std::string& url) {
  const std::string what = without_secrets(url) + " (" + curl_easy_strerror(code) + ")";
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK: return {ErrorCode::kCancelled, "interrupted"};
    case CURLE_OPERATION_TIMEDOUT:
      return Error::of(ErrorCode::kTimeout, "no answer in time from ", what);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
      return Error::of(ErrorCode::kUnavailable, "cannot reach ", what);
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
      return Error::of(ErrorCode::kUnavailable, "lost the connection to ", what);
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      return Error::of(ErrorCode::kRefused, "the machine at ", what,
                       " is not the coordinator of this machine's cluster");
    default: return Error::of(ErrorCode::kIo, "the transfer failed: ", what);
  }
}

// libcurl speaks TLS over a socket that has been dialled and announced as a member's.
void go_by_link(CURL* curl, const MemberLink& link) {
  const auto pem = [curl](CURLoption option, const std::string& text) {
    curl_blob blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
    curl_easy_setopt(curl, option, &blob);
  };
  pem(CURLOPT_SSLCERT_BLOB, link.identity.certificate);
  pem(CURLOPT_SSLKEY_BLOB, link.identity.private_key);
  curl_easy_setopt(curl, CURLOPT_SSLCERTTYPE, "PEM");
  curl_easy_setopt(curl, CURLOPT_SSLKEYTYPE, "PEM");
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_3));
  // No authority signs a node's certificate: its key is all that counts.
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, pinned_key(link.coordinator).c_str());
  curl_easy_setopt(curl, CURLOPT_SSL_ENABLE_ALPN, 0L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &link);
  curl_easy_setopt(
      curl, CURLOPT_OPENSOCKETFUNCTION,
      +[](void* user, curlsocktype /*purpose*/, curl_sockaddr* /*to*/) {
        return dial_member_link(*static_cast<const MemberLink*>(user));
      });
  curl_easy_setopt(
      curl, CURLOPT_SOCKOPTFUNCTION,
      +[](void* /*user*/, curl_socket_t /*socket*/, curlsocktype /*purpose*/) {
        return static_cast<int>(CURL_SOCKOPT_ALREADY_CONNECTED);
      });
}

std::string part_of(CURLU* address, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(address, part, &text, 0) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

bool is_plain_loopback(CURLU* address) {
  const std::string host = part_of(address, CURLUPART_HOST);
  return part_of(address, CURLUPART_SCHEME) == "http" &&
         (host == "127.0.0.1" || host == "localhost" || host == "[::1]");
}

std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(const std::string& url) {
  std::unique_ptr<CURLU, void (*)(CURLU*)> address(curl_url(), curl_url_cleanup);
  if (curl_url_set(address.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) address.reset();
  return address;
}

// The hosts that are asked without a proxy: those of the environment, and this machine.
std::string hosts_without_proxy(const std::string& url) {
  std::string hosts;
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    const char* const given = std::getenv(name);
    if (hosts.empty() && given != nullptr) hosts = given;
  }
  if (hosts == "*") return hosts;
  hosts += ",localhost,127.0.0.1,::1";
  const auto address = parsed(url);
  std::string host = address ? part_of(address.get(), CURLUPART_HOST) : "";
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  return is_own_host(host) ? hosts + "," + host : hosts;
}

// The value of a line of an event stream, if the line has that field.
std::optional<std::string_view> value_of(std::string_view line, std::string_view field) {
  if (!line.starts_with(field)) return std::nullopt;
  line.remove_prefix(field.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

}  // namespace

struct HttpClient::State {
  CURL* curl = nullptr;
  bool connected = false;
  bool answered = false;
  const HttpClient::Cancelled cancelled;

  explicit State(HttpClient::Cancelled when) : cancelled(std::move(when)) {
    static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (ready) curl = curl_easy_init();
  }
  ~State() {
    if (curl != nullptr) curl_easy_cleanup(curl);
  }

  Result<HttpReply> perform(const std::string& url, const Options& options, Transfer& transfer,
                            curl_slist* extra) {
    curl_slist* list = extra;
    for (const auto& [name, value] : options.headers) {
      list = curl_slist_append(list, (name + ": " + value).c_str());
    }
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");  // see check_redirect()
    curl_easy_setopt(curl, CURLOPT_NOPROXY, hosts_without_proxy(url).c_str());
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 10'000L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout.count()));
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, options.follow_redirects ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    const bool watched = cancelled && !options.after_cancel;
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, watched ? 0L : 1L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &cancelled);
    if (const MemberLink* link = member_link_of(url)) go_by_link(curl, *link);
    transfer.curl = curl;
    transfer.follows = options.follow_redirects;
    const CURLcode code = curl_easy_perform(curl);
    connected = code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.reply.status);
    answered = transfer.reply.status != 0;
    curl_slist_free_all(list);
    curl_easy_reset(curl);
    if (!transfer.failed.ok()) return std::move(transfer.failed).error();
    if (code != CURLE_OK) return curl_error(code, url);
    return std::move(transfer.reply);
  }

  Result<HttpReply> fetch(const std::string& url, const Options& options) {
    Transfer transfer;
    transfer.on_body = into_body(transfer);
    return perform(url, options, transfer, nullptr);
  }

  // Of a part of something long, in libcurl's notation; empty: of the whole.
  Result<HttpReply> download(const std::string& url, const std::string& range,
                             const Options& options, Transfer& transfer) {
    if (!range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall.count()));
    return perform(url, options, transfer, nullptr);
  }

  static std::function<Status(std::string_view)> into_body(Transfer& transfer) {
    return [&transfer](std::string_view bytes) -> Status {
      REQUIRE(bytes.size() <= limits::kClientBodyBytes - transfer.reply.body.size(),
              "the answer's body is longer than the limit of ", limits::kClientBodyBytes, " bytes");
      transfer.reply.body.append(bytes);
      return ok_status();
    };
  }
};

HttpClient::HttpClient(Cancelled cancelled)
    : state_(std::make_unique<State>(std::move(cancelled))) {}
HttpClient::~HttpClient() = default;

bool HttpClient::connected() const { return state_->connected; }
bool HttpClient::answered() const { return state_->answered; }

Result<HttpReply> HttpClient::get(const std::string& url, const Options& options) {
  return state_->fetch(url, options);
}

Result<HttpReply> HttpClient::head(const std::string& url, const Options& options) {
  curl_easy_setopt(state_->curl, CURLOPT_NOBODY, 1L);
  return state_->fetch(url, options);
}

Result<HttpReply> HttpClient::erase(const std::string& url, const Options& options) {
  curl_easy_setopt(state_->curl, CURLOPT_CUSTOMREQUEST, "DELETE");
  return state_->fetch(url, options);
}

Result<HttpReply> HttpClient::post_json(const std::string& url, std::string_view body,
                                        const Options& options) {
  return post_stream(url, body, options, [](std::string_view, const std::string&) { return true; });
}

Result<HttpReply> HttpClient::post_stream(const std::string& url, std::string_view body,
                                          const Options& options, const OnEvent& on_event) {
  Transfer transfer;
  EventStreamParser parser;
  const auto into_body = State::into_body(transfer);
  transfer.on_body = [&](std::string_view bytes) -> Status {
    const auto type = transfer.reply.headers.find("content-type");
    const bool stream =
        type != transfer.reply.headers.end() && type->second.starts_with("text/event-stream");
    if (!stream) return into_body(bytes);
    TRY(const bool more, parser.push(bytes, on_event));
    if (!more) return Error{ErrorCode::kCancelled, "stopped"};
    return ok_status();
  };
  curl_easy_setopt(state_->curl, CURLOPT_POST, 1L);
  curl_easy_setopt(state_->curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(state_->curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_slist* type = curl_slist_append(nullptr, "Content-Type: application/json");
  type = curl_slist_append(type, "Expect:");
  return state_->perform(url, options, transfer, type);
}

Result<HttpReply> HttpClient::download(const std::string& url, std::uint64_t offset,
                                       const Options& options,
                                       const std::function<Status()>& restart,
                                       const std::function<Status(std::string_view)>& sink) {
  Transfer transfer;
  bool begun = false;
  transfer.on_body = [&](std::string_view bytes) -> Status {
    const long status = status_of(transfer);
    if (status >= kBadRequest) return ok_status();  // an error page is not part of the file
    if (!begun && status == kPartialContent) {
      const std::string& sent = transfer.reply.headers["content-range"];
      const std::string begin = "bytes " + std::to_string(offset) + "-";
      if (!sent.starts_with(begin)) {
        return Error::of(ErrorCode::kUnsupported, "asked ", without_secrets(url), " for ", begin,
                         ", it sends \"", sent.substr(0, 64), "\"");
      }
    }
    if (!begun && offset > 0 && status == kOk) TRY_VOID(restart());
    begun = true;
    return sink(bytes);
  };
  const std::string range = offset > 0 ? std::to_string(offset) + "-" : "";
  return state_->download(url, range, options, transfer);
}

Result<HttpReply> HttpClient::get_range(const std::string& url, std::uint64_t begin,
                                        std::uint64_t end, std::uint64_t total,
                                        const Options& options,
                                        const std::function<Status(std::string_view)>& sink) {
  const std::string part = message_of(begin, "-", end - 1);
  const std::string wanted = "bytes " + part + "/" + std::to_string(total);
  Transfer transfer;
  transfer.on_body = [&](std::string_view bytes) -> Status {
    const long status = status_of(transfer);
    if (status >= kBadRequest) return ok_status();
    const std::string& sent = transfer.reply.headers["content-range"];
    if (status == kPartialContent && sent == wanted) return sink(bytes);
    std::string what = "it does not serve ranges (status " + std::to_string(status) + ")";
    if (status == kPartialContent)
      what = "asked for " + wanted + ", it sends " + sent.substr(0, 64);
    return Error{ErrorCode::kUnsupported, what};
  };
  return state_->download(url, part, options, transfer);
}

std::optional<std::int64_t> date_of(const HttpReply& reply) {
  const auto date = reply.headers.find("date");
  if (date == reply.headers.end()) return std::nullopt;
  const std::time_t seconds = curl_getdate(date->second.c_str(), nullptr);
  return seconds < 0 ? std::nullopt : std::optional<std::int64_t>(seconds);
}

bool is_fetchable(const std::string& url) {
  const auto address = parsed(url);
  if (!address) return false;
  return part_of(address.get(), CURLUPART_SCHEME) == "https" || is_plain_loopback(address.get());
}

std::string without_secrets(std::string url) {
  if (const auto query = url.find_first_of("?#"); query != std::string::npos) {
    url.replace(query, std::string::npos, "?...");
  }
  const auto scheme = url.find("//");
  if (scheme == std::string::npos) return url;
  const auto host = scheme + 2;
  const auto at = url.substr(0, url.find('/', host)).rfind('@');
  if (at != std::string::npos && at >= host) url.replace(host, at - host, "...");
  return url;
}

Status check_redirect(const std::string& from, const std::string& location) {
  const auto refused = [&] {
    return Error::of(ErrorCode::kRefused, without_secrets(from), " redirects to ",
                     without_secrets(location.substr(0, kLocationShown)),
                     ": only https:// addresses are followed, and from http:// ones of this "
                     "machine those of this machine; use the final https:// address");
  };
  const auto address = parsed(from);
  if (!address) return refused();
  const bool from_here = is_plain_loopback(address.get());
  if (curl_url_set(address.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK) {
    return refused();
  }
  if (part_of(address.get(), CURLUPART_SCHEME) == "https") return ok_status();
  if (from_here && is_plain_loopback(address.get())) return ok_status();
  return refused();
}

Result<bool> EventStreamParser::push(std::string_view bytes, const OnEvent& on_event) {
  const auto too_long = [] {
    return Error::invalid("the server sent an event of over ", limits::kClientBodyBytes, " bytes");
  };
  for (const char c : bytes) {
    if (c == '\r') continue;
    if (c != '\n') {
      if (line_.size() == limits::kClientBodyBytes) return too_long();
      line_ += c;
      continue;
    }
    if (line_.empty() && has_data_) {
      has_data_ = false;
      const std::string event = std::exchange(data_, {});
      if (!on_event(event, id_)) return false;
    } else if (const auto data = value_of(line_, "data:")) {
      if (data->size() >= limits::kClientBodyBytes - data_.size()) return too_long();
      if (has_data_) data_ += '\n';
      data_ += *data;
      has_data_ = true;
    } else if (const auto id = value_of(line_, "id:")) {
      if (id->find('\0') == std::string_view::npos) id_ = *id;
    }
    line_.clear();
  }
  return true;
}

}  // namespace hearth::client
