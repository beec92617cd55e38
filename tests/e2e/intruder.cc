// Somebody who must not get in, for tests/e2e/intruders_test.py: one kind of attempt, again and
// again, against a real process. Prints a line of JSON an attempt: "refused", and what was "heard".
//
// - enrol ADDRESS KEY NAME ROLE ID SECRET TIMES: asks to be let in
// - session ADDRESS KEY NAME TIMES: speaks as a worker of that name
// - leave ADDRESS KEY TIMES
// - knock ADDRESS KEY NAME TIMES: asks to be let in without a token; refused: it hears nothing
// - data ADDRESS KEY NAME STAGE TIMES: opens a data link; STAGE c: as the coordinator
// - forge CLUSTERKEY ROSTER NUMBER OUT: signs a roster with one more node
// - identity KEY OUT: writes certificate and key as PEM, for a program that speaks for itself
// - rosters ADDRESS KEY ROSTER TIMES FILE...: is a coordinator there, and sends these rosters
//
// KEY is a key file, or "-" for a new key at every attempt.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/private_file.h"
#include "coordinator/control/service.h"
#include "kernels/canonical.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/frame.h"
#include "proto/link/grpc_tls.h"
#include "tests/unit/node/pipeline/owner.h"

namespace hearth {
namespace {

using control::v1::Control;

// Below what one address may begin on a data port, so that each is refused for its own reason.
constexpr auto kPause = std::chrono::milliseconds(80);
constexpr auto kPatience = std::chrono::seconds(10);

struct Attempt {
  bool refused = true;
  std::string heard;
};

TlsIdentity identity_of(const std::string& file) {
  const SecretKey key = file == "-" ? SecretKey::generate() : read_key_file(file).value();
  return TlsIdentity::make(key).value();
}

std::unique_ptr<Control::Stub> dial(const std::string& address, const std::string& key) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto anybody = [](const PublicKey&) { return ok_status(); };
  return Control::NewStub(grpc::CreateCustomChannel(
      address, tls_channel_credentials(identity_of(key), anybody), arguments));
}

Attempt attempt_of(const grpc::Status& status) {
  if (status.ok()) return {false, ""};
  return {true, std::to_string(status.error_code()) + " " + status.error_message()};
}

void set_deadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

Attempt enrol(const std::vector<std::string>& words) {
  const auto stub = dial(words[0], words[1]);
  grpc::ClientContext context;
  set_deadline(context);
  control::v1::Enrolment request;
  request.set_node(words[2]);
  request.set_role(words[3]);
  request.set_token_id(words[4]);
  request.set_secret(words[5]);
  control::v1::Enrolled answer;
  return attempt_of(stub->Enrol(&context, request, &answer));
}

Attempt leave(const std::vector<std::string>& words) {
  const auto stub = dial(words[0], words[1]);
  grpc::ClientContext context;
  set_deadline(context);
  control::v1::Left answer;
  return attempt_of(stub->Leave(&context, control::v1::LeaveRequest(), &answer));
}

Attempt knock(const std::vector<std::string>& words) {
  const auto stub = dial(words[0], words[1]);
  grpc::ClientContext context;
  set_deadline(context);
  control::v1::Knocking request;
  request.set_node(words[2]);
  control::v1::Enrolled answer;
  const grpc::Status status = stub->Knock(&context, request, &answer);
  if (!status.ok()) return attempt_of(status);
  return {answer.ByteSizeLong() == 0, answer.ShortDebugString()};
}

Attempt session(const std::vector<std::string>& words) {
  const auto stub = dial(words[0], words[1]);
  grpc::ClientContext context;
  set_deadline(context);
  const auto stream = stub->Session(&context);
  control::v1::WorkerMessage message;
  message.mutable_register_()->set_node(words[2]);
  message.mutable_register_()->set_protocol_version(kProtocolVersion);
  stream->Write(message);
  control::v1::CoordinatorMessage answer;
  if (!stream->Read(&answer)) return attempt_of(stream->Finish());
  const bool refused = answer.has_refused();
  context.TryCancel();
  return {refused, refused ? answer.refused().reason() : answer.ShortDebugString()};
}

int connected(const std::string& text) {
  const Address address = parse_address(text).value();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  const int link = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(link, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    ::close(link);
    return -1;
  }
  ::fcntl(link, F_SETFL, O_NONBLOCK);
  return link;
}

// Until a step is neither of those that wait.
TlsStream::Step finish(int link, const std::function<TlsStream::Step()>& step) {
  while (true) {
    const TlsStream::Step now = step();
    const bool reads = now == TlsStream::Step::kWantRead;
    if (!reads && now != TlsStream::Step::kWantWrite) return now;
    pollfd wait{link, static_cast<short>(reads ? POLLIN : POLLOUT), 0};
    if (::poll(&wait, 1, 10'000) != 1) return TlsStream::Step::kFailed;
  }
}

// A hello over a link that our side has no objection to; what comes back.
Attempt greet(TlsStream& tls, int link, const std::vector<std::string>& words) {
  if (finish(link, [&] { return tls.handshake(); }) != TlsStream::Step::kDone) {
    return {true, "handshake: " + tls.error()};
  }
  Hello hello;
  hello.canonical = kernels::kCanonicalVersion;
  hello.node = words[2];
  hello.stage =
      words[3] == "c" ? Hello::kCoordinatorStage : static_cast<std::uint32_t>(std::stoul(words[3]));
  const Bytes payload = encode(hello);
  Bytes frame = encode_header(FrameType::kHello, payload.size());
  frame.insert(frame.end(), payload.begin(), payload.end());
  std::size_t done = 0;
  if (finish(link, [&] { return tls.records().write(frame, false, done); }) !=
      TlsStream::Step::kDone) {
    return {true, "handshake: " + tls.records().error()};
  }
  Bytes heard(4096);
  if (finish(link, [&] { return tls.records().read(heard, done); }) != TlsStream::Step::kDone) {
    return {true,
            "handshake: " + (tls.records().error().empty() ? "closed" : tls.records().error())};
  }
  heard.resize(done);
  if (heard.size() < kFrameHeaderBytes) return {false, "half a frame"};
  const auto header = decode_header(ByteSpan(heard).first(kFrameHeaderBytes));
  const bool refused = header.ok() && header->type == FrameType::kRefused;
  return {refused, decode_refused(ByteSpan(heard).subspan(kFrameHeaderBytes))};
}

Attempt data(const std::vector<std::string>& words) {
  const auto anybody = [](const PublicKey&) { return ok_status(); };
  const auto context = TlsContext::make(identity_of(words[1]), anybody).value();
  const int link = connected(words[0]);
  if (link < 0) return {true, "no connection"};
  Attempt attempt;
  {
    TlsStream tls(*context, link, TlsStream::Side::kClient, std::size_t{1} << 30);
    attempt = greet(tls, link, words);
  }
  ::close(link);
  return attempt;
}

// Tells every worker that comes the rosters of files, in turn.
class FalseCoordinator final : public TransportEvents {
 public:
  FalseCoordinator(Transport& links, std::vector<Bytes> rosters, int times)
      : links_(links), rosters_(std::move(rosters)), times_(times) {}
  void on_link_open(LinkId, bool) override {}
  void on_link_closed(LinkId, const Error&) override {}
  void on_frame(LinkId link, Frame) override {
    if (told) return;
    control::v1::CoordinatorMessage registered;
    registered.mutable_registered()->set_heartbeat_milliseconds(100);
    tell(link, registered);
    for (int i = 0; i < times_; ++i) {
      for (const Bytes& roster : rosters_) {
        control::v1::CoordinatorMessage message;
        message.mutable_roster()->set_roster(roster.data(), roster.size());
        tell(link, message);
      }
    }
    told = true;
  }

  std::atomic<bool> told{false};

 private:
  void tell(LinkId link, const control::v1::CoordinatorMessage& message) {
    const std::string text = message.SerializeAsString();
    const ByteSpan bytes = as_bytes(text);
    (void)links_.send(link, {FrameType::kControl, Bytes(bytes.begin(), bytes.end())}).ok();
  }
  Transport& links_;
  const std::vector<Bytes> rosters_;
  const int times_;
};

Bytes file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ByteSpan bytes = as_bytes(text);
  return Bytes(bytes.begin(), bytes.end());
}

int send_rosters(const std::vector<std::string>& words) {
  const Bytes newest = file_bytes(words[2]);
  const auto book = std::make_shared<RosterBook>(parse_roster(newest).value().cluster);
  if (!book->offer(newest).ok()) return 2;
  std::vector<Bytes> rosters;
  for (std::size_t i = 4; i < words.size(); ++i) rosters.push_back(file_bytes(words[i]));
  testing::Owner owner;
  coordinator::ControlOptions options;
  options.address = words[0];
  options.identity = identity_of(words[1]);
  options.roster = book;
  std::unique_ptr<coordinator::ControlService> links;
  std::unique_ptr<FalseCoordinator> events;
  owner.call([&] {
    links = coordinator::ControlService::open(options, owner.poster()).value();
    events = std::make_unique<FalseCoordinator>(*links, rosters, std::stoi(words[3]));
    links->set_events(events.get());
  });
  for (int i = 0; i < 600 && !events->told; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));  // they are on their way
  owner.call([&] { links.reset(); });
  return events->told ? 0 : 2;
}

int forge(const std::vector<std::string>& words) {
  Roster roster = parse_roster(file_bytes(words[1])).value();
  roster.number = std::stoull(words[2]);
  roster.entries.push_back({SecretKey::generate().public_key(), "spy", Role::kWorker, {}});
  const Bytes made = sign_roster(std::move(roster), read_key_file(words[0]).value()).value();
  return write_private_file(words[3], made).ok() ? 0 : 2;
}

int write_identity(const std::vector<std::string>& words) {
  const TlsIdentity identity = identity_of(words[0]);
  const std::string text = identity.certificate + identity.private_key;
  return write_private_file(words[1], as_bytes(text)).ok() ? 0 : 2;
}

int run(const std::vector<std::string>& words) {
  const std::string kind = words[0];
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (kind == "rosters") return send_rosters(rest);
  if (kind == "forge") return forge(rest);
  if (kind == "identity") return write_identity(rest);
  const auto attempt = kind == "enrol"     ? enrol
                       : kind == "session" ? session
                       : kind == "leave"   ? leave
                       : kind == "knock"   ? knock
                                           : data;
  for (int i = 0; i < std::stoi(rest.back()); ++i) {
    const Attempt one = attempt(rest);
    const nlohmann::json line = {{"refused", one.refused}, {"heard", one.heard}};
    std::printf("%s\n",
                line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    std::this_thread::sleep_for(kPause);
  }
  return 0;
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
  return hearth::run(std::vector<std::string>(argv + 1, argv + argc));
}
