#include "coordinator/http/api/head.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>

#include "base/limits.h"
#include "coordinator/http/api/access.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::size_t kTargetBytes = 8 * limits::kKiB;

ApiError with_status(unsigned status, std::string message, std::string code) {
  ApiError error = ApiError::invalid(std::move(message), std::nullopt, std::move(code));
  error.status = status;
  return error;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// A message that can be framed in two ways allows request smuggling: anything but one
// Content-Length or one `chunked` is refused.
std::optional<ApiError> check_framing(const RequestHead& head) {
  if (head.content_lengths > 1) {
    return with_status(400, "the request has more than one Content-Length header", "bad_framing");
  }
  if (head.transfer_encodings == 0) return std::nullopt;
  if (head.version < 11) {
    return with_status(400, "Transfer-Encoding needs HTTP/1.1", "bad_framing");
  }
  if (head.content_lengths > 0 || head.transfer_encodings > 1) {
    return with_status(400,
                       "the request has more than one header that gives the length of its body",
                       "bad_framing");
  }
  if (!equals_ignoring_case(trimmed(head.transfer_encoding), "chunked")) {
    return with_status(400, "Transfer-Encoding must be chunked", "bad_framing");
  }
  return std::nullopt;
}

ApiError forbidden(std::string message, std::string code) {
  ApiError error = with_status(403, std::move(message), std::move(code));
  error.type = "permission_error";
  return error;
}

// Path and, for the absolute form, authority of a target. False: neither form.
bool split_target(std::string_view target, std::string& path, std::string& authority) {
  for (const std::string_view scheme :
       {std::string_view("http://"), std::string_view("https://")}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t slash = std::min(target.find('/'), target.size());
    authority = target.substr(0, slash);
    target.remove_prefix(slash);
    if (target.empty()) target = "/";
    break;
  }
  if (!target.starts_with('/')) return false;
  return decode_path(target.substr(0, target.find_first_of("?#")), path);
}

std::string_view reason_phrase(unsigned status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

// Whether there is at most one, of 1 to `limit` printable characters.
bool plain_value(const std::vector<std::string>& values, std::size_t limit) {
  if (values.empty()) return true;
  const std::string& value = values.front();
  const bool printable =
      std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= ' ' && c <= '~'; });
  return values.size() == 1 && !value.empty() && value.size() <= limit && printable;
}

std::optional<ApiError> check_return(const RequestHead& head) {
  const auto rule = [](const char* name, std::size_t limit) {
    return std::string(name) + " must be one header of 1 to " + std::to_string(limit) +
           " printable ASCII characters";
  };
  if (!plain_value(head.idempotency_keys, limits::kIdempotencyKeyBytes)) {
    return with_status(400, rule("Idempotency-Key", limits::kIdempotencyKeyBytes),
                       "bad_idempotency_key");
  }
  if (!plain_value(head.last_event_ids, limits::kLastEventIdBytes)) {
    return with_status(400, rule("Last-Event-ID", limits::kLastEventIdBytes), "bad_last_event_id");
  }
  if (!head.last_event_ids.empty() && head.idempotency_keys.empty()) {
    return with_status(400,
                       "Last-Event-ID needs the Idempotency-Key of the request that it continues",
                       "bad_last_event_id");
  }
  return std::nullopt;
}

}  // namespace

HeadCheck check_head(const RequestHead& head, const HostNames& names) {
  HeadCheck out;
  out.close = true;
  if (head.version != 10 && head.version != 11) {
    out.error = with_status(505, "the HTTP version must be 1.0 or 1.1", "http_version");
    return out;
  }
  if ((out.error = check_framing(head))) return out;
  out.close = head.has_body();  // its body is not read
  if (head.target.size() > kTargetBytes) {
    out.error = with_status(
        414, "the request target is longer than " + std::to_string(kTargetBytes) + " bytes",
        "target_too_long");
    return out;
  }
  if (head.hosts > 1 || (head.hosts == 0 && head.version >= 11)) {
    out.error = with_status(400, "the request must have exactly one Host header", "bad_host");
    return out;
  }
  std::string authority = head.host;
  const bool asterisk = head.method == "OPTIONS" && head.target == "*";
  if (!asterisk && !split_target(head.target, out.path, authority)) {
    out.error = with_status(400, "the request target is not a path", "bad_target");
    return out;
  }
  const bool named = head.hosts > 0 || !authority.empty();
  if (named &&
      (!host_allowed(authority, names) || (head.hosts > 0 && !host_allowed(head.host, names)))) {
    out.error = forbidden(
        "the Host header names another machine; use localhost, or start the server with "
        "--host-name NAME",
        "host_not_allowed");
    return out;
  }
  if (!head.origin.empty() && !origin_allowed(head.origin, head.host, names)) {
    out.error = forbidden("pages of other origins may not call this API (Origin header)",
                          "origin_not_allowed");
  }
  return out;
}

std::optional<ApiError> check_body_head(const RequestHead& head) {
  if (head.transfer_encodings == 0 && !head.content_length) {
    return with_status(411, "the request needs a body and its Content-Length", "length_required");
  }
  const std::string_view type =
      trimmed(std::string_view(head.content_type).substr(0, head.content_type.find(';')));
  if (!type.empty() && !equals_ignoring_case(type, "application/json")) {
    return with_status(415, "the body must be application/json", "unsupported_media_type");
  }
  const std::string_view encoding = trimmed(head.content_encoding);
  if (!encoding.empty() && !equals_ignoring_case(encoding, "identity")) {
    return with_status(415, "the body must not have a Content-Encoding", "unsupported_media_type");
  }
  if (!head.expect.empty() && !equals_ignoring_case(trimmed(head.expect), "100-continue")) {
    return with_status(417, "Expect must be 100-continue", "expectation_failed");
  }
  return check_return(head);
}

std::string http_date(std::int64_t unix_seconds) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t time = unix_seconds;
  std::tm utc{};
  if (gmtime_r(&time, &utc) == nullptr) return "";
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                kMonths[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                utc.tm_min, utc.tm_sec);
  return text;
}

std::string response_head(const HttpResponse& response, const AnswerContext& context,
                          BodyFraming framing) {
  std::string out = context.http10 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  out += reason_phrase(response.status);
  const auto field = [&out](std::string_view name, std::string_view value) {
    out += "\r\n";
    out += name;
    out += ": ";
    out += value;
  };
  if (response.status != 204) {
    field("Content-Type", response.content_type);
    if (framing == BodyFraming::kLength) {
      field("Content-Length", std::to_string(response.body.size()));
    }
  }
  if (framing == BodyFraming::kChunked) field("Transfer-Encoding", "chunked");
  field("Cache-Control", "no-store");
  if (!context.date.empty()) field("Date", context.date);
  field("x-request-id", context.request_id);
  if (!context.origin.empty()) {
    field("Access-Control-Allow-Origin", context.origin);
    field("Access-Control-Expose-Headers",
          "x-request-id, x-hearth-receipt, Retry-After, x-should-retry");
    field("Vary", "Origin");
  }
  for (const auto& [name, value] : response.headers) field(name, value);
  field("Connection", context.keep_alive ? "keep-alive" : "close");
  out += "\r\n\r\n";
  return out;
}

HttpResponse options_response(const RequestHead& head) {
  HttpResponse out;
  out.status = 204;
  out.headers.emplace_back("Allow", "GET, HEAD, POST, DELETE, OPTIONS");
  if (head.origin.empty()) return out;
  out.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS");
  // The x-stainless-* headers of the official clients change with every version: echoed.
  const std::string& wanted = head.requested_headers;
  out.headers.emplace_back("Access-Control-Allow-Headers",
                           wanted.empty() ? "Authorization, Content-Type" : wanted);
  out.headers.emplace_back("Access-Control-Max-Age", "43200");
  return out;
}

}  // namespace hearth::coordinator::http
