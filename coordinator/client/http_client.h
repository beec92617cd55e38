// An HTTP client, on libcurl: requests to a Hearth server, streams of server-sent events, and
// downloads. One object a thread; every call blocks. Proxies are those of the environment
// (http_proxy, https_proxy, all_proxy, no_proxy), but never for addresses of this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hearth::client {

struct HttpReply {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// The "data:" payload of one server-sent event, and the latest "id:" so far.
using OnEvent = std::function<bool(std::string_view data, const std::string& id)>;

class HttpClient {
 public:
  // Returns true to end a transfer with kCancelled; called several times a second. Null: never.
  using Cancelled = std::function<bool()>;

  explicit HttpClient(Cancelled cancelled = nullptr);
  ~HttpClient();

  using Headers = std::map<std::string, std::string>;
  struct Options {
    std::chrono::milliseconds timeout{0};  // of the whole request; 0 = none
    Headers headers;
    bool follow_redirects = false;   // as check_redirect() allows
    std::chrono::seconds stall{30};  // a download without a byte for so long fails with kTimeout
    bool after_cancel = false;       // the request runs even after `cancelled` returned true
  };

  // kUnavailable when there is no answer, kCancelled, kTimeout. A status of 400 and more is a
  // reply, not an error. Bodies and events over limits::kClientBodyBytes are kInvalidInput.
  Result<HttpReply> get(const std::string& url, const Options& options);
  Result<HttpReply> head(const std::string& url, const Options& options);
  Result<HttpReply> erase(const std::string& url, const Options& options);  // DELETE
  Result<HttpReply> post_json(const std::string& url, std::string_view body,
                              const Options& options);
  // POSTs and feeds each event of the stream to on_event, which returns false to stop (kCancelled).
  // An answer that is not text/event-stream is returned as the reply.
  Result<HttpReply> post_stream(const std::string& url, std::string_view body,
                                const Options& options, const OnEvent& on_event);
  // Whether the last request of this client reached a server, and whether any HTTP came back.
  bool connected() const;
  bool answered() const;
  // GETs from byte `offset` on and passes the body to `sink` piece by piece. When the server
  // ignores the range, `restart` is called first; kUnsupported when it sends another range.
  Result<HttpReply> download(const std::string& url, std::uint64_t offset, const Options& options,
                             const std::function<Status()>& restart,
                             const std::function<Status(std::string_view)>& sink);
  // GETs the bytes [begin, end) of a file of `total` bytes, and passes only these to `sink`.
  // kUnsupported when the server sends the whole file or another part. A status of 400 and more is
  // a reply whose body is dropped.
  Result<HttpReply> get_range(const std::string& url, std::uint64_t begin, std::uint64_t end,
                              std::uint64_t total, const Options& options,
                              const std::function<Status(std::string_view)>& sink);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether files may be fetched from this address: https://, or plain http on this machine.
bool is_fetchable(const std::string& url);
// An address for display and storage: "..." replaces user, password and query, which may be secret.
std::string without_secrets(std::string url);
// The time of the answer's Date header, in unix seconds; nothing without a valid one.
std::optional<std::int64_t> date_of(const HttpReply& reply);
// Whether a download from one address may follow a redirect to another: to https://, and from plain
// http on this machine to plain http on this machine. Else kRefused.
Status check_redirect(const std::string& from, const std::string& location);

// Splits an event stream into its events; comments and other fields are skipped.
class EventStreamParser {
 public:
  // False when on_event returned false; kInvalidInput for an event over limits::kClientBodyBytes.
  Result<bool> push(std::string_view bytes, const OnEvent& on_event);

 private:
  std::string line_;
  std::string id_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace hearth::client
