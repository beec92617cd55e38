// Heads of HTTP messages as plain data: the checks of a request's head before its body is read, and
// the bytes of an answer's head.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/http/api/access.h"
#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/openai/errors.h"

namespace hearth::coordinator::http {

struct RequestHead {
  std::string method;
  std::string target;
  int version = 11;  // 10 * major + minor
  std::uint32_t hosts = 0;
  std::string host;
  std::string origin;  // empty: none
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
  std::vector<std::string> idempotency_keys;
  std::vector<std::string> last_event_ids;
  bool keep_alive = true;

  // A browser asks whether a page may send a request. It never carries a key.
  bool is_preflight() const {
    return method == "OPTIONS" && !origin.empty() && !requested_method.empty();
  }
  bool has_body() const { return transfer_encodings > 0 || content_length.value_or(0) > 0; }
};

// Framing, version, Host, Origin and target. `path` gets the decoded path. An error for which the
// end of the request is unknown is followed by a close; `close` says so.
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
};

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
std::string http_date(std::int64_t unix_seconds);

std::string response_head(const HttpResponse& response, const AnswerContext& context,
                          BodyFraming framing);
// 204 to a CORS preflight, or to any OPTIONS.
HttpResponse options_response(const RequestHead& head);

}  // namespace hearth::coordinator::http
