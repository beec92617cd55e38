// FakeTransport: records what is sent and lets a test play the network. FakeClock stands still.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"

namespace hearth::testing {

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  std::int64_t unix_seconds() const override {
    return 1'700'000'000 + std::chrono::duration_cast<std::chrono::seconds>(now_ - kBegin).count();
  }
  void advance(Duration pause) { now_ += pause; }

 private:
  static constexpr TimePoint kBegin = std::chrono::hours(1);
  TimePoint now_ = kBegin;
};

class FakeTransport final : public Transport {
 public:
  void set_events(TransportEvents* events) override { events_ = events; }
  LinkId connect(std::string_view address) override {
    const LinkId link(next_++);
    dialled.emplace_back(link, std::string(address));
    return link;
  }
  Status send(LinkId link, Frame&& frame) override {
    if (full.contains(link)) return Error{ErrorCode::kNoCapacity, "full"};
    sent[link].push_back(std::move(frame));
    return ok_status();
  }
  void close(LinkId link) override { closed.insert(link); }
  std::string address() const override { return own_address; }

  TransportEvents& events() { return *events_; }
  // A peer dials us.
  LinkId incoming() {
    const LinkId link(next_++);
    events_->on_link_open(link, true);
    return link;
  }
  // The newest link that was dialled to `address`; it opens.
  LinkId open(const std::string& address) {
    for (auto it = dialled.rbegin(); it != dialled.rend(); ++it) {
      if (it->second != address) continue;
      events_->on_link_open(it->first, false);
      return it->first;
    }
    return LinkId();
  }
  // A peer is who its first message says, unless the test has put another name into `peers`.
  std::optional<RosterEntry> peer(LinkId link) const override {
    const auto found = peers.find(link);
    return found == peers.end() ? std::nullopt : found->second;
  }
  std::string host(LinkId link) const override {
    const auto found = hosts.find(link);
    return found == hosts.end() ? "" : found->second;
  }
  void receive(LinkId link, FrameType type, Bytes payload) {
    introduce(link, type, payload);
    events_->on_frame(link, {type, std::move(payload)});
  }
  void lose(LinkId link, std::string_view why = "connection reset") {
    events_->on_link_closed(link, {ErrorCode::kUnavailable, std::string(why)});
  }

  std::string own_address = "here:1";
  std::map<LinkId, std::vector<Frame>> sent;
  std::vector<std::pair<LinkId, std::string>> dialled;
  std::set<LinkId> closed;
  std::set<LinkId> full;
  std::map<LinkId, std::optional<RosterEntry>> peers;
  std::map<LinkId, std::string> hosts;

 private:
  void introduce(LinkId link, FrameType type, const Bytes& payload) {
    if (type == FrameType::kHello) {
      const auto hello = decode_hello(payload);
      if (!hello.ok()) return;
      const bool coordinator = hello->stage == Hello::kCoordinatorStage;
      const Role role = coordinator ? Role::kCoordinator : Role::kWorker;
      peers.try_emplace(link, RosterEntry{{}, hello->node, role, {}});
    }
    control::v1::WorkerMessage message;
    if (type != FrameType::kControl ||
        !message.ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
        !message.has_register_()) {
      return;
    }
    peers.try_emplace(link, RosterEntry{{}, message.register_().node(), Role::kWorker, {}});
  }

  TransportEvents* events_ = nullptr;
  std::uint64_t next_ = 1;
};

}  // namespace hearth::testing
