#include "coordinator/control/service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "coordinator/control/acceptor.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/link/grpc_tls.h"

namespace hearth::coordinator {
namespace {

using grpc::ByteBuffer;
using grpc::experimental::ExternalConnectionAcceptor;

// Of one key: a worker that was started again may be here before its old session has ended.
constexpr std::uint32_t kSessionsOfKey = 2;

ByteBuffer to_buffer(const Bytes& bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return ByteBuffer(&slice, 1);
}

Bytes to_bytes(const ByteBuffer& buffer) {
  Bytes bytes;
  bytes.reserve(buffer.Length());
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    const auto* begin = reinterpret_cast<const std::byte*>(slice.begin());
    bytes.insert(bytes.end(), begin, begin + slice.size());
  }
  return bytes;
}

// Where a call comes from; gRPC writes "ipv4:10.0.0.1:5000" or "ipv6:%5Bfd00::1%5D:5000".
Address caller_of(const grpc::CallbackServerContext& context) {
  std::string peer = context.peer();
  for (const auto& [escaped, bracket] : {std::pair("%5B", "["), std::pair("%5D", "]")}) {
    if (const std::size_t at = peer.find(escaped); at != std::string::npos) {
      peer.replace(at, 3, bracket);
    }
  }
  const auto address = parse_address(peer.substr(std::min(peer.find(':') + 1, peer.size())));
  return address.ok() ? *address : Address{peer, 0};
}

// At most once a second: strangers decide how often there is something to say.
void say_refused(const std::string& why) {
  static std::atomic<std::int64_t> said{0};
  const std::int64_t now = SystemClock().now().count();
  std::int64_t before = said.load();
  const auto pause = std::chrono::duration_cast<Duration>(std::chrono::seconds(1)).count();
  if (before != 0 && now - before < pause) return;
  if (said.compare_exchange_strong(before, now)) {
    spdlog::warn("refused a control connection: {}", why);
  }
}

// One text for every reason, so that a stranger learns nothing by asking.
grpc::Status not_admitted() {
  return {grpc::StatusCode::UNAUTHENTICATED, std::string(kNotAdmitted)};
}

}  // namespace

struct ControlService::Core : std::enable_shared_from_this<Core> {
  // From any thread. False, and nothing posted, once the service ends.
  bool to_owner(std::function<void(Core&)> work) {
    const std::lock_guard lock(mutex);
    if (!alive) return false;
    post([self = shared_from_this(), work = std::move(work)] { work(*self); });
    return true;
  }

  std::mutex mutex;
  bool alive = true;
  std::uint32_t strangers = 0;                       // requests of strangers under way
  std::uint32_t sessions_held = 0;                   // those not yet done, refused ones included
  std::map<std::string, std::uint32_t> sessions_of;  // of those, a key's
  Post post;
  std::string address;
  ControlOptions options;

  // The owner's thread only.
  TransportEvents* events = nullptr;
  std::uint64_t last_link = 0;
  std::unordered_map<LinkId, std::shared_ptr<Session>> sessions;
};

// One session. Owner's calls and gRPC's callbacks meet under mutex_; the session keeps itself
// alive until OnDone. At most one frame is on its way to the owner, then the next one is read.
class ControlService::Session final : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  Session(std::shared_ptr<Core> core, const PublicKey& peer,
          std::shared_ptr<ControlConnection> connection)
      : core_(std::move(core)), peer_(peer), connection_(std::move(connection)) {}
  const PublicKey& peer() const { return peer_; }

  void begin(std::shared_ptr<Session> self) {
    const std::lock_guard lock(mutex_);
    self_ = std::move(self);
    bool room = false;
    {
      const std::lock_guard core_lock(core_->mutex);
      room = ++core_->sessions_held <= limits::kWorkers;
      if (++core_->sessions_of[peer_.hex()] > kSessionsOfKey) room = false;
    }
    if (!room) return finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many sessions"});
    counts_ = true;
    ++connection_->sessions;
    const bool posted =
        core_->to_owner([session = self_](Core& core) { session->open(core, session); });
    if (!posted) finish({grpc::StatusCode::UNAVAILABLE, "the coordinator is ending"});
  }

  Status send(const Bytes& payload) {
    const std::lock_guard lock(mutex_);
    if (finished_ || ended_ || closing_) return ok_status();
    if (queued_bytes_ + payload.size() > limits::kControlQueueBytes) {
      return Error{ErrorCode::kNoCapacity,
                   "the control queue holds " + std::to_string(queued_bytes_) +
                       " bytes; the limit is " + std::to_string(limits::kControlQueueBytes)};
    }
    queued_bytes_ += payload.size();
    queue_.push_back(to_buffer(payload));
    advance();
    return ok_status();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    // A peer that takes nothing keeps the call: then its connection ends, as a stranger's.
    count_no_more();
    advance();
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      ended_ = true;
      return advance();
    }
    connection_->messages += incoming_.Length();
    core_->to_owner([self = self_, payload = to_bytes(incoming_)](Core& core) mutable {
      if (!core.sessions.contains(self->link_)) return;
      if (core.events != nullptr) {
        core.events->on_frame(self->link_, {FrameType::kControl, std::move(payload)});
      }
      self->read_next();
    });
    incoming_.Clear();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    queued_bytes_ -= queue_.front().Length();
    queue_.pop_front();
    if (!ok) ended_ = true;
    advance();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    advance();
  }

  void OnDone() override {
    std::shared_ptr<Session> self;
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
      count_no_more();
      self = std::move(self_);
    }
    core_->to_owner([self](Core& core) {
      if (core.sessions.erase(self->link_) == 0 || core.events == nullptr) return;
      core.events->on_link_closed(self->link_,
                                  {ErrorCode::kUnavailable, "the worker's control session ended"});
    });
    const std::lock_guard lock(core_->mutex);
    --core_->sessions_held;
    const auto of_key = core_->sessions_of.find(peer_.hex());
    if (--of_key->second == 0) core_->sessions_of.erase(of_key);
  }

 private:
  // On the owner's thread: from here on the peer knows that somebody listens.
  void open(Core& core, const std::shared_ptr<Session>& self) {
    link_ = LinkId(++core.last_link);
    {
      const std::lock_guard lock(mutex_);
      if (finished_) return;
      StartSendInitialMetadata();
    }
    core.sessions.emplace(link_, self);
    if (core.events != nullptr) core.events->on_link_open(link_, true);
    read_next();
  }

  void read_next() {
    const std::lock_guard lock(mutex_);
    if (!finished_ && !ended_) StartRead(&incoming_);
  }

  // Writes what is queued, or ends the call when nothing is left to wait for.
  void advance() {
    if (finished_ || writing_) return;
    if (!ended_ && !queue_.empty()) {
      writing_ = true;
      return StartWrite(&queue_.front());
    }
    if (ended_ || closing_) finish(grpc::Status::OK);
  }

  // It makes its connection a worker's no longer.
  void count_no_more() {
    if (std::exchange(counts_, false)) --connection_->sessions;
  }

  void finish(const grpc::Status& status) {
    finished_ = true;
    count_no_more();
    queue_.clear();
    Finish(status);
  }

  const std::shared_ptr<Core> core_;
  const PublicKey peer_;
  const std::shared_ptr<ControlConnection> connection_;
  LinkId link_;  // the owner's thread only
  std::mutex mutex_;
  std::shared_ptr<Session> self_;
  ByteBuffer incoming_;
  std::deque<ByteBuffer> queue_;
  std::size_t queued_bytes_ = 0;
  bool counts_ = false;  // among the sessions of its connection
  bool writing_ = false;
  bool closing_ = false;   // the owner closed it; the queue is sent first
  bool ended_ = false;     // the peer is gone
  bool finished_ = false;  // no operation may be started any more
};

// A session that is over before it begins: its peer is in no roster.
class Turned final : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  Turned() { Finish(not_admitted()); }
  void OnDone() override { delete this; }
};

// One question of somebody who may be in no roster, answered on the owner's thread. Request and
// answer are gRPC's and live until finish().
class ControlService::Stranger final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<hearth::Status(Admissions&)>;
  Stranger(std::shared_ptr<Core> core, std::string from, Work work)
      : core_(std::move(core)), from_(std::move(from)), work_(std::move(work)) {}

  void begin(std::shared_ptr<Stranger> self) {
    const std::lock_guard lock(mutex_);
    self_ = std::move(self);
    bool room = false;
    {
      const std::lock_guard core_lock(core_->mutex);
      room = ++core_->strangers <= limits::kHandshakes;
    }
    if (!room) return finish(not_admitted());
    const bool posted = core_->to_owner([call = self_](Core& core) { call->answer(core); });
    if (!posted) finish(not_admitted());
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    const std::shared_ptr<Stranger> self = std::move(self_);
    const std::lock_guard lock(core_->mutex);
    --core_->strangers;
  }

 private:
  // On the owner's thread.
  void answer(Core& core) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    const hearth::Status done = core.options.admissions == nullptr
                                    ? hearth::Status(Error::invalid("nobody may join now"))
                                    : work_(*core.options.admissions);
    if (!done.ok()) spdlog::warn("refused {}: {}", from_, done.error().message);
    finish(done.ok() ? grpc::Status::OK : not_admitted());
  }
  void finish(const grpc::Status& status) {
    if (!std::exchange(finished_, true)) Finish(status);
  }

  const std::shared_ptr<Core> core_;
  const std::string from_;
  const Work work_;
  std::mutex mutex_;
  std::shared_ptr<Stranger> self_;
  bool finished_ = false;
};

// Messages stay bytes: whoever owns the state machine parses them once.
using RawSession =
    control::v1::Control::WithRawCallbackMethod_Session<control::v1::Control::Service>;
class ControlService::Service final
    : public control::v1::Control::WithCallbackMethod_Prove<
          control::v1::Control::WithCallbackMethod_Enrol<
              control::v1::Control::WithCallbackMethod_Knock<
                  control::v1::Control::WithCallbackMethod_Leave<
                      control::v1::Control::WithCallbackMethod_Describe<
                          control::v1::Control::WithCallbackMethod_Locate<
                              control::v1::Control::WithCallbackMethod_Reach<RawSession>>>>>>> {
 public:
  explicit Service(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  Status start(const Address& address) {
    const ControlOptions& options = core_->options;
    TRY(acceptor_, ControlAcceptor::open(address, options.limits));
    const auto admit = [roster = options.roster, open = options.admissions != nullptr,
                        door = options.door](const PublicKey& key) -> hearth::Status {
      if (roster->find(key).has_value()) return ok_status();
      REQUIRE(open, "the key " + key.hex() + " is not in the roster");
      // Whoever gets past may ask to be enrolled; a session is for the roster alone.
      const hearth::Status passed = door ? door(key) : ok_status();
      if (!passed.ok()) say_refused(passed.error().message);
      return passed;
    };
    grpc::ServerBuilder builder;
    using Builder = grpc::ServerBuilder::experimental_type;
    const std::shared_ptr<ExternalConnectionAcceptor> entry =
        builder.experimental().AddExternalConnectionAcceptor(
            Builder::ExternalConnectionType::FROM_FD,
            tls_server_credentials(options.identity, admit));
    builder.RegisterService(this);
    set_limits(options, builder);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return Error{ErrorCode::kIo, "the control plane does not start"};
    core_->address = acceptor_->address().text();
    acceptor_->start([entry](int socket) {
      ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = socket;
      entry->HandleNewConnection(&connection);
    });
    return ok_status();
  }

  void stop() {
    if (server_ == nullptr) return;
    acceptor_->stop();
    server_->Shutdown(std::chrono::system_clock::now());  // cancels what still runs
    server_->Wait();
  }

  grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override {
    const auto key = peer_key(*context->auth_context());
    const auto entry = key ? core_->options.roster->find(*key) : std::nullopt;
    if (!entry || entry->role != Role::kWorker) {
      spdlog::warn("refused a control session of {}: {}", context->peer(),
                   !key     ? key.error().message
                   : !entry ? "the key " + key->hex() + " is not in the roster"
                            : entry->name + " is no worker");
      return new Turned();
    }
    auto connection = acceptor_->find(caller_of(*context));
    if (connection == nullptr) {
      spdlog::error("a control session of {} has no connection", context->peer());
      return new Turned();
    }
    const auto session =
        std::make_shared<ControlService::Session>(core_, *key, std::move(connection));
    session->begin(session);
    return session.get();
  }

  grpc::ServerUnaryReactor* Prove(grpc::CallbackServerContext* context,
                                  const control::v1::ProveRequest* /*request*/,
                                  control::v1::Proof* answer) override {
    return answer_stranger(*context, [answer](Admissions& admissions) {
      *answer = admissions.prove();
      return ok_status();
    });
  }

  grpc::ServerUnaryReactor* Enrol(grpc::CallbackServerContext* context,
                                  const control::v1::Enrolment* request,
                                  control::v1::Enrolled* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context,
                           [key, request, answer](Admissions& admissions) -> hearth::Status {
                             TRY(const PublicKey known, key);
                             TRY(*answer, admissions.enrol(known, *request));
                             return ok_status();
                           });
  }

  grpc::ServerUnaryReactor* Knock(grpc::CallbackServerContext* context,
                                  const control::v1::Knocking* request,
                                  control::v1::Enrolled* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context,
                           [key, from = caller_of(*context).host, request,
                            answer](Admissions& admissions) -> hearth::Status {
                             TRY(const PublicKey known, key);
                             TRY(*answer, admissions.knock(known, from, *request));
                             return ok_status();
                           });
  }

  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context,
                                  const control::v1::LeaveRequest* /*request*/,
                                  control::v1::Left* /*answer*/) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context, [key](Admissions& admissions) -> hearth::Status {
      TRY(const PublicKey known, key);
      return admissions.leave(known);
    });
  }

  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const control::v1::LocateRequest* request,
                                   control::v1::Located* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context,
                           [key, request, answer](Admissions& admissions) -> hearth::Status {
                             TRY(const PublicKey known, key);
                             TRY(*answer, admissions.locate(known, request->node()));
                             return ok_status();
                           });
  }

  grpc::ServerUnaryReactor* Reach(grpc::CallbackServerContext* context,
                                  const control::v1::ReachRequest* /*request*/,
                                  control::v1::Reached* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context, [key, answer](Admissions& admissions) -> hearth::Status {
      TRY(const PublicKey known, key);
      TRY(*answer, admissions.reach(known));
      return ok_status();
    });
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const control::v1::DescribeRequest* /*request*/,
                                     control::v1::Description* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context, [core = core_, key, answer](Admissions&) -> hearth::Status {
      TRY(const PublicKey known, key);
      const auto entry = core->options.roster->find(known);
      REQUIRE(entry && entry->role == Role::kWorker, "only a worker is told of the model");
      REQUIRE(core->options.describe != nullptr, "no model is described here");
      TRY(*answer, core->options.describe());
      return ok_status();
    });
  }

 private:
  static void set_limits(const ControlOptions& options, grpc::ServerBuilder& builder) {
    builder.SetResourceQuota(grpc::ResourceQuota("control").Resize(limits::kControlMemoryBytes));
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.limits.message_bytes));
    builder.SetMaxSendMessageSize(static_cast<int>(limits::kControlMessageBytes));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>(limits::kHandshakeSeconds) * 1000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 * 1024);
    // A worker's window does not grow: what is on its way stays below what the acceptor allows.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                               static_cast<int>(options.limits.message_bytes));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    builder.AddChannelArgument(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  }

  grpc::ServerUnaryReactor* answer_stranger(const grpc::CallbackServerContext& context,
                                            Stranger::Work work) {
    const auto call = std::make_shared<Stranger>(core_, context.peer(), std::move(work));
    call->begin(call);
    return call.get();
  }

  const std::shared_ptr<Core> core_;
  std::unique_ptr<ControlAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

ControlService::ControlService() : core_(std::make_shared<Core>()) {}

Result<std::unique_ptr<ControlService>> ControlService::open(const ControlOptions& options,
                                                             Post post) {
  TRY(const Address checked, parse_address(options.address));
  std::unique_ptr<ControlService> service(new ControlService());
  service->core_->post = std::move(post);
  service->core_->options = options;
  service->service_ = std::make_unique<Service>(service->core_);
  TRY_VOID(service->service_->start(checked));
  return service;
}

ControlService::~ControlService() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->alive = false;
  }
  core_->events = nullptr;
  core_->options.admissions = nullptr;
  if (service_ != nullptr) service_->stop();
  core_->sessions.clear();
  const std::lock_guard lock(core_->mutex);
  core_->post = nullptr;
}

void ControlService::set_events(TransportEvents* events) { core_->events = events; }

LinkId ControlService::connect(std::string_view /*address*/) {
  const LinkId link(++core_->last_link);
  core_->to_owner([link](Core& core) {
    if (core.events == nullptr) return;
    core.events->on_link_closed(
        link, {ErrorCode::kUnsupported, "the coordinator does not dial on the control plane"});
  });
  return link;
}

Status ControlService::send(LinkId link, Frame frame) {
  REQUIRE(frame.type == FrameType::kControl, "only control frames travel on a control link");
  REQUIRE(frame.payload.size() <= limits::kControlMessageBytes,
          "control message of " + std::to_string(frame.payload.size()) +
              " bytes passes the limit of " + std::to_string(limits::kControlMessageBytes));
  const auto session = core_->sessions.find(link);
  return session == core_->sessions.end() ? ok_status() : session->second->send(frame.payload);
}

void ControlService::close(LinkId link) {
  const auto found = core_->sessions.find(link);
  if (found == core_->sessions.end()) return;
  const std::shared_ptr<Session> session = found->second;
  core_->sessions.erase(found);
  session->close();
  core_->to_owner([link](Core& core) {
    if (core.events == nullptr) return;
    core.events->on_link_closed(link, {ErrorCode::kCancelled, "closed on this side"});
  });
}

std::string ControlService::address() const { return core_->address; }

std::optional<RosterEntry> ControlService::peer(LinkId link) const {
  const auto found = core_->sessions.find(link);
  if (found == core_->sessions.end()) return std::nullopt;
  return core_->options.roster->find(found->second->peer());
}

void ControlService::recheck_peers() {
  const auto sessions = core_->sessions;
  for (const auto& [link, session] : sessions) {
    const auto entry = core_->options.roster->find(session->peer());
    if (!entry || entry->role != Role::kWorker) close(link);
  }
}

}  // namespace hearth::coordinator
