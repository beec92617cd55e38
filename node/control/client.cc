#include "node/control/client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "proto/address.h"
#include "proto/link/grpc_tls.h"

namespace hearth::node {
namespace {

using grpc::ByteBuffer;

constexpr char kSessionMethod[] = "/hearth.control.v1.Control/Session";
constexpr auto kShutdownWait = std::chrono::seconds(2);

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

// A fresh connection for every stream: gRPC's own back-off and its shared connections would hide
// a coordinator that is back. The stage's back-off decides when to dial.
std::shared_ptr<grpc::Channel> make_channel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3000);  // also the time to connect
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kControlMessageBytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(limits::kControlMessageBytes));
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// Who answered one dial, and why that was refused. Handshakes are on threads of gRPC.
struct Answerer {
  std::mutex mutex;
  std::optional<PublicKey> key;
  std::string refusal;
};

std::shared_ptr<grpc::ChannelCredentials> credentials_for(
    const TlsIdentity& identity, const std::shared_ptr<const RosterBook>& roster,
    const std::shared_ptr<Answerer>& answerer) {
  return tls_channel_credentials(identity, [roster, answerer](const PublicKey& key) {
    const auto entry = roster->find(key);
    const std::lock_guard lock(answerer->mutex);
    answerer->key = key;
    if (entry && entry->role == Role::kCoordinator) return ok_status();
    answerer->refusal = "the machine there has a key that is no coordinator's of the roster";
    return Status(Error::invalid(answerer->refusal));
  });
}

}  // namespace

struct ControlClient::Core : std::enable_shared_from_this<Core> {
  // From any thread. After stop() nothing is posted any more.
  void to_owner(std::function<void(Core&)> work) {
    const std::lock_guard lock(mutex);
    if (!alive) return;
    post([self = shared_from_this(), work = std::move(work)] { work(*self); });
  }
  void closed(LinkId link, const Error& why) {
    if (calls.erase(link) > 0 && events != nullptr) events->on_link_closed(link, why);
  }

  std::mutex mutex;
  std::condition_variable all_done;
  bool alive = true;
  int running = 0;  // calls whose OnDone has not come
  Post post;
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;

  // The owner's thread only.
  TransportEvents* events = nullptr;
  std::uint64_t last_link = 0;
  std::unordered_map<LinkId, std::shared_ptr<Call>> calls;
  // The latest channel outlives its call: the last channel of a process takes gRPC's callback
  // threads with it, and would wait for itself if it went away on one of them.
  std::shared_ptr<grpc::Channel> channel;
};

// One stream. Owner's calls and gRPC's callbacks meet under mutex_; the call keeps itself alive
// until OnDone. At most one frame is on its way to the owner, then the next one is read.
class ControlClient::Call final : public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  Call(std::shared_ptr<Core> core, LinkId link) : core_(std::move(core)), link_(link) {}

  void start(const std::string& address, std::shared_ptr<Call> self) {
    {
      const std::lock_guard lock(core_->mutex);
      ++core_->running;
    }
    const std::lock_guard lock(mutex_);
    self_ = std::move(self);
    const auto channel =
        make_channel(address, credentials_for(core_->identity, core_->roster, answerer_));
    grpc::GenericStub stub(channel);
    stub.PrepareBidiStreamingCall(&context_, kSessionMethod, grpc::StubOptions(), this);
    AddHold();
    held_ = true;
    StartRead(&incoming_);
    StartCall();
    core_->channel = channel;
  }

  Status send(const Bytes& payload) {
    const std::lock_guard lock(mutex_);
    if (!held_ || closing_) return ok_status();
    if (queued_bytes_ + payload.size() > limits::kControlQueueBytes) {
      return Error{ErrorCode::kNoCapacity,
                   "the control queue holds " + std::to_string(queued_bytes_) +
                       " bytes; the limit is " + std::to_string(limits::kControlQueueBytes)};
    }
    queued_bytes_ += payload.size();
    queue_.push_back(to_buffer(payload));
    write_next();
    return ok_status();
  }

  std::optional<PublicKey> peer() const {
    const std::lock_guard lock(answerer_->mutex);
    return answerer_->key;
  }

  void close(bool at_once) {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (at_once || (queue_.empty() && !writing_)) end();
  }

  void read_next() {
    const std::lock_guard lock(mutex_);
    if (held_ && !closing_) StartRead(&incoming_);
  }

  void OnReadInitialMetadataDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (ok) open();
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      release();
      return;
    }
    open();
    core_->to_owner([self = self_, payload = to_bytes(incoming_)](Core& core) mutable {
      if (!core.calls.contains(self->link_)) return;
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
    if (!queue_.empty()) {
      queued_bytes_ -= queue_.front().Length();
      queue_.pop_front();
    }
    if (!ok) queue_.clear();
    write_next();
    if (closing_ && queue_.empty() && !writing_) end();
  }

  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<Call> self;
    {
      const std::lock_guard lock(mutex_);
      release();
      self = std::move(self_);
    }
    Error why{ErrorCode::kUnavailable,
              status.ok() ? "the coordinator ended the session" : status.error_message()};
    {
      const std::lock_guard lock(answerer_->mutex);
      if (!answerer_->refusal.empty()) why.message = answerer_->refusal;
    }
    const std::shared_ptr<Core> core = core_;
    core->to_owner([link = link_, why](Core& owner) { owner.closed(link, why); });
    self.reset();  // this call is gone
    const std::lock_guard lock(core->mutex);
    --core->running;
    core->all_done.notify_all();
  }

 private:
  void open() {
    if (std::exchange(opened_, true)) return;
    core_->to_owner([self = self_](Core& core) {
      if (core.events != nullptr && core.calls.contains(self->link_)) {
        core.events->on_link_open(self->link_, false);
      }
    });
  }

  void write_next() {
    if (writing_ || queue_.empty() || !held_) return;
    writing_ = true;
    StartWrite(&queue_.front());
  }

  void end() {
    context_.TryCancel();
    release();
  }

  void release() {
    if (std::exchange(held_, false)) RemoveHold();
  }

  const std::shared_ptr<Core> core_;
  const LinkId link_;
  const std::shared_ptr<Answerer> answerer_ = std::make_shared<Answerer>();
  std::mutex mutex_;
  std::shared_ptr<Call> self_;
  grpc::ClientContext context_;
  ByteBuffer incoming_;
  std::deque<ByteBuffer> queue_;
  std::size_t queued_bytes_ = 0;
  bool held_ = false;  // operations may be started
  bool opened_ = false;
  bool writing_ = false;
  bool closing_ = false;
};

ControlClient::ControlClient(TlsIdentity identity, std::shared_ptr<const RosterBook> roster,
                             Post post)
    : core_(std::make_shared<Core>()) {
  core_->identity = std::move(identity);
  core_->roster = std::move(roster);
  core_->post = std::move(post);
}

ControlClient::~ControlClient() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->alive = false;
  }
  core_->events = nullptr;
  for (const auto& [link, call] : std::exchange(core_->calls, {})) call->close(true);
  // Ours to end, on this thread. A call that gRPC does not end keeps its channel for good.
  auto channel = std::make_unique<std::shared_ptr<grpc::Channel>>(std::move(core_->channel));
  std::unique_lock lock(core_->mutex);
  const bool done =
      core_->all_done.wait_for(lock, kShutdownWait, [&] { return core_->running == 0; });
  core_->post = nullptr;
  lock.unlock();
  if (!done) channel.release();
}

void ControlClient::set_events(TransportEvents* events) { core_->events = events; }

LinkId ControlClient::connect(std::string_view address) {
  const LinkId link(++core_->last_link);
  const Result<Address> checked = parse_address(address);
  const auto call = std::make_shared<Call>(core_, link);
  core_->calls.emplace(link, call);
  if (checked) {
    call->start(checked->text(), call);
  } else {
    core_->to_owner([link, why = checked.error()](Core& core) { core.closed(link, why); });
  }
  return link;
}

std::optional<RosterEntry> ControlClient::peer(LinkId link) const {
  const auto call = core_->calls.find(link);
  const auto key = call == core_->calls.end() ? std::nullopt : call->second->peer();
  return key ? core_->roster->find(*key) : std::nullopt;
}

Status ControlClient::send(LinkId link, Frame frame) {
  REQUIRE(frame.type == FrameType::kControl, "only control frames travel on a control link");
  REQUIRE(frame.payload.size() <= limits::kControlMessageBytes,
          "control message of " + std::to_string(frame.payload.size()) +
              " bytes passes the limit of " + std::to_string(limits::kControlMessageBytes));
  const auto call = core_->calls.find(link);
  return call == core_->calls.end() ? ok_status() : call->second->send(frame.payload);
}

void ControlClient::close(LinkId link) {
  const auto found = core_->calls.find(link);
  if (found == core_->calls.end()) return;
  const std::shared_ptr<Call> call = found->second;
  core_->calls.erase(found);
  call->close(false);
  core_->to_owner([link](Core& core) {
    if (core.events != nullptr) {
      core.events->on_link_closed(link, {ErrorCode::kCancelled, "closed on this side"});
    }
  });
}

}  // namespace hearth::node
