// Session: one client connection. It answers requests one after the other. While one is answered it
// reads on, bounded, so that pipelined requests wait and a client that leaves is noticed at once.
// Bytes that the client has not read wait in a buffer of limits::kHttpStreamBytes; past it, or when
// a write makes no progress for HttpTimeouts::write, the connection ends. Socket thread only. Only
// server.cc includes this header: it needs Asio.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/limits.h"
#include "base/peer_host.h"
#include "coordinator/http/api/head.h"
#include "coordinator/http/api/router.h"
#include "coordinator/http/wire/body_room.h"
#include "coordinator/http/wire/refusal.h"
#include "coordinator/http/wire/write_queue.h"

namespace hearth::coordinator::http {

class Session;

// Every open connection, and the memory that their requests take together.
struct SessionTable {
  std::unordered_map<Session*, std::shared_ptr<Session>> open;
  std::map<std::string, std::uint32_t> from;  // connections of each peer
  BodyBytes bodies;
  std::size_t reserved = 0;  // open connections in reserved places
  Refusals refusals;
};

// The answer to a connection beyond the limit: 429.
std::string crowded_answer(Api& api);
// The address of the client, mapped to IPv4 where possible; 0.0.0.0 when it has left already.
boost::asio::ip::address address_of(const boost::asio::ip::tcp::socket& socket);

// Finds a line of a head that begins with a blank: some parsers treat it as a continuation of the
// field before it (Beast does), others do not.
class FoldDetector {
 public:
  bool sees(const char* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      if (line_begins_ && (bytes[i] == ' ' || bytes[i] == '\t')) return true;
      line_begins_ = bytes[i] == '\n';
    }
    return false;
  }

 private:
  bool line_begins_ = false;
};

// The text of a body. It takes memory only as bytes arrive; string_body would take the memory of
// the Content-Length at once.
struct BodyText : boost::beast::http::string_body {
  struct reader : boost::beast::http::string_body::reader {
    using boost::beast::http::string_body::reader::reader;
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& error) {
      error = {};
    }
  };
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Parser = boost::beast::http::request_parser<BodyText>;

  // `probes_only`: a reserved place. It answers one request, for monitoring or administration, and
  // refuses all others with 429. `tls`: a member's link, which begins with a handshake; it takes no
  // answer in clear.
  Session(boost::asio::ip::tcp::socket socket, std::shared_ptr<Api> api,
          std::shared_ptr<SessionTable> table, bool probes_only,
          boost::asio::ssl::context* tls = nullptr);
  // Takes its place in the table, and reads. Once.
  void begin();
  // Closes without an answer; a running request learns that its client has left.
  void abort();
  const boost::asio::ip::address& from() const { return from_; }
  const std::string& peer() const { return peer_; }  // as whom it is counted
  bool reserved() const { return probes_only_; }     // it has one of the reserved places
  // Since when it has had no request; nothing while it has one.
  std::optional<TimePoint> idle_since() const;
  // Makes room for another connection: its client gets 429.
  void give_way();

 private:
  class Writer;
  enum class Phase : std::uint8_t { kIdle, kHead, kBody, kAnswering, kLinger, kClosed };

  // Whether the request of this number is being answered; the number is stale after that.
  bool current(std::uint64_t serial) const {
    return serial == serial_ && phase_ == Phase::kAnswering;
  }
  void leave_table();
  void shake_hands();
  void read();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void advance();
  bool feed();
  void begin_request();
  void on_head();
  void on_body_head(const RequestHead& head, Handler handler);
  void dispatch();
  void answer(HttpResponse response);
  void answer_options(const RequestHead& head);
  void refuse(const ApiError& error, bool close);
  void refuse_unread(const ApiError& error);
  void start_stream(StreamForm form, HeaderFields headers);
  void queue_stream(std::string_view bytes);
  void finish_stream(bool broken);
  void write();
  void on_written();
  void linger();
  template <typename Then>
  void after(boost::asio::steady_timer& timer, Duration time, Then then);
  void arm_deadline(std::chrono::seconds time);
  // There are few reserved places, so their clients get little time.
  std::chrono::seconds patience(std::uint32_t seconds) const {
    return std::chrono::seconds(probes_only_ ? std::min(seconds, limits::kHttpSecondsProbe)
                                             : seconds);
  }
  void on_deadline();
  void arm_ping();
  void arm_close_check();
  void arm_probe(Duration wait);
  void cut_off(const std::string& why);
  std::string silence() const {
    return fmt::format("its client read nothing for {} seconds", api_->options.timeouts.write);
  }

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;  // a member's link
  std::optional<PublicKey> member_;                                               // its key
  std::shared_ptr<Api> api_;
  std::shared_ptr<SessionTable> table_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer ping_;
  boost::asio::steady_timer close_check_;
  boost::asio::steady_timer write_deadline_;
  const bool probes_only_;
  const boost::asio::ip::address from_;
  const std::string peer_ = peer_of_host(from_.to_string());

  Phase phase_ = Phase::kIdle;
  TimePoint idle_since_{};  // as long as no request is on it
  boost::beast::flat_buffer buffer_{limits::kHttpReadBytes};
  std::optional<Parser> parser_;
  bool reading_ = false;
  bool read_closed_ = false;
  std::size_t head_bytes_ = 0;
  FoldDetector folds_;
  std::size_t lingered_ = 0;
  BodyRoom body_room_;
  std::string client_;          // client for which its memory is counted: an API key or an address
  std::size_t body_bytes_ = 0;  // of the body, when its rate was last looked at

  // State of the request being answered.
  std::uint64_t serial_ = 0;
  HttpRequest request_;
  Handler handler_ = nullptr;
  AnswerContext context_;
  bool head_only_ = false;
  bool answered_ = false;  // nothing more will be queued
  bool streaming_ = false;
  std::string_view stream_ping_;
  Dialect dialect_ = Dialect::kOpenAi;  // of the errors
  bool quiet_ = false;                  // nothing was sent since the last ping was armed
  std::function<void()> gone_;

  WriteQueue queue_;
};

}  // namespace hearth::coordinator::http
