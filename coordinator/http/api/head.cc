#include "coordinator/http/api/head.h"

#include <arpa/inet.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/predicate.hpp>
#include <boost/beast/http/status.hpp>
#include <cctype>
#include <charconv>
#include <cstring>
#include <ctime>

#include "base/limits.h"
#include "proto/address.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::size_t kTargetBytes = 8 * limits::kKiB;

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The name without its port and brackets; empty when malformed.
std::string host_name(std::string_view host) {
  std::string_view name = host;
  std::string_view rest;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    rest = host.substr(end + 1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    rest = host.substr(colon);
  }
  constexpr std::size_t kPortDigits = 5;
  if (name.find('\0') != std::string_view::npos) return {};  // where inet_pton() stops reading
  if (!rest.empty() &&
      (rest[0] != ':' || rest.size() > 1 + kPortDigits || !is_digits(rest.substr(1)))) {
    return {};
  }
  return boost::to_lower_copy(std::string(name));
}

// ::1, or 127.a.b.c in four decimal parts, also within IPv6: "127.0.0.1.evil.example" is a name.
bool is_loopback(const std::string& name) {
  constexpr std::uint32_t kNetwork = 127;
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) {
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) return IN6_IS_ADDR_LOOPBACK(&v6);
    std::memcpy(&v4, &v6.s6_addr[sizeof v6 - sizeof v4], sizeof v4);
  } else if (inet_pton(AF_INET, name.c_str(), &v4) != 1) {
    return false;
  }
  return ntohl(v4.s_addr) >> 24 == kNetwork;
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
    return ApiError::of(400, "the request has more than one Content-Length header", "bad_framing");
  }
  if (head.transfer_encodings == 0) return std::nullopt;
  if (head.version < 11) {
    return ApiError::of(400, "Transfer-Encoding needs HTTP/1.1", "bad_framing");
  }
  if (head.content_lengths > 0 || head.transfer_encodings > 1) {
    return ApiError::of(400,
                        "the request has more than one header that gives the length of its body",
                        "bad_framing");
  }
  if (!boost::iequals(trimmed(head.transfer_encoding), "chunked")) {
    return ApiError::of(400, "Transfer-Encoding must be chunked", "bad_framing");
  }
  return std::nullopt;
}

// Path and, for the absolute form, authority of a target. False: neither form.
bool split_target(std::string_view target, std::string& path, std::string& authority) {
  for (const std::string_view scheme : {"http://", "https://"}) {
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

// As RFC 9110 has them; Beast still has two of its predecessor.
std::string_view reason_phrase(unsigned status) {
  if (status == 413) return "Content Too Large";
  if (status == 422) return "Unprocessable Content";
  const auto phrase =
      boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
  return {phrase.data(), phrase.size()};
}

// At most one value, of 1 to `limit` printable characters.
std::optional<ApiError> check_value(const std::vector<std::string>& values, const char* name,
                                    std::size_t limit, const char* code) {
  const auto printable = [](unsigned char c) { return c >= ' ' && c <= '~'; };
  const auto plain = [&](const std::string& value) {
    return !value.empty() && value.size() <= limit && std::ranges::all_of(value, printable);
  };
  if (values.empty() || (values.size() == 1 && plain(values.front()))) return std::nullopt;
  return ApiError::of(
      400, fmt::format("{} must be one header of 1 to {} printable ASCII characters", name, limit),
      code);
}

std::optional<ApiError> check_return(const RequestHead& head) {
  if (auto error = check_value(head.idempotency_keys, "Idempotency-Key",
                               limits::kIdempotencyKeyBytes, "bad_idempotency_key")) {
    return error;
  }
  if (auto error = check_value(head.last_event_ids, "Last-Event-ID", limits::kLastEventIdBytes,
                               "bad_last_event_id")) {
    return error;
  }
  if (!head.last_event_ids.empty() && head.idempotency_keys.empty()) {
    return ApiError::of(400,
                        "Last-Event-ID needs the Idempotency-Key of the request that it continues",
                        "bad_last_event_id");
  }
  return std::nullopt;
}

// The target, Host and Origin. `path`: the decoded path.
std::optional<ApiError> check_target(const RequestHead& head, const HostNames& names,
                                     std::string& path) {
  if (head.target.size() > kTargetBytes) {
    return ApiError::of(414,
                        fmt::format("the request target is longer than {} bytes", kTargetBytes),
                        "target_too_long");
  }
  if (head.hosts > 1 || (head.hosts == 0 && head.version >= 11)) {
    return ApiError::of(400, "the request must have exactly one Host header", "bad_host");
  }
  if (!head.repeated.empty()) {
    return ApiError::of(400, fmt::format("the request has more than one {} header", head.repeated),
                        "bad_request");
  }
  std::string authority = head.host;
  const bool asterisk = head.method == "OPTIONS" && head.target == "*";
  if (!asterisk && !split_target(head.target, path, authority)) {
    return ApiError::of(400, "the request target must be a path that begins with '/'",
                        "bad_target");
  }
  const bool named = head.hosts > 0 || !authority.empty();
  if (named &&
      (!host_allowed(authority, names) || (head.hosts > 0 && !host_allowed(head.host, names)))) {
    return ApiError::of(
        403,
        fmt::format(
            "the Host header is '{0}', which is not a name of this machine; use localhost, or "
            "start the server with --host ADDRESS --host-name {0}",
            host_name(host_allowed(authority, names) ? head.host : authority).substr(0, 128)),
        "host_not_allowed", "permission_error");
  }
  if (head.origin.empty() && head.cross_site) {
    return ApiError::of(
        403,
        "the header Sec-Fetch-Site names a page of another site as the sender; pages of other "
        "sites may not call this API; let the page's own server call it",
        "origin_not_allowed", "permission_error");
  }
  if (head.origin.empty() || origin_allowed(head.origin, head.host, names)) return std::nullopt;
  return ApiError::of(403,
                      "the Origin header names another site; pages of other sites may not call "
                      "this API; let the page's own server call it",
                      "origin_not_allowed", "permission_error");
}

}  // namespace

bool host_allowed(std::string_view host, const HostNames& names) {
  std::string name = host_name(host);
  if (name.empty()) return false;
  if (is_loopback(name) || (names.any_address && (is_ipv4(name) || is_ipv6(name)))) return true;
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();  // of the root of all names
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  return std::any_of(names.names.begin(), names.names.end(),
                     [&](const std::string& each) { return boost::iequals(name, each); });
}

bool origin_allowed(std::string_view origin, std::string_view host, const HostNames& names) {
  constexpr std::array<std::string_view, 5> kShells = {"app://", "file://", "tauri://",
                                                       "vscode-webview://", "vscode-file://"};
  for (const std::string_view shell : kShells) {
    if (origin.starts_with(shell)) return true;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view authority = origin.substr(scheme.size());
    // Unlike a Host, an Origin must not be just any address, because pages of other machines are
    // not trusted.
    return (!host.empty() && boost::iequals(authority, host)) ||
           host_allowed(authority, {names.names, false});
  }
  return false;
}

bool decode_path(std::string_view raw, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (c == '%') {
      if (i + 2 >= raw.size()) return false;
      unsigned value = 0;
      const char* end = raw.data() + i + 3;
      if (std::from_chars(raw.data() + i + 1, end, value, 16).ptr != end) return false;
      c = static_cast<char>(value);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
    out += c;
  }
  return true;
}

HeadCheck check_head(const RequestHead& head, const HostNames& names) {
  HeadCheck out;
  if (head.version != 10 && head.version != 11) {
    out.error = ApiError::of(505, "the HTTP version must be 1.0 or 1.1", "http_version");
  } else {
    out.error = check_framing(head);
  }
  // The start of the next request is unknown, or lies behind a body that is not read.
  out.close = out.error || head.has_body();
  if (!out.error) out.error = check_target(head, names, out.path);
  return out;
}

std::optional<ApiError> check_body_head(const RequestHead& head) {
  if (head.transfer_encodings == 0 && !head.content_length) {
    return ApiError::of(411, "the request needs a body and its Content-Length", "length_required");
  }
  const std::string_view type =
      trimmed(std::string_view(head.content_type).substr(0, head.content_type.find(';')));
  if (!type.empty() && !boost::iequals(type, "application/json") &&
      !boost::iequals(type, "text/plain")) {
    return ApiError::of(415, "the body must be application/json or text/plain",
                        "unsupported_media_type");
  }
  const std::string_view encoding = trimmed(head.content_encoding);
  if (!encoding.empty() && !boost::iequals(encoding, "identity")) {
    return ApiError::of(415, "the body must not have a Content-Encoding", "unsupported_media_type");
  }
  if (!head.expect.empty() && !boost::iequals(trimmed(head.expect), "100-continue")) {
    return ApiError::of(417, "Expect must be 100-continue", "expectation_failed");
  }
  return check_return(head);
}

std::string http_date(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  char text[64];
  // The server never leaves the locale "C", whose names of days and months are HTTP's.
  if (gmtime_r(&time, &utc) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

std::string response_head(const HttpResponse& response, const AnswerContext& context,
                          BodyFraming framing) {
  std::string out = fmt::format("HTTP/1.{} {} {}", context.http10 ? 0 : 1, response.status,
                                reason_phrase(response.status));
  const auto field = [&out](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(out), "\r\n{}: {}", name, value);
  };
  if (response.status != 204) {
    field("Content-Type", response.content_type);
    if (framing == BodyFraming::kLength)
      field("Content-Length", std::to_string(response.body.size()));
  }
  if (framing == BodyFraming::kChunked) field("Transfer-Encoding", "chunked");
  field("Cache-Control", "no-store");
  if (!context.date.empty()) field("Date", context.date);
  field("x-request-id", context.request_id);
  if (context.anthropic) field("request-id", context.request_id);
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
  HttpResponse out{204};
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
