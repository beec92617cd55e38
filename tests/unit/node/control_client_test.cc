// Both control adapters over real gRPC on loopback, each with an owner's thread of its own.
#include "node/control_client.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "coordinator/control_service.h"

namespace hearth {
namespace {

using coordinator::ControlService;
using node::ControlClient;

// A thread that runs what is posted to it, in order.
class Owner {
 public:
  Owner() : thread_([this] { run(); }) {}
  ~Owner() {
    post([this] { ending_ = true; });
    thread_.join();
  }
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push(std::move(work));
    wake_.notify_one();
  }
  // Runs on the owner's thread and waits for it.
  void call(const std::function<void()>& work) {
    std::mutex mutex;
    std::condition_variable done_cv;
    bool done = false;
    post([&] {
      work();
      const std::lock_guard lock(mutex);
      done = true;
      done_cv.notify_one();
    });
    std::unique_lock lock(mutex);
    done_cv.wait(lock, [&] { return done; });
  }
  std::function<void(std::function<void()>)> poster() {
    return [this](std::function<void()> work) { post(std::move(work)); };
  }

 private:
  void run() {
    while (!ending_) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !queue_.empty(); });
      const auto work = std::move(queue_.front());
      queue_.pop();
      lock.unlock();
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<std::function<void()>> queue_;
  bool ending_ = false;
  std::thread thread_;
};

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
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
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
      client_ = std::make_unique<ControlClient>(client_owner_.poster());
      client_->set_events(&client_events_);
    });
  }
  void TearDown() override {
    client_owner_.call([&] { client_.reset(); });
    stop_service();
  }
  void start_service(const std::string& address) {
    server_owner_.call([&] {
      auto opened = ControlService::open(address, server_owner_.poster());
      ASSERT_TRUE(opened) << opened.error().message;
      service_ = std::move(*opened);
      service_->set_events(&server_events_);
      address_ = service_->address();
    });
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
    server_owner_.call([&] { status = service_->send(link, control(text)); });
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

  Owner server_owner_;
  Owner client_owner_;
  Recorder server_events_{server_owner_};
  Recorder client_events_{client_owner_};
  std::unique_ptr<ControlService> service_;
  std::unique_ptr<ControlClient> client_;
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
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(service_->send(s, control("refused")));
    service_->close(s);
    service_->close(s);
    EXPECT_TRUE(service_->send(s, control("swallowed")));
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
    const LinkId nobody = dial(address_);
    ASSERT_TRUE(client_closed(nobody));
    EXPECT_EQ(client_events_.closed.at(nobody).code, ErrorCode::kUnavailable);
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
      client_ = std::make_unique<ControlClient>(client_owner_.poster());
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

TEST_F(ControlAdapters, OnlyLoopbackAddresses) {
  for (const char* address : {"192.0.2.1:80", "0.0.0.0:0", "[::]:0", "example.org:80"}) {
    const LinkId link = dial(address);
    ASSERT_TRUE(client_closed(link)) << address;
    EXPECT_EQ(client_events_.closed.at(link).code, ErrorCode::kInvalidInput) << address;
    EXPECT_FALSE(ControlService::open(address, server_owner_.poster())) << address;
  }
}

TEST_F(ControlAdapters, APortIsTakenOnce) {
  const auto second = ControlService::open(address_, server_owner_.poster());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
}

TEST_F(ControlAdapters, TheServiceNeverDials) {
  LinkId link;
  server_owner_.call([&] { link = service_->connect(address_); });
  ASSERT_TRUE(server_closed(link));
  EXPECT_EQ(server_events_.closed.at(link).code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace hearth
