#include "coordinator/http/wire/session.h"

#include <netinet/tcp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/asio/buffer.hpp>

#include "coordinator/http/wire/sse.h"

namespace hearth::coordinator::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using Parser = Session::Parser;

constexpr std::size_t kReadBytes = 16 * limits::kKiB;
constexpr std::size_t kLingerBytes = 64 * limits::kMiB;  // read and dropped before a close
constexpr auto kLingerTime = std::chrono::seconds(2);
// A handshake counts as idle for this much longer than it is.
constexpr auto kHandshakeLead = std::chrono::hours(24);
// The kernel's send buffer of a connection; the kernel doubles this number. It bounds the memory of
// all connections; what does not fit there waits in the session's queue.
constexpr int kSendBufferBytes = 128 * static_cast<int>(limits::kKiB);
// How often a connection whose read buffer is full is checked for a close.
constexpr auto kCloseCheckInterval = std::chrono::milliseconds(100);
// Between the last two probes of a client that has closed its sending half.
constexpr Duration kLongestProbe = std::chrono::seconds(2);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string field(const Parser& parser, beast::http::field name) {
  const auto value = parser.get()[name];
  return {value.data(), value.size()};
}

std::vector<std::string> values(const Parser& parser, std::string_view name) {
  std::vector<std::string> out;
  const auto [begin, end] = parser.get().equal_range({name.data(), name.size()});
  for (auto field = begin; field != end; ++field) {
    out.emplace_back(field->value().data(), field->value().size());
  }
  return out;
}

// Proxies name the client whose request they forward in one of these.
bool is_forwarded(const Parser& parser) {
  return std::ranges::any_of(parser.get(), [](const auto& each) {
    const std::string name = boost::to_lower_copy(std::string(each.name_string()));
    return name == "forwarded" || name == "via" || name == "x-real-ip" ||
           name.starts_with("x-forwarded-");
  });
}

// With two values, this server and a proxy in front of it might use different ones.
std::string repeated_field(const Parser& parser) {
  using beast::http::field;
  for (const field name :
       {field::origin, field::content_type, field::content_encoding, field::expect,
        field::access_control_request_method, field::access_control_request_headers}) {
    if (parser.get().count(name) > 1) return std::string(beast::http::to_string(name));
  }
  return {};
}

RequestHead read_head(const Parser& parser) {
  using beast::http::field;
  const auto text = [&parser](field name) { return http::field(parser, name); };
  const auto& message = parser.get();
  RequestHead head;
  head.method = std::string(message.method_string().data(), message.method_string().size());
  head.target = std::string(message.target().data(), message.target().size());
  head.version = static_cast<int>(message.version());
  head.hosts = static_cast<std::uint32_t>(message.count(field::host));
  head.host = text(field::host);
  head.origin = text(field::origin);
  const auto is = [&parser](const char* name, std::string_view value) {
    const auto found = values(parser, name);
    return !found.empty() && found.front() == value;
  };
  head.cross_site = is("Sec-Fetch-Site", "cross-site") && !is("Sec-Fetch-Mode", "navigate");
  head.authorizations = static_cast<std::uint32_t>(message.count(field::authorization));
  head.authorization = text(field::authorization);
  if (head.authorizations == 0) {  // the header of Anthropic's clients
    const std::vector<std::string> keys = values(parser, "x-api-key");
    head.authorizations = static_cast<std::uint32_t>(keys.size());
    if (!keys.empty()) head.authorization = "Bearer " + keys.front();
  }
  head.content_lengths = static_cast<std::uint32_t>(message.count(field::content_length));
  if (const auto length = parser.content_length()) head.content_length = *length;
  head.transfer_encodings = static_cast<std::uint32_t>(message.count(field::transfer_encoding));
  head.transfer_encoding = text(field::transfer_encoding);
  head.content_type = text(field::content_type);
  head.content_encoding = text(field::content_encoding);
  head.expect = text(field::expect);
  head.requested_method = text(field::access_control_request_method);
  head.requested_headers = text(field::access_control_request_headers);
  head.forwarded = is_forwarded(parser);
  head.repeated = repeated_field(parser);
  head.idempotency_keys = values(parser, "Idempotency-Key");
  head.last_event_ids = values(parser, "Last-Event-ID");
  head.keep_alive = parser.keep_alive();
  return head;
}

ApiError body_too_large() {
  return ApiError::of(413, fmt::format("the body is larger than {} bytes", limits::kHttpBodyBytes),
                      "body_too_large");
}

ApiError no_body_room() {
  return from_coordinator(
      {ErrorCode::kNoCapacity,
       fmt::format(
           "too many request bodies and answers in memory: of {} bytes, this API key (without a "
           "key: this address) may hold at most twice what is still free; retry later",
           limits::kHttpBodiesBytes)},
      1, "too_many_bodies");
}

ApiError parse_failure(const error_code& failure) {
  using beast::http::error;
  if (failure == error::body_limit) return body_too_large();
  if (failure == error::header_limit || failure == error::buffer_overflow) {
    return ApiError::of(431,
                        fmt::format("the request line and headers are larger than {} bytes",
                                    limits::kHttpHeaderBytes),
                        "header_too_large");
  }
  return ApiError::of(400, "the request is not valid HTTP: " + failure.message(), "bad_request");
}

int tcp_state(tcp::socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const int native = socket.native_handle();
  return ::getsockopt(native, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_state : 0;
}

// Whether the other end has closed, behind bytes that are not read yet.
bool has_left(tcp::socket& socket) {
  const int state = tcp_state(socket);
  return state == TCP_CLOSE_WAIT || state == TCP_CLOSE;
}

// While a request is answered, the kernel probes a silent client every second. It closes the
// connection when nothing was acknowledged for `patience`, because the machine is gone or does not
// read. Zero: the kernel does neither.
void probe_client(tcp::socket& socket, std::chrono::seconds patience) {
  constexpr int kProbeSeconds = 1;
  const int native = socket.native_handle();
  const auto milliseconds = static_cast<unsigned>(std::chrono::milliseconds(patience).count());
  ::setsockopt(native, IPPROTO_TCP, TCP_KEEPIDLE, &kProbeSeconds, sizeof kProbeSeconds);
  ::setsockopt(native, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof kProbeSeconds);
  ::setsockopt(native, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(milliseconds > 0), ignored);
}

}  // namespace

std::string crowded_answer(Api& api) {
  const HttpResponse response = error_response(too_many_connections());
  AnswerContext context;
  context.request_id = new_request_id(api.random);
  context.keep_alive = false;
  return response_head(response, context, BodyFraming::kLength) + response.body;
}

asio::ip::address address_of(const tcp::socket& socket) {
  error_code error;
  asio::ip::address from = socket.remote_endpoint(error).address();
  if (error) return {};
  if (from.is_v6() && from.to_v6().is_v4_mapped()) {
    from = asio::ip::make_address_v4(asio::ip::v4_mapped, from.to_v6());
  }
  return from;
}

Session::Session(tcp::socket socket, std::shared_ptr<Api> api, std::shared_ptr<SessionTable> table,
                 bool probes_only, asio::ssl::context* tls)
    : socket_(std::move(socket)),
      tls_(tls == nullptr ? nullptr
                          : std::make_unique<asio::ssl::stream<tcp::socket&>>(socket_, *tls)),
      api_(std::move(api)),
      table_(std::move(table)),
      deadline_(socket_.get_executor()),
      ping_(socket_.get_executor()),
      close_check_(socket_.get_executor()),
      write_deadline_(socket_.get_executor()),
      probes_only_(probes_only),
      from_(address_of(socket_)),
      queue_(limits::kHttpStreamBytes) {}

// The handler's end of one request. Dropped without an answer, it closes the connection.
class Session::Writer final : public ResponseWriter {
 public:
  Writer(std::weak_ptr<Session> session, std::shared_ptr<Api> api, std::uint64_t serial)
      : session_(std::move(session)), api_(std::move(api)), serial_(serial) {}
  ~Writer() override {
    // This may run on the pool; the session belongs to the socket thread.
    api_->sockets.post([session = session_, serial = serial_] {
      const auto s = session.lock();
      if (s && s->current(serial) && !s->answered_) s->abort();
    });
  }
  void respond(HttpResponse response) override {
    if (const auto s = current(); s && !s->answered_ && !s->streaming_)
      s->answer(std::move(response));
  }
  void start_stream(StreamForm form, HeaderFields headers) override {
    if (const auto s = current(); s && !s->answered_) s->start_stream(form, std::move(headers));
  }
  void send(std::string_view event) override {
    if (const auto s = current(); s && s->streaming_ && !s->answered_) s->queue_stream(event);
  }
  void finish_stream(bool broken) override {
    if (const auto s = current(); s && s->streaming_ && !s->answered_) s->finish_stream(broken);
  }
  void on_gone(std::function<void()> callback) override {
    if (const auto s = current()) s->gone_ = std::move(callback);
  }
  bool gone() const override { return !current(); }

 private:
  // Nothing once the request was answered or its connection has ended.
  std::shared_ptr<Session> current() const {
    const auto s = session_.lock();
    return s && s->current(serial_) ? s : nullptr;
  }

  std::weak_ptr<Session> session_;
  std::shared_ptr<Api> api_;
  std::uint64_t serial_;
};

void Session::begin() {
  table_->open.emplace(this, shared_from_this());
  ++table_->from[peer_];
  if (probes_only_) ++table_->reserved;
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  idle_since_ = api_->clock.now();
  // A client that sends nothing gets as much time as one that sends slowly.
  arm_deadline(patience(api_->options.timeouts.header));
  tls_ ? shake_hands() : read();
}

// A peer that is not a member gets no byte beyond the handshake.
void Session::shake_hands() {
  tls_->async_handshake(
      asio::ssl::stream_base::server, [self = shared_from_this()](const error_code& error) {
        if (self->phase_ == Phase::kClosed) return;
        const MemberLinks& members = *self->api_->options.members;
        const auto key = error ? Result<PublicKey>(Error{ErrorCode::kIo, error.message()})
                               : members.key_of(*self->tls_->native_handle());
        if (key.ok() && members.find(*key)) {
          self->member_ = *key;
          return self->read();
        }
        self->api_->authorization.log_refusal(
            "a member's link from " + self->peer_ + ": " +
            (key.ok() ? "the key " + key->hex() + " is not in the roster" : key.error().message));
        self->abort();
      });
}

void Session::abort() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  leave_table();
  error_code ignored;
  socket_.close(ignored);
  if (auto callback = std::exchange(gone_, nullptr)) callback();
}

std::optional<TimePoint> Session::idle_since() const {
  if (phase_ != Phase::kIdle && phase_ != Phase::kHead) return {};
  error_code error;
  const std::size_t unread = socket_.available(error);  // bytes of a request that was not read yet
  if (!error && unread > 0) return {};
  // A link that has not shown a member's key is evicted before a client that has been served.
  return tls_ && !member_ ? idle_since_ - kHandshakeLead : idle_since_;
}

void Session::leave_table() {
  phase_ = Phase::kClosed;
  table_->open.erase(this);
  if (probes_only_) --table_->reserved;
  if (const auto found = table_->from.find(peer_); --found->second == 0) table_->from.erase(found);
  body_room_.release();
  deadline_.cancel();
  ping_.cancel();
  close_check_.cancel();
  write_deadline_.cancel();
}

void Session::give_way() {
  const auto self = shared_from_this();
  leave_table();
  error_code ignored;
  if (tls_) {
    socket_.close(ignored);
    return;
  }
  socket_.cancel(ignored);
  Refusal::start(std::move(socket_), crowded_answer(*api_), table_->refusals);
}

void Session::read() {
  if (reading_ || read_closed_ || phase_ == Phase::kClosed) return;
  const std::size_t room = limits::kHttpReadBytes - buffer_.size();
  if (room == 0) return arm_close_check();  // reading goes on when a request has been taken out
  reading_ = true;
  const auto into = buffer_.prepare(std::min(room, kReadBytes));
  auto then = [self = shared_from_this()](const error_code& error, std::size_t bytes) {
    self->on_read(error, bytes);
  };
  tls_ ? tls_->async_read_some(into, std::move(then))
       : socket_.async_read_some(into, std::move(then));
}

void Session::on_read(const error_code& error, std::size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error == asio::error::timed_out && phase_ == Phase::kAnswering) return cut_off(silence());
  if (error) {
    read_closed_ = true;
    // A member that has ended its side of the link reads nothing more.
    if (tls_ || phase_ != Phase::kAnswering || error != asio::error::eof) return abort();
    return arm_probe(kCloseCheckInterval);
  }
  if (phase_ == Phase::kLinger) {
    lingered_ += bytes;
    if (lingered_ > kLingerBytes) return abort();
    return read();
  }
  buffer_.commit(bytes);
  advance();
}

void Session::advance() {
  if (phase_ == Phase::kIdle && buffer_.size() > 0) begin_request();
  while ((phase_ == Phase::kHead || phase_ == Phase::kBody) && feed()) {
  }
  read();
}

void Session::begin_request() {
  phase_ = Phase::kHead;
  ++serial_;
  context_ = AnswerContext{};
  context_.request_id = new_request_id(api_->random);
  answered_ = false;
  streaming_ = false;
  dialect_ = Dialect::kOpenAi;
  head_only_ = false;
  head_bytes_ = 0;
  folds_ = {};
  parser_.emplace();
  parser_->header_limit(limits::kHttpHeaderBytes);
  parser_->body_limit(boost::none);  // on_head() sets it, for those whose body is read
  parser_->eager(false);
  arm_deadline(patience(api_->options.timeouts.header));
}

// Feeds the parser from the read buffer. True when it made progress and may make more.
bool Session::feed() {
  if (buffer_.size() == 0) return false;
  error_code error;
  const std::size_t used = parser_->put(buffer_.data(), error);
  const auto* taken = static_cast<const char*>(buffer_.data().data());
  const bool folded = phase_ == Phase::kHead && folds_.sees(taken, used);
  buffer_.consume(used);
  if (folded) {
    refuse_unread(ApiError::of(400, "a header field continues on a second line (obsolete folding)",
                               "bad_request"));
    return false;
  }
  // Beast limits each field; this limits the whole head.
  if (phase_ == Phase::kHead && (head_bytes_ += used) > limits::kHttpHeaderBytes) {
    refuse_unread(parse_failure(beast::http::error::header_limit));
    return false;
  }
  if (error == beast::http::error::need_more) {
    // The buffer is full and the parser takes nothing: a head or a chunk extension is too long.
    if (used == 0 && buffer_.size() >= limits::kHttpReadBytes) {
      refuse_unread(parse_failure(beast::http::error::header_limit));
    }
    return used > 0;
  }
  if (error) {
    refuse_unread(parse_failure(error));
    return false;
  }
  if (phase_ == Phase::kBody &&
      !body_room_.hold(table_->bodies, client_, parser_->get().body().size())) {
    refuse(no_body_room(), true);
    return false;
  }
  if (phase_ == Phase::kHead && parser_->is_header_done()) {
    on_head();
  } else if (phase_ == Phase::kBody && parser_->is_done()) {
    dispatch();
  }
  return true;
}

void Session::on_head() {
  const RequestHead head = read_head(*parser_);
  const auto member = member_ ? api_->options.members->find(*member_) : std::nullopt;
  if (member_ && !member) return abort();  // removed since its last request
  context_.http10 = head.version < 11;
  context_.keep_alive = head.keep_alive && !probes_only_;
  head_only_ = head.method == "HEAD";
  // On a member's link, Host may be any address: no web page can use the link, and its client may
  // name any address of this machine.
  HeadCheck check = check_head(head, member ? HostNames{api_->names.names, true} : api_->names);
  if (!check.error) context_.origin = head.origin;
  // Browsers on this machine get an answer to their preflight without a key.
  const bool local = !member && from_.is_loopback() && !head.forwarded && !check.error;
  if (local && head.is_preflight()) return answer_options(head);
  RouteMatch match = find_route(head.method, check.path);
  dialect_ = match.dialect;
  context_.anthropic = dialect_ == Dialect::kAnthropic;
  // Only a client with a key learns what is wrong with a request, even on routes of pages, which
  // need no key.
  const Access access = check.error ? Access::kKey : match.access;
  const auto verdict = api_->authorization.check(head, access, api_->models.names(), local,
                                                 member ? &*member : nullptr);
  if (verdict.silent) return abort();
  // This check comes first: an unauthenticated client gets no answer but 401.
  if (verdict.unauthenticated()) return refuse(*verdict.refusal, check.close);
  if (check.error) return refuse(*check.error, check.close);
  if (head.method == "OPTIONS") return answer_options(head);
  const bool administers = match.access == Access::kAdmin || match.access == Access::kManage ||
                           match.access == Access::kOwner || match.access == Access::kState;
  if (probes_only_ && !match.probe && !administers) return refuse(too_many_connections(), true);
  if (verdict.refusal) return refuse(*verdict.refusal, head.has_body());  // which is not read
  if (head.content_length.value_or(0) > limits::kHttpBodyBytes) {
    return refuse(body_too_large(), true);
  }
  if (!match.handler) {
    if (head.has_body()) context_.keep_alive = false;  // its body is not read
    return answer(*match.refusal);
  }
  request_ = HttpRequest{head.method, check.path, {}, context_.request_id, api_->clock.now()};
  request_.models = verdict.models;
  request_.policy = verdict.policy;
  request_.manages = verdict.manages;
  request_.dialect = match.dialect;
  client_ = verdict.policy.owner.empty() ? peer_ : verdict.policy.owner;
  if (!head.idempotency_keys.empty()) request_.idempotency_key = head.idempotency_keys.front();
  if (!head.last_event_ids.empty()) request_.last_event_id = head.last_event_ids.front();
  handler_ = match.handler;
  if (head.method == "POST") return on_body_head(head, match.handler);
  if (head.has_body()) context_.keep_alive = false;
  dispatch();
}

void Session::answer_options(const RequestHead& head) {
  if (head.has_body()) context_.keep_alive = false;
  answer(options_response(head));
}

void Session::on_body_head(const RequestHead& head, Handler handler) {
  if (const auto error = check_body_head(head)) return refuse(*error, head.has_body());
  handler_ = handler;
  phase_ = Phase::kBody;
  parser_->body_limit(limits::kHttpBodyBytes);
  parser_->eager(true);
  body_bytes_ = 0;
  arm_deadline(std::chrono::seconds(api_->options.timeouts.body));
  if (parser_->is_done()) return dispatch();
  if (!head.expect.empty() && !context_.http10) {
    queue_.push(std::string(kContinue));
    write();
  }
}

void Session::dispatch() {
  deadline_.cancel();
  phase_ = Phase::kAnswering;
  probe_client(socket_, std::chrono::seconds(api_->options.timeouts.write));
  request_.body = std::move(parser_->get().body());
  auto writer = std::make_shared<Writer>(weak_from_this(), api_, serial_);
  handler_({api_, std::move(request_), std::move(writer)});
}

void Session::refuse(const ApiError& error, bool close) {
  if (close) context_.keep_alive = false;
  answer(error_response(error, dialect_));
}

// A head that could not be read may have had no key: then the connection closes without an answer.
void Session::refuse_unread(const ApiError& error) {
  if (phase_ != Phase::kHead || !api_->authorization.asks_keys()) return refuse(error, true);
  api_->authorization.log_refusal(error.message);
  abort();
}

void Session::answer(HttpResponse response) {
  // The body is no longer needed. An answer larger than a stream's buffer takes its room until the
  // client has read the answer.
  const std::size_t bytes = response.body.size();
  if (!body_room_.hold(table_->bodies, client_, bytes > limits::kHttpStreamBytes ? bytes : 0)) {
    response = error_response(no_body_room(), dialect_);
  }
  deadline_.cancel();
  phase_ = Phase::kAnswering;
  answered_ = true;
  gone_ = nullptr;
  api_->metrics.answered(response.status);
  context_.date = http_date(api_->clock.unix_seconds());
  std::string text = response_head(response, context_, BodyFraming::kLength);
  if (!head_only_) text += response.body;
  queue_.push(std::move(text));
  write();
}

void Session::start_stream(StreamForm form, HeaderFields headers) {
  streaming_ = true;
  stream_ping_ = form.lines ? kLinePing : kSsePing;
  body_room_.release();                             // the body has become tokens
  headers.emplace_back("X-Accel-Buffering", "no");  // else nginx holds events back
  const char* type = form.lines ? "application/x-ndjson" : "text/event-stream; charset=utf-8";
  const HttpResponse head{200, {}, type, std::move(headers)};
  if (context_.http10) context_.keep_alive = false;
  api_->metrics.answered(head.status);
  context_.date = http_date(api_->clock.unix_seconds());
  queue_.push(response_head(head, context_,
                            context_.http10 ? BodyFraming::kUntilClose : BodyFraming::kChunked));
  queue_stream(stream_ping_);
  arm_ping();
}

void Session::queue_stream(std::string_view bytes) {
  const std::string chunk = context_.http10 ? std::string(bytes) : http_chunk(bytes);
  if (!queue_.push(chunk)) {
    return cut_off(fmt::format("its client left {} bytes of it unread", limits::kHttpStreamBytes));
  }
  quiet_ = false;
  write();
}

void Session::finish_stream(bool broken) {
  ping_.cancel();
  answered_ = true;
  gone_ = nullptr;
  if (broken) context_.keep_alive = false;
  // The queue takes the last chunk unless it is full.
  if (!context_.http10 && !queue_.push(std::string(kLastChunk))) return abort();
  write();
}

void Session::write() {
  if (queue_.writing() || phase_ == Phase::kClosed) return;
  const std::string_view bytes = queue_.next();
  if (bytes.empty()) return on_written();
  const std::chrono::seconds longest(api_->options.timeouts.write);
  after(write_deadline_, longest, [](Session& self) {
    if (self.queue_.writing()) self.cut_off(self.silence());
  });
  auto then = [self = shared_from_this()](const error_code& error, std::size_t written) {
    if (error == asio::error::timed_out) return self->cut_off(self->silence());
    if (error) return self->abort();
    self->queue_.written(written);
    self->write();
  };
  tls_ ? tls_->async_write_some(asio::buffer(bytes), std::move(then))
       : socket_.async_write_some(asio::buffer(bytes), std::move(then));
}

void Session::on_written() {
  write_deadline_.cancel();
  if (!answered_) return;  // a stream that goes on
  parser_.reset();
  body_room_.release();
  streaming_ = false;
  if (!context_.keep_alive || read_closed_) return linger();
  phase_ = Phase::kIdle;
  probe_client(socket_, {});
  idle_since_ = api_->clock.now();
  arm_deadline(std::chrono::seconds(api_->options.timeouts.idle));
  advance();
}

// Closing with unread bytes would reset the connection, and the client could lose the answer.
void Session::linger() {
  if (read_closed_) return abort();
  phase_ = Phase::kLinger;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  arm_deadline(kLingerTime);
  read();
}

// Calls `then` after a time, unless the timer is set again or cancelled before.
template <typename Then>
void Session::after(asio::steady_timer& timer, Duration time, Then then) {
  timer.expires_after(time);
  timer.async_wait([weak = weak_from_this(), &timer, then](const error_code& error) {
    const auto self = weak.lock();
    // A timer that was set again meanwhile has another expiry.
    if (error || !self || timer.expiry() > asio::steady_timer::clock_type::now()) return;
    then(*self);
  });
}

void Session::arm_deadline(std::chrono::seconds time) {
  after(deadline_, time, [](Session& self) { self.on_deadline(); });
}

void Session::on_deadline() {
  if (phase_ != Phase::kHead && phase_ != Phase::kBody) {
    if (phase_ != Phase::kAnswering) abort();
    return;
  }
  const std::uint32_t seconds = api_->options.timeouts.body;
  if (phase_ == Phase::kHead) {
    return refuse_unread(
        ApiError::of(408, "the request's head did not arrive in time", "request_timeout"));
  }
  const std::size_t come = parser_->get().body().size();
  if (come - body_bytes_ >= seconds * limits::kHttpBodyBytesPerSecond) {
    body_bytes_ = come;
    return arm_deadline(std::chrono::seconds(seconds));
  }
  refuse(ApiError::of(408,
                      fmt::format("the request's body arrives too slowly: {} bytes in {} s; send "
                                  "at least {} bytes a second",
                                  come - body_bytes_, seconds, limits::kHttpBodyBytesPerSecond),
                      "request_timeout"),
         true);
}

void Session::arm_ping() {
  quiet_ = true;
  after(ping_, std::chrono::seconds(api_->options.timeouts.ping),
        [serial = serial_](Session& self) {
          if (!self.current(serial) || self.answered_) return;
          if (self.quiet_) self.queue_stream(self.stream_ping_);
          if (self.current(serial)) self.arm_ping();
        });
}

// A client that has closed its sending half has usually left, but it may still read the answer. A
// client that has left resets the connection when it receives bytes, so the server sends bytes
// without a meaning.
void Session::arm_probe(Duration wait) {
  after(close_check_, wait, [serial = serial_, wait](Session& self) {
    if (!self.current(serial) || self.answered_) return;
    const bool mute = self.context_.http10 && !self.streaming_;
    if (tcp_state(self.socket_) == TCP_CLOSE || (mute && self.gone_)) return self.abort();
    if (!mute && wait <= kLongestProbe) {
      if (self.streaming_) {
        self.queue_stream(self.stream_ping_);
      } else {
        self.queue_.push(std::string(kContinue));
        self.write();
      }
    }
    if (self.current(serial)) self.arm_probe(std::min<Duration>(2 * wait, kLongestProbe * 2));
  });
}

// No read is pending while the read buffer is full, so a close behind the unread bytes is polled
// for.
void Session::arm_close_check() {
  if (phase_ != Phase::kAnswering || answered_) return;
  after(close_check_, kCloseCheckInterval, [serial = serial_](Session& self) {
    if (!self.current(serial) || self.answered_) return;
    if (self.gone_ && has_left(self.socket_)) return self.abort();
    self.arm_close_check();
  });
}

// Ends the connection of a client that does not read.
void Session::cut_off(const std::string& why) {
  spdlog::warn("API: the answer to request {} was ended: {}", context_.request_id, why);
  abort();
}

}  // namespace hearth::coordinator::http
