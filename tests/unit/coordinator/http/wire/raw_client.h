// A socket and no manners: sends any bytes, reads answers.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {

struct RawAnswer {
  int status = 0;                              // 0: the connection ended before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // the framing says that nothing is missing
  Json json() const { return Json::parse(body, nullptr, false); }
  std::string error_code() const {
    const Json value = json();
    return value.is_object() && value.contains("error") ? value["error"].value("code", "") : "";
  }
};

class RawClient {
 public:
  // `prepare` is called with the socket before it connects.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0,
                     const std::function<void(int)>& prepare = {}) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (prepare) prepare(socket_);
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    const timeval limit{60, 0};  // a hang becomes a failure
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Tells the other side at once, without what is still to be sent.
  void reset() {
    const linger none{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close();
  }
  void finish_sending() { ::shutdown(socket_, SHUT_WR); }

  // False when the other side no longer takes bytes.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Reads until `text` has come; false at the end of the connection.
  bool read_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!fill()) return false;
    }
    return true;
  }
  // True when the server has closed and nothing more comes.
  bool closed() {
    while (fill()) {
    }
    return buffer_.empty();
  }
  std::string& buffer() { return buffer_; }

  // The next answer, behind any number of 100 Continue.
  RawAnswer read_answer(bool head_only = false) {
    RawAnswer out;
    do {
      out = {};
      if (!read_until("\r\n\r\n")) return out;
      const std::size_t end = buffer_.find("\r\n\r\n");
      parse_head(buffer_.substr(0, end + 2), out);
      buffer_.erase(0, end + 4);
    } while (out.status == 100);
    if (head_only || out.status == 204) {
      out.complete = true;
    } else if (out.headers.contains("content-length")) {
      out.complete = read_bytes(std::stoul(out.headers["content-length"]), out.body);
    } else if (out.headers.contains("transfer-encoding")) {
      out.complete = read_chunks(out.body);
    } else {
      while (fill()) {
      }
      out.body = std::exchange(buffer_, {});
      out.complete = true;
    }
    return out;
  }

 private:
  bool fill() {
    char bytes[65536];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  bool read_bytes(std::size_t count, std::string& out) {
    while (buffer_.size() < count) {
      if (!fill()) return false;
    }
    out += buffer_.substr(0, count);
    buffer_.erase(0, count);
    return true;
  }
  bool read_chunks(std::string& out) {
    while (true) {
      if (!read_until("\r\n")) return false;
      const std::size_t end = buffer_.find("\r\n");
      const std::size_t size = std::stoul(buffer_.substr(0, end), nullptr, 16);
      buffer_.erase(0, end + 2);
      std::string crlf;
      if (!read_bytes(size, out) || !read_bytes(2, crlf) || crlf != "\r\n") return false;
      if (size == 0) return true;
    }
  }
  static void parse_head(std::string_view head, RawAnswer& out) {
    out.status = std::stoi(std::string(head.substr(9, 3)));
    std::size_t at = head.find("\r\n") + 2;
    while (at < head.size()) {
      const std::size_t end = head.find("\r\n", at);
      const std::string_view line = head.substr(at, end - at);
      const std::size_t colon = line.find(": ");
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      out.headers[name] = std::string(line.substr(colon + 2));
      at = end + 2;
    }
  }

  int socket_ = -1;
  std::string buffer_;
};

inline std::string get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}
inline std::string post(const std::string& path, const std::string& body,
                        const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         more + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace hearth::coordinator::http
