// Both ends of the control plane over real sockets on loopback, each with an owner's thread of its
// own.
#include "coordinator/control/service.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "proto/link/control_links.h"
#include "proto/link/grpc_tls.h"
#include "tests/unit/node/pipeline/owner.h"
#include "tests/unit/proto/cluster.h"
#include "tests/unit/proto/transport_fixture.h"

namespace hearth {
namespace {

using coordinator::ControlOptions;
using coordinator::ControlService;
using testing::Owner;

struct Recorder : TransportEvents {
  explicit Recorder(Owner& owner_thread) : owner(owner_thread) {}
  void on_link_open(LinkId link, bool incoming) override {
    EXPECT_FALSE(inside_call);
    opened.push_back(link);
    EXPECT_EQ(incoming, expect_incoming);
  }
  void on_frame(LinkId link, Frame frame) override {
    EXPECT_FALSE(closed.contains(link)) << "a frame after the end of its link";
    EXPECT_EQ(frame.type, FrameType::kControl);
    frames[link].push_back(std::string(as_text(frame.payload)));
    if (hold) hold();
  }
  void on_link_closed(LinkId link, const Error& why) override {
    EXPECT_FALSE(inside_call);
    EXPECT_FALSE(closed.contains(link)) << "two ends of one link";
    closed.emplace(link, why);
  }
  // Waits until `done`, asked on the owner's thread.
  bool wait(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    bool reached = false;
    while (!reached && std::chrono::steady_clock::now() < end) {
      owner.call([&] { reached = done(); });
      if (!reached) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return reached;
  }
  Owner& owner;
  bool expect_incoming = false;
  bool inside_call = false;
  std::vector<LinkId> opened;
  std::map<LinkId, std::vector<std::string>> frames;
  std::map<LinkId, Error> closed;
  std::function<void()> hold;
};

class ControlAdapters : public ::testing::Test {
 protected:
  void SetUp() override {
    server_events_.expect_incoming = true;
    start_service("127.0.0.1:0");
    client_owner_.call([&] {
      client_ = make_client("worker");
      client_->set_events(&client_events_);
    });
  }
  void TearDown() override {
    client_owner_.call([&] { client_.reset(); });
    stop_service();
  }
  void start_service(const std::string& address) {
    server_owner_.call([&] {
      auto opened = ControlService::open(server_owner_.io(), options(address));
      ASSERT_TRUE(opened) << opened.error().message;
      service_ = std::move(*opened);
      service_->sessions().set_events(&server_events_);
      address_ = service_->address();
    });
  }
  ControlOptions options(const std::string& address) {
    ControlOptions options;
    options.address = address;
    options.identity = cluster_.identity("home", Role::kCoordinator);
    options.roster = cluster_.book();
    options.admissions = admissions_;
    options.limits.message_bytes = limits::kControlMessageBytes;  // as large as any may be
    return options;
  }
  std::unique_ptr<TcpTransport> make_client(const std::string& name) {
    return make_client(cluster_.identity(name));
  }
  std::unique_ptr<TcpTransport> make_client(const TlsIdentity& identity) {
    return TcpTransport::open(client_owner_.io(), worker_control_options(identity, cluster_.book()))
        .value();
  }
  void stop_service() {
    server_owner_.call([&] { service_.reset(); });
  }
  LinkId dial(const std::string& address) {
    LinkId link;
    client_owner_.call([&] {
      client_events_.inside_call = true;
      link = client_->connect(address);
      client_events_.inside_call = false;
    });
    return link;
  }
  // Dials; both ends of the session.
  void link(LinkId& at_client, LinkId& at_server) {
    std::size_t before = 0;
    server_owner_.call([&] { before = server_events_.opened.size(); });
    at_client = dial(address_);
    ASSERT_TRUE(server_events_.wait([&] { return server_events_.opened.size() > before; }));
    ASSERT_TRUE(client_events_.wait([&] {
      return !client_events_.opened.empty() && client_events_.opened.back() == at_client;
    }));
    server_owner_.call([&] { at_server = server_events_.opened.back(); });
  }
  Status client_send(LinkId link, std::string_view text) {
    Status status = ok_status();
    client_owner_.call([&] { status = client_->send(link, control(text)); });
    return status;
  }
  Status server_send(LinkId link, std::string_view text) {
    Status status = ok_status();
    server_owner_.call([&] { status = service_->sessions().send(link, control(text)); });
    return status;
  }
  bool client_closed(LinkId link) {
    return client_events_.wait([&] { return client_events_.closed.contains(link); });
  }
  bool server_closed(LinkId link) {
    return server_events_.wait([&] { return server_events_.closed.contains(link); });
  }
  static Frame control(std::string_view text) {
    const ByteSpan bytes = as_bytes(text);
    return {FrameType::kControl, Bytes(bytes.begin(), bytes.end())};
  }

  testing::Cluster cluster_;
  coordinator::Membership* admissions_ = nullptr;
  Owner server_owner_;
  Owner client_owner_;
  Recorder server_events_{server_owner_};
  Recorder client_events_{client_owner_};
  std::unique_ptr<ControlService> service_;
  std::unique_ptr<TcpTransport> client_;
  std::string address_;
};

TEST_F(ControlAdapters, CarryMessagesInOrderBothWays) {
  LinkId c, s;
  link(c, s);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client_send(c, "up " + std::to_string(i)));
    ASSERT_TRUE(server_send(s, "down " + std::to_string(i)));
  }
  ASSERT_TRUE(client_events_.wait([&] { return client_events_.frames[c].size() == 200; }));
  ASSERT_TRUE(server_events_.wait([&] { return server_events_.frames[s].size() == 200; }));
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(server_events_.frames[s][i], "up " + std::to_string(i));
    EXPECT_EQ(client_events_.frames[c][i], "down " + std::to_string(i));
  }
}

TEST_F(ControlAdapters, SpeakIpv6) {
  stop_service();
  bool has_ipv6 = false;
  server_owner_.call(
      [&] { has_ipv6 = ControlService::open(server_owner_.io(), options("[::1]:0")).ok(); });
  if (!has_ipv6) GTEST_SKIP() << "this machine has no ::1";
  start_service("[::1]:0");
  LinkId c, s;
  link(c, s);
  ASSERT_TRUE(client_send(c, "up"));
  EXPECT_TRUE(server_events_.wait([&] { return server_events_.frames[s].size() == 1; }));
}

TEST_F(ControlAdapters, OneKeyHasTwoSessionsAtATime) {
  LinkId c, s;
  link(c, s);
  link(c, s);
  EXPECT_TRUE(client_closed(dial(address_)));
  client_owner_.call([&] { client_->close(c); });
  ASSERT_TRUE(server_closed(s));
  link(c, s);
}

TEST_F(ControlAdapters, CarryEmptyAndLargestMessages) {
  LinkId c, s;
  link(c, s);
  const std::string largest(limits::kControlMessageBytes - 64, 'x');
  ASSERT_TRUE(client_send(c, ""));
  ASSERT_TRUE(client_send(c, largest));
  ASSERT_TRUE(server_events_.wait([&] { return server_events_.frames[s].size() == 2; }));
  EXPECT_EQ(server_events_.frames[s][0], "");
  EXPECT_EQ(server_events_.frames[s][1], largest);
}

TEST_F(ControlAdapters, RefuseWhatPassesALimit) {
  LinkId c, s;
  link(c, s);
  const std::string over(limits::kControlMessageBytes + 1, 'x');
  EXPECT_EQ(client_send(c, over).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(server_send(s, over).error().code, ErrorCode::kInvalidInput);
  Status wrong_type = ok_status();
  client_owner_.call([&] { wrong_type = client_->send(c, {FrameType::kBatch, {}}); });
  EXPECT_FALSE(wrong_type);
}

TEST_F(ControlAdapters, AStuckOwnerFillsTheQueueOfTheOther) {
  LinkId c, s;
  link(c, s);
  std::mutex gate;
  gate.lock();
  server_owner_.call([&] { server_events_.hold = [&] { const std::lock_guard wait(gate); }; });
  const std::string message(limits::kMiB, 'x');
  std::size_t accepted = 0;
  Status status = ok_status();
  while (status.ok() && accepted < 200) {
    status = client_send(c, message);
    if (status) ++accepted;
  }
  gate.unlock();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNoCapacity);
  EXPECT_TRUE(server_events_.wait([&] { return server_events_.frames[s].size() == accepted; }));
}

TEST_F(ControlAdapters, CloseBySendersSendsWhatIsQueued) {
  LinkId c, s;
  link(c, s);
  server_owner_.call([&] {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(service_->sessions().send(s, control("refused")));
    service_->sessions().close(s);
    service_->sessions().close(s);
    EXPECT_TRUE(service_->sessions().send(s, control("swallowed")));
  });
  ASSERT_TRUE(client_closed(c));
  EXPECT_EQ(client_events_.frames[c].size(), 50u);
  EXPECT_EQ(client_events_.closed.at(c).code, ErrorCode::kUnavailable);
  ASSERT_TRUE(server_closed(s));
  EXPECT_EQ(server_events_.closed.at(s).code, ErrorCode::kCancelled);
}

TEST_F(ControlAdapters, CloseByTheClientEndsTheSession) {
  LinkId c, s;
  link(c, s);
  client_owner_.call([&] { client_->close(c); });
  ASSERT_TRUE(client_closed(c));
  EXPECT_EQ(client_events_.closed.at(c).code, ErrorCode::kCancelled);
  ASSERT_TRUE(server_closed(s));
  EXPECT_EQ(server_events_.closed.at(s).code, ErrorCode::kUnavailable);
}

TEST_F(ControlAdapters, TheServiceEndsAndComesBackAtItsAddress) {
  for (int round = 0; round < 3; ++round) {
    LinkId c, s;
    link(c, s);
    ASSERT_TRUE(client_send(c, "hello"));
    stop_service();
    ASSERT_TRUE(client_closed(c));
    const LinkId stranger = dial(address_);
    ASSERT_TRUE(client_closed(stranger));
    EXPECT_EQ(client_events_.closed.at(stranger).code, ErrorCode::kUnavailable);
    start_service(address_);
  }
}

TEST_F(ControlAdapters, TheClientEndsInEveryState) {
  for (int round = 0; round < 20; ++round) {
    const LinkId c = dial(address_);
    if (round % 2 == 0) {
      ASSERT_TRUE(client_send(c, "hello"));
    }
    if (round % 4 == 1) client_owner_.call([&] { client_->close(c); });
    if (round % 5 == 0) {
      ASSERT_TRUE(server_events_.wait([&] { return !server_events_.opened.empty(); }));
    }
    client_owner_.call([&] {
      client_.reset();
      client_events_.closed.clear();  // a new client counts its links from the start
      client_events_.opened.clear();
      client_ = make_client("worker");
      client_->set_events(&client_events_);
    });
  }
  ASSERT_TRUE(server_events_.wait(
      [&] { return server_events_.closed.size() == server_events_.opened.size(); }));
  LinkId c, s;
  link(c, s);
}

TEST_F(ControlAdapters, TheServiceEndsWithMessagesUnderWay) {
  for (int round = 0; round < 10; ++round) {
    LinkId c, s;
    link(c, s);
    for (int i = 0; i < round * 3; ++i) {
      ASSERT_TRUE(client_send(c, std::string(100'000, 'x')));
      ASSERT_TRUE(server_send(s, std::string(100'000, 'y')));
    }
    stop_service();
    ASSERT_TRUE(client_closed(c));
    start_service(address_);
  }
}

TEST_F(ControlAdapters, OneFailingSessionLeavesTheOthers) {
  LinkId c1, s1, c2, s2;
  link(c1, s1);
  link(c2, s2);
  client_owner_.call([&] { client_->close(c1); });
  ASSERT_TRUE(server_closed(s1));
  ASSERT_TRUE(client_send(c2, "still here"));
  ASSERT_TRUE(server_events_.wait([&] { return server_events_.frames[s2].size() == 1; }));
}

TEST_F(ControlAdapters, RefuseWhatIsNoAddress) {
  for (const char* address : {"192.0.2.1", "example.org:80", ""}) {
    const LinkId link = dial(address);
    ASSERT_TRUE(client_closed(link)) << address;
    EXPECT_EQ(client_events_.closed.at(link).code, ErrorCode::kInvalidInput) << address;
    EXPECT_FALSE(ControlService::open(server_owner_.io(), options(address))) << address;
  }
}

TEST_F(ControlAdapters, APortIsTakenOnce) {
  server_owner_.call([&] {
    const auto second = ControlService::open(server_owner_.io(), options(address_));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kIo);
  });
}

TEST_F(ControlAdapters, EachSideKnowsTheOtherByItsKey) {
  LinkId c, s;
  link(c, s);
  std::optional<RosterEntry> worker, home;
  server_owner_.call([&] { worker = service_->sessions().peer(s); });
  client_owner_.call([&] { home = client_->peer(c); });
  ASSERT_TRUE(worker && home);
  EXPECT_EQ(worker->name, "worker");
  EXPECT_EQ(home->name, "home");
  EXPECT_EQ(home->role, Role::kCoordinator);
}

TEST_F(ControlAdapters, OnlyWorkersOfTheRosterHaveASession) {
  testing::Cluster other;
  const auto attempt = [&](const TlsIdentity& identity) {
    client_owner_.call([&] {
      client_.reset();
      client_events_.closed.clear();
      client_events_.opened.clear();
      client_ = make_client(identity);
      client_->set_events(&client_events_);
    });
    const LinkId link = dial(address_);
    EXPECT_TRUE(client_closed(link));
    EXPECT_EQ(client_events_.closed.at(link).code, ErrorCode::kUnavailable);
    return client_events_.closed.at(link).message;
  };
  attempt(other.identity("stranger"));
  EXPECT_EQ(attempt(cluster_.identity("phone", Role::kClient)), kNotAdmitted);
  EXPECT_EQ(attempt(cluster_.identity("me", Role::kAdmin)), kNotAdmitted);
  EXPECT_EQ(attempt(cluster_.identity("second", Role::kCoordinator)), kNotAdmitted);
  server_owner_.call([&] { EXPECT_TRUE(server_events_.opened.empty()); });
}

TEST_F(ControlAdapters, AWorkerTalksToTheCoordinatorOfItsRosterAlone) {
  cluster_.remove("home");  // the service goes on with a key that is not in the roster now
  LinkId link = dial(address_);
  ASSERT_TRUE(client_closed(link));
  EXPECT_NE(client_events_.closed.at(link).message.find("is not in the roster"), std::string::npos)
      << client_events_.closed.at(link).message;
  // Nor to a worker of the roster that plays the coordinator.
  stop_service();
  server_owner_.call([&] {
    ControlOptions imposter = options("127.0.0.1:0");
    imposter.identity = cluster_.identity("mallory");
    auto opened = ControlService::open(server_owner_.io(), imposter);
    ASSERT_TRUE(opened);
    service_ = std::move(*opened);
    service_->sessions().set_events(&server_events_);
    address_ = service_->address();
  });
  link = dial(address_);
  ASSERT_TRUE(client_closed(link));
  EXPECT_NE(client_events_.closed.at(link).message.find("in the roster as worker"),
            std::string::npos);
  server_owner_.call([&] { EXPECT_TRUE(server_events_.opened.empty()); });
}

TEST_F(ControlAdapters, ARemovedWorkerLosesItsSessionAtOnce) {
  LinkId c, s;
  link(c, s);
  server_owner_.call([&] { service_->recheck_peers(); });
  ASSERT_TRUE(client_send(c, "still here"));
  ASSERT_TRUE(server_events_.wait([&] { return server_events_.frames[s].size() == 1; }));
  cluster_.remove("worker");
  server_owner_.call([&] { service_->recheck_peers(); });
  ASSERT_TRUE(server_closed(s));
  ASSERT_TRUE(client_closed(c));
  const LinkId again = dial(address_);
  ASSERT_TRUE(client_closed(again));
  server_owner_.call([&] { EXPECT_EQ(server_events_.opened.size(), 1u); });
}

TEST_F(ControlAdapters, HostileFramesEndTheirLinkOnly) {
  LinkId c, s;
  link(c, s);
  const TlsIdentity mallory = cluster_.identity("mallory");
  Bytes broken = testing::wire(FrameType::kControl, Bytes(10));
  broken[0] = std::byte{'X'};
  for (const Bytes& said :
       {testing::wire(FrameType::kHello, Bytes(64)), testing::wire(FrameType::kPing, Bytes(64)),
        encode_header(FrameType::kControl, limits::kControlMessageBytes + 1), broken}) {
    testing::TlsPeer peer(address_, mallory);
    peer.raw().say({&kControlByte, 1});
    ASSERT_TRUE(client_events_.wait([&] { return peer.greeted(); }));
    peer.say(said);
    EXPECT_TRUE(client_events_.wait([&] { return peer.hung_up(); }));
  }
  ASSERT_TRUE(client_send(c, "still here"));
  ASSERT_TRUE(server_events_.wait([&] { return server_events_.frames[s].size() == 1; }));
}

// Calls a method that the service does not have.
class UnknownCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  UnknownCall(const std::string& address, const TlsIdentity& identity)
      : channel_(grpc::CreateChannel(
            address,
            tls_channel_credentials(identity, [](const PublicKey&) { return ok_status(); }))) {
    const grpc::Slice text("first");
    said_ = grpc::ByteBuffer(&text, 1);
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(
        &context_, "/hearth.control.v1.Control/Unknown", grpc::StubOptions(), this);
    StartWrite(&said_);
    StartRead(&heard_);
    StartCall();
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_.notify_one();
  }
  grpc::Status finish() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer said_;
  grpc::ByteBuffer heard_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<grpc::Status> status_;
};

TEST_F(ControlAdapters, AnUnknownMethodIsRefusedWithoutAReason) {
  for (const Role role : {Role::kWorker, Role::kClient}) {
    UnknownCall call(address_, cluster_.identity(role == Role::kClient ? "phone" : "worker", role));
    EXPECT_EQ(call.finish().error_message(), kNotAdmitted);
  }
}

// A handshake of OpenSSL's own client over a socket that blocks: the version, or 0 when there was
// no agreement or the server hung up on it.
int foreign_handshake(const std::string& address, int newest, const TlsIdentity* identity) {
  testing::RawPeer raw(address);
  EXPECT_EQ(::fcntl(raw.socket(), F_SETFL, 0), 0);
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  SSL_CTX_set_max_proto_version(context, newest);
  const unsigned char h2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, h2, sizeof(h2));
  if (identity != nullptr) {
    testing::use_identity(context, *identity);
  }
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, raw.socket());
  char byte = 0;
  // The server's first frame, the settings of HTTP/2, comes once it is content with us.
  const bool content = SSL_connect(ssl) == 1 && SSL_read(ssl, &byte, 1) == 1;
  const int version = content ? SSL_version(ssl) : 0;
  SSL_free(ssl);
  SSL_CTX_free(context);
  return version;
}

TEST_F(ControlAdapters, SpeakNothingBelowTls13) {
  const TlsIdentity known = cluster_.identity("worker");
  EXPECT_EQ(foreign_handshake(address_, TLS1_3_VERSION, &known), TLS1_3_VERSION);
  EXPECT_EQ(foreign_handshake(address_, TLS1_2_VERSION, &known), 0);
  EXPECT_EQ(foreign_handshake(address_, TLS1_2_VERSION, nullptr), 0);
  EXPECT_EQ(foreign_handshake(address_, TLS1_3_VERSION, nullptr), 0) << "no certificate";
  const TlsIdentity stranger = testing::Cluster().identity("stranger");
  EXPECT_EQ(foreign_handshake(address_, TLS1_3_VERSION, &stranger), 0);
}

TEST_F(ControlAdapters, PlaintextIsNeverParsed) {
  for (const std::string_view said :
       {std::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33),
        std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("\x16\x03\x01\xff\xff")}) {
    testing::RawPeer peer(address_);
    peer.say(as_bytes(said));
    ::shutdown(peer.socket(), SHUT_WR);
    std::string answer;
    EXPECT_TRUE(client_events_.wait([&] {
      char bytes[256];
      const ssize_t got = ::recv(peer.socket(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got > 0) answer.append(bytes, static_cast<std::size_t>(got));
      return got == 0 || (got < 0 && errno != EAGAIN);
    }));
    // At most an alert: type 21, two bytes of version, two of length.
    EXPECT_TRUE(answer.empty() || answer[0] == 21);
    EXPECT_LE(answer.size(), 7u);
  }
  LinkId c, s;
  link(c, s);
}

}  // namespace
}  // namespace hearth
