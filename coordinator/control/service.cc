#include "coordinator/control/service.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "coordinator/membership/membership.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/link/admission.h"
#include "proto/link/control_links.h"
#include "proto/link/grpc_tls.h"

namespace hearth::coordinator {
namespace {

namespace asio = boost::asio;
using grpc::experimental::ExternalConnectionAcceptor;

// One text for every reason, so that an unauthenticated caller learns nothing. A caller that has
// shown its join token's secret or its own key gets told_refusal().
grpc::Status not_admitted(std::string_view told = kNotAdmitted) {
  return {grpc::StatusCode::UNAUTHENTICATED, std::string(told)};
}

}  // namespace

struct ControlService::Core : std::enable_shared_from_this<Core> {
  Core(asio::io_context& context, ControlOptions given) : io(context), options(std::move(given)) {}

  // From any thread. False, and nothing posted, once the service ends.
  bool to_owner(std::function<void(Core&)> work) {
    const std::lock_guard lock(mutex);
    if (!alive) return false;
    asio::post(io, [self = shared_from_this(), work = std::move(work)] { work(*self); });
    return true;
  }

  asio::io_context& io;
  std::mutex mutex;
  bool alive = true;
  std::uint32_t strangers = 0;  // requests of strangers under way
  std::string address;
  ControlOptions options;
};

// A method that no version of ours has is refused as an unauthenticated caller is.
class ControlService::UnknownCalls final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new UnknownCall();
  }

 private:
  class UnknownCall final : public grpc::ServerGenericBidiReactor {
   public:
    UnknownCall() { Finish(not_admitted()); }
    void OnDone() override { delete this; }
  };
};

// One question of somebody who may be in no roster, answered on the main thread. Request and
// answer are gRPC's and live until finish().
class ControlService::Stranger final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<hearth::Status(Membership&)>;
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
  // On the main thread.
  void answer(Core& core) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    const hearth::Status done =
        core.options.admissions == nullptr
            ? hearth::Status(
                  Error::invalid("this server admits no nodes; join through a server that does"))
            : work_(*core.options.admissions);
    if (!done.ok()) spdlog::warn("refused {}: {}", from_, done.error().message);
    finish(done.ok() ? grpc::Status::OK : not_admitted(told_refusal(done.error())));
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

class ControlService::Service final : public control::v1::Control::CallbackService {
 public:
  explicit Service(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  Status start(const Address& address, TcpTransport& sessions) {
    const ControlOptions& options = core_->options;
    const auto admit = [roster = options.roster, open = options.admissions != nullptr,
                        door = options.door](const PublicKey& key) -> hearth::Status {
      if (roster->find(key).has_value()) return ok_status();
      REQUIRE(open, "the key ", key.hex(), " is not in the roster");
      // A peer that gets past may ask to be enrolled; a session is for the roster alone.
      const hearth::Status passed = door ? door(key) : ok_status();
      if (!passed.ok()) spdlog::warn("refused a control connection: {}", passed.error().message);
      return passed;
    };
    grpc::ServerBuilder builder;
    using Builder = grpc::ServerBuilder::experimental_type;
    const std::shared_ptr<ExternalConnectionAcceptor> entry =
        builder.experimental().AddExternalConnectionAcceptor(
            Builder::ExternalConnectionType::FROM_FD,
            tls_server_credentials(options.identity, admit));
    builder.RegisterService(this);
    builder.RegisterCallbackGenericService(&unknown_calls_);
    set_limits(options, builder);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return Error{ErrorCode::kIo, "the control plane does not start"};
    ControlAcceptor::Hands hands;
    hands.session = [&sessions](int socket) { sessions.adopt(socket); };
    hands.call = [entry](int socket) {
      ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = socket;
      entry->HandleNewConnection(&connection);
    };
    const auto hand_or_close = [](const std::function<void(int socket)>& take) {
      return take ? take : [](int socket) { ::close(socket); };
    };
    hands.member = hand_or_close(options.on_member);
    hands.ticket = hand_or_close(options.on_ticket);
    TRY(acceptor_, ControlAcceptor::open(core_->io, address, options.limits, std::move(hands)));
    core_->address = acceptor_->address().text();
    return ok_status();
  }

  void stop() {
    if (server_ == nullptr) return;
    // It stays until gRPC's threads, which ask it for callers, have ended.
    if (acceptor_ != nullptr) acceptor_->stop();
    server_->Shutdown(std::chrono::system_clock::now());  // cancels what still runs
    server_->Wait();
  }

  grpc::ServerUnaryReactor* Prove(grpc::CallbackServerContext* context,
                                  const control::v1::ProveRequest* /*request*/,
                                  control::v1::Proof* answer) override {
    return answer_stranger(*context, [answer](Membership& membership) {
      *answer = membership.prove();
      return ok_status();
    });
  }

  grpc::ServerUnaryReactor* Enrol(grpc::CallbackServerContext* context,
                                  const control::v1::Enrolment* request,
                                  control::v1::Enrolled* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context,
                           [key, request, answer](Membership& membership) -> hearth::Status {
                             TRY(const PublicKey known, key);
                             TRY(*answer, membership.enrol(known, *request));
                             return ok_status();
                           });
  }

  grpc::ServerUnaryReactor* Knock(grpc::CallbackServerContext* context,
                                  const control::v1::Knocking* request,
                                  control::v1::Enrolled* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context,
                           [key, from = acceptor_->caller(context->peer()), request,
                            answer](Membership& membership) -> hearth::Status {
                             TRY(const PublicKey known, key);
                             TRY(*answer, membership.knock(known, from, *request));
                             return ok_status();
                           });
  }

  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context,
                                  const control::v1::LeaveRequest* /*request*/,
                                  control::v1::Left* /*answer*/) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context, [key](Membership& membership) -> hearth::Status {
      TRY(const PublicKey known, key);
      return membership.leave(known);
    });
  }

  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const control::v1::LocateRequest* request,
                                   control::v1::Located* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(
        *context, [key, request, answer](Membership& membership) -> hearth::Status {
          TRY(const PublicKey known, key);
          TRY(*answer, membership.locate(known, request->node(), request->routes()));
          return ok_status();
        });
  }

  grpc::ServerUnaryReactor* Reach(grpc::CallbackServerContext* context,
                                  const control::v1::ReachRequest* /*request*/,
                                  control::v1::Reached* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context, [key, answer](Membership& membership) -> hearth::Status {
      TRY(const PublicKey known, key);
      TRY(*answer, membership.reach(known));
      return ok_status();
    });
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const control::v1::DescribeRequest* /*request*/,
                                     control::v1::Description* answer) override {
    const auto key = peer_key(*context->auth_context());
    return answer_stranger(*context, [core = core_, key, answer](Membership&) -> hearth::Status {
      TRY(const PublicKey known, key);
      const auto entry = core->options.roster->find(known);
      REQUIRE(entry && entry->role == Role::kWorker,
              "only a worker gets the description of the model");
      REQUIRE(core->options.describe != nullptr, "this server does not describe its model");
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
    builder.AddChannelArgument(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  }

  grpc::ServerUnaryReactor* answer_stranger(const grpc::CallbackServerContext& context,
                                            Stranger::Work work) {
    const auto call =
        std::make_shared<Stranger>(core_, acceptor_->caller(context.peer()), std::move(work));
    call->begin(call);
    return call.get();
  }

  const std::shared_ptr<Core> core_;
  UnknownCalls unknown_calls_;
  std::unique_ptr<ControlAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

ControlService::ControlService(std::shared_ptr<Core> core) : core_(std::move(core)) {}

Result<std::unique_ptr<ControlService>> ControlService::open(asio::io_context& io,
                                                             const ControlOptions& options) {
  TRY(const Address checked, parse_address(options.address));
  std::unique_ptr<ControlService> service(new ControlService(std::make_shared<Core>(io, options)));
  TcpOptions sessions = coordinator_control_options(options.identity, options.roster);
  sessions.on_refused = options.on_refused;
  sessions.frame_bytes = options.limits.message_bytes;
  sessions.handshakes = options.limits.strangers;
  TRY(service->sessions_, TcpTransport::open(io, sessions));
  service->service_ = std::make_unique<Service>(service->core_);
  TRY_VOID(service->service_->start(checked, *service->sessions_));
  return service;
}

ControlService::~ControlService() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->alive = false;
  }
  core_->options.admissions = nullptr;
  if (service_ != nullptr) service_->stop();
}

std::string ControlService::address() const { return core_->address; }

}  // namespace hearth::coordinator
