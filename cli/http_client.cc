#include "cli/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kBodyBytesMax = 64 << 20;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// What one transfer needs while libcurl calls back.
struct Transfer {
  CURL* curl = nullptr;
  HttpReply reply;
  std::function<Status(std::string_view)> on_body;
  Status failed = ok_status();
};

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/"))
    transfer.reply.headers.clear();  // a redirect's are not the answer's
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string value(line.substr(colon + 1));
    value.erase(0, value.find_first_not_of(" \t"));
    value.erase(value.find_last_not_of(" \t\r\n") + 1);
    transfer.reply.headers[lower(std::string(line.substr(0, colon)))] = value;
  }
  return size * count;
}

size_t on_data(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  Status status = transfer.on_body({data, size * count});
  if (!status.ok()) {
    transfer.failed = std::move(status);
    return 0;
  }
  return size * count;
}

int on_progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return interrupted() ? 1 : 0;
}

Error curl_error(CURLcode code, const std::string& url) {
  const std::string what = url + " (" + curl_easy_strerror(code) + ")";
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK: return {ErrorCode::kCancelled, "interrupted"};
    case CURLE_OPERATION_TIMEDOUT: return {ErrorCode::kTimeout, "no answer in time from " + what};
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST: return {ErrorCode::kUnavailable, "cannot reach " + what};
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE: return {ErrorCode::kUnavailable, "lost the connection to " + what};
    default: return {ErrorCode::kIo, "the transfer failed: " + what};
  }
}

// Of a line of an event stream; nothing when it is another field's.
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

  State() {
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
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
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
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, options.after_interrupt ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    transfer.curl = curl;
    const CURLcode code = curl_easy_perform(curl);
    connected = code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST;
    char* location = nullptr;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.reply.status);
    curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &location);
    if (location != nullptr) transfer.reply.location = location;
    curl_slist_free_all(list);
    curl_easy_reset(curl);
    if (!transfer.failed.ok()) return std::move(transfer.failed).error();
    if (code != CURLE_OK) return curl_error(code, url);
    return std::move(transfer.reply);
  }

  void watch_for_stalls(const Options& options) const {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall.count()));
  }

  static std::function<Status(std::string_view)> into_body(Transfer& transfer) {
    return [&transfer](std::string_view bytes) -> Status {
      REQUIRE(transfer.reply.body.size() + bytes.size() <= kBodyBytesMax,
              "the answer's body is over 64 MiB");
      transfer.reply.body.append(bytes);
      return ok_status();
    };
  }
};

HttpClient::HttpClient() : state_(std::make_unique<State>()) {}
HttpClient::~HttpClient() = default;

bool HttpClient::connected() const { return state_->connected; }

Result<HttpReply> HttpClient::get(const std::string& url, const Options& options) {
  Transfer transfer;
  transfer.on_body = State::into_body(transfer);
  return state_->perform(url, options, transfer, nullptr);
}

Result<HttpReply> HttpClient::head(const std::string& url, const Options& options) {
  Transfer transfer;
  transfer.on_body = State::into_body(transfer);
  curl_easy_setopt(state_->curl, CURLOPT_NOBODY, 1L);
  return state_->perform(url, options, transfer, nullptr);
}

Result<HttpReply> HttpClient::erase(const std::string& url, const Options& options) {
  Transfer transfer;
  transfer.on_body = State::into_body(transfer);
  curl_easy_setopt(state_->curl, CURLOPT_CUSTOMREQUEST, "DELETE");
  return state_->perform(url, options, transfer, nullptr);
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
    if (!parser.push(bytes, on_event)) return Error{ErrorCode::kCancelled, "stopped"};
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
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400) return ok_status();  // an error page is no part of the file
    if (!begun && offset > 0 && status == 200) TRY_VOID(restart());
    begun = true;
    return sink(bytes);
  };
  if (offset > 0) {
    curl_easy_setopt(state_->curl, CURLOPT_RANGE, (std::to_string(offset) + "-").c_str());
  }
  state_->watch_for_stalls(options);
  return state_->perform(url, options, transfer, nullptr);
}

Result<HttpReply> HttpClient::get_range(const std::string& url, std::uint64_t begin,
                                        std::uint64_t end, std::uint64_t total,
                                        const Options& options,
                                        const std::function<Status(std::string_view)>& sink) {
  const std::string part = std::to_string(begin) + "-" + std::to_string(end - 1);
  const std::string wanted = "bytes " + part + "/" + std::to_string(total);
  Transfer transfer;
  transfer.on_body = [&](std::string_view bytes) -> Status {
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400) return ok_status();
    const std::string& sent = transfer.reply.headers["content-range"];
    if (status == 206 && sent == wanted) return sink(bytes);
    std::string what = "it does not serve ranges (status " + std::to_string(status) + ")";
    if (status == 206) what = "asked for " + wanted + ", it sends " + sent.substr(0, 64);
    return Error{ErrorCode::kUnsupported, what};
  };
  curl_easy_setopt(state_->curl, CURLOPT_RANGE, part.c_str());
  state_->watch_for_stalls(options);
  return state_->perform(url, options, transfer, nullptr);
}

bool EventStreamParser::push(std::string_view bytes, const OnEvent& on_event) {
  for (const char c : bytes) {
    if (c == '\r') continue;
    if (c != '\n') {
      line_ += c;
      continue;
    }
    if (line_.empty() && has_data_) {
      has_data_ = false;
      const std::string event = std::exchange(data_, {});
      if (!on_event(event, id_)) return false;
    } else if (const auto data = value_of(line_, "data:")) {
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

}  // namespace hearth::cli
