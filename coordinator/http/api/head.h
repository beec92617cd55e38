// Heads of HTTP messages as plain data: the checks of a request's head before its body is read, and
// the bytes of an answer's head. The check of Host stops DNS rebinding, that of Origin stops pages
// of other sites; their defaults are ollama's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/openai/errors.h"

namespace hearth::coordinator::http {

// The names of this machine, in addition to those of loopback.
struct HostNames {
  std::vector<std::string> names;
  // Allow any IP address: the API listens beyond loopback, and a name server cannot forge
  // addresses.
  bool any_address = false;
};

// A Host header (or the authority of an absolute target) that names this machine: localhost,
// *.localhost, 127.0.0.0/8, [::1], [::ffff:127.0.0.1], or one of `names`. Any port.
bool host_allowed(std::string_view host, const HostNames& names);

// An Origin on this machine (http or https on localhost, a loopback address or one of the names),
// or on the host that the request names, or of a desktop shell: app://, file://, tauri://,
// vscode-webview://, vscode-file://. `host`: an allowed Host header, or empty.
bool origin_allowed(std::string_view origin, std::string_view host, const HostNames& names);

// "%41" decoding of a path. False for a broken escape, a NUL or a control character.
bool decode_path(std::string_view raw, std::string& out);

struct RequestHead {
  std::string method;
  std::string target;
  int version = 11;  // 10 * major + minor
  std::uint32_t hosts = 0;
  std::string host;
  std::string origin;  // empty: none
  // A part of another site's page (Sec-Fetch-Site), such as a picture or a script: a browser
  // requests it without an Origin. A link that a user follows does not count.
  bool cross_site = false;
  std::uint32_t authorizations = 0;
  std::string authorization;
  std::uint32_t content_lengths = 0;
  std::optional<std::uint64_t> content_length;
  std::uint32_t transfer_encodings = 0;
  std::string transfer_encoding;
  std::string content_type;
  std::string content_encoding;
  std::string expect;
  std::string requested_method;   // Access-Control-Request-Method
  std::string requested_headers;  // Access-Control-Request-Headers
  bool forwarded = false;         // a proxy says that it forwards the request of another machine
  std::string repeated;           // a field that has one value and came more than once; empty: none
  std::vector<std::string> idempotency_keys;
  std::vector<std::string> last_event_ids;
  bool keep_alive = true;

  // A browser asks whether a page may send a request. It never carries a key.
  bool is_preflight() const {
    return method == "OPTIONS" && !origin.empty() && !requested_method.empty();
  }
  bool has_body() const { return transfer_encodings > 0 || content_length.value_or(0) > 0; }
};

// Framing, version, Host, Origin and target. `path` gets the decoded path. `close`: the connection
// must be closed if the request is refused now, because its end is unknown or its body is unread.
struct HeadCheck {
  std::optional<ApiError> error;
  bool close = false;
  std::string path;
};
HeadCheck check_head(const RequestHead& head, const HostNames& names);

// Checks the head of a request with a JSON body: 411, 415, 417, and 400 for an invalid
// Idempotency-Key or Last-Event-ID.
std::optional<ApiError> check_body_head(const RequestHead& head);

// How an answer is framed.
enum class BodyFraming : std::uint8_t { kLength, kChunked, kUntilClose };

struct AnswerContext {
  std::string request_id;
  std::string origin;  // an allowed origin, or empty
  std::string date;    // http_date(), or empty
  bool keep_alive = true;
  bool http10 = false;
  bool anthropic = false;  // its clients read the id from `request-id`
};

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
std::string http_date(std::int64_t unix_seconds);

std::string response_head(const HttpResponse& response, const AnswerContext& context,
                          BodyFraming framing);
// 204 to a CORS preflight, or to any OPTIONS.
HttpResponse options_response(const RequestHead& head);

}  // namespace hearth::coordinator::http
