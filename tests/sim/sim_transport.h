// SimNetwork and SimTransport: links with random delays, ordered each way and interleaved with one
// another at will, which can clog, break, be cut by a partition or end at a frozen host, and bring
// frames twice, out of order, or from the past. As the transport's contract says, a data link from
// which nothing can come is closed after a while.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/link/transport.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {

class SimTransport;

struct NetworkOptions {
  std::uint64_t delay_low_us = 20;
  std::uint64_t delay_high_us = 2'000;
  std::size_t queue_bytes = 1 << 20;  // under way on a data link before send() refuses
};

class SimNetwork {
 public:
  SimNetwork(SimWorld& world, NetworkOptions options) : world_(world), options_(options) {}
  ~SimNetwork();

  // Breaks one open link between two living hosts, chosen at random; both ends hear of it later.
  void break_a_link();
  // Holds back everything on a random link for a while; it arrives afterwards, in order.
  void clog_a_link(Duration how_long);
  // Holds back everything between one host and all others, dialling included, until healed.
  void partition(const std::string& host);
  void heal() { partitioned_.clear(); }
  void heal(const std::string& host) { partitioned_.erase(host); }
  // Delivers nothing to the host, as to a stopped process, until thawed; its links stay.
  void freeze(const std::string& host);
  void thaw(const std::string& host);
  // Sends a data frame of the past once more, on a link that carries frames of its kind. False when
  // no such frame exists. `before`: only frames of an older epoch than that.
  bool replay_a_frame(Epoch before = Epoch(~0ULL));
  // The next frame of a random data link comes twice, or behind the one after it.
  void disturb_a_link(bool twice);
  void undisturb();  // those whose next frame has not come
  // The key that peers of a host see; zeros else: most simulations have no keys.
  void set_key(const std::string& host, const PublicKey& key) { keys_[host] = key; }
  std::size_t links() const { return ends_.size(); }
  // Closes the data links that have been silent for too long; at least every 100 ms.
  void on_timer();

 private:
  friend class SimTransport;
  struct Event {
    TimePoint due;
    std::function<void()> what;
  };
  struct Link {
    std::uint64_t endpoint[2] = {0, 0};  // the one that dialled, the one that accepted
    LinkId id[2];
    std::string host[2];
    bool open[2] = {false, false};    // the end was told that it is open, and not yet of its end
    bool usable[2] = {false, false};  // the end has not closed it
    bool broken = false;
    TimePoint last[2] = {};  // arrival of the latest event towards each end
    std::deque<Event> events[2];
    TimePoint clogged_until{};
    std::size_t under_way[2] = {0, 0};  // bytes towards each end
    std::string name;
    bool data = false;
    std::set<FrameType> carried;
    TimePoint heard[2] = {};  // when something could last come to each end
    bool twice = false;       // the next frame
    bool behind = false;      // likewise
    std::optional<Frame> held[2];
  };
  using LinkPtr = std::shared_ptr<Link>;

  SimTransport* find(std::uint64_t endpoint) const;
  SimTransport* find(const std::string& address) const;
  // Plans an event towards one end, behind all that is planned towards it already.
  void plan(const LinkPtr& link, int towards, std::function<void()> what);
  void pump(const LinkPtr& link, int towards);
  void dial(SimTransport& from, LinkId id, const std::string& address);
  void accept(const LinkPtr& link, std::string address);
  void send(const LinkPtr& link, int towards, Frame frame);
  void deliver(const LinkPtr& link, int towards, Frame frame);
  void release_held(const LinkPtr& link, int towards);
  void listen(const LinkPtr& link, int end);
  void break_link(const LinkPtr& link, const std::string& why);
  void tell_closed(const LinkPtr& link, int end, const Error& why);
  std::vector<LinkPtr> open_links() const;

  SimWorld& world_;
  NetworkOptions options_;
  std::uint64_t next_endpoint_ = 1;
  std::uint64_t next_link_ = 1;
  std::map<std::uint64_t, SimTransport*> endpoints_;
  std::map<std::uint64_t, LinkPtr> links_;  // by the dialler's link id
  std::map<LinkId, std::pair<LinkPtr, int>> ends_;
  std::map<std::string, PublicKey> keys_;
  std::set<std::string> partitioned_;
  std::set<std::string> frozen_;
  std::vector<Frame> past_;  // a few data frames
};

// One listening endpoint of a host. Its destruction is a crash: peers lose their links.
class SimTransport final : public Transport {
 public:
  SimTransport(SimNetwork& network, SimWorld& world, std::string host, std::string address);
  ~SimTransport() override;

  void set_events(TransportEvents* events) override { events_ = events; }
  LinkId connect(std::string_view address) override;
  Status send(LinkId link, Frame&& frame) override;
  void close(LinkId link) override;
  std::string address() const override { return address_; }
  // Hosts are what they are, by SimNetwork::set_key().
  std::optional<RosterEntry> peer(LinkId link) const override;

 private:
  friend class SimNetwork;
  SimNetwork& network_;
  SimWorld& world_;
  std::string host_;
  std::string address_;
  std::uint64_t id_;
  TransportEvents* events_ = nullptr;
};

}  // namespace hearth::sim
