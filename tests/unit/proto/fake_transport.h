// FakeTransport: records what is sent and lets a test play the network. FakeClock stands still.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "proto/transport.h"

namespace hearth::testing {

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  std::int64_t unix_seconds() const override { return 1'700'000'000; }
  void advance(Duration pause) { now_ += pause; }

 private:
  TimePoint now_ = std::chrono::hours(1);
};

class FakeTransport final : public Transport {
 public:
  void set_events(TransportEvents* events) override { events_ = events; }
  LinkId connect(std::string_view address) override {
    const LinkId link(next_++);
    dialled.emplace_back(link, std::string(address));
    return link;
  }
  Status send(LinkId link, Frame frame) override {
    if (full.contains(link)) return Error{ErrorCode::kNoCapacity, "full"};
    sent[link].push_back(std::move(frame));
    return ok_status();
  }
  void close(LinkId link) override { closed.insert(link); }
  std::string address() const override { return "here:1"; }

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
  void receive(LinkId link, FrameType type, Bytes payload) {
    events_->on_frame(link, {type, std::move(payload)});
  }
  void lose(LinkId link) {
    events_->on_link_closed(link, {ErrorCode::kUnavailable, "connection reset"});
  }

  std::map<LinkId, std::vector<Frame>> sent;
  std::vector<std::pair<LinkId, std::string>> dialled;
  std::set<LinkId> closed;
  std::set<LinkId> full;

 private:
  TransportEvents* events_ = nullptr;
  std::uint64_t next_ = 1;
};

}  // namespace hearth::testing
