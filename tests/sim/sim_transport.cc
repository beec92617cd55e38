#include "tests/sim/sim_transport.h"

#include <algorithm>
#include <cstring>

namespace hearth::sim {
namespace {

constexpr std::size_t kPastFrames = 16;
constexpr Duration kPartitionPoll = std::chrono::milliseconds(20);
constexpr Duration kHeldBack =
    std::chrono::milliseconds(5);  // when no frame comes to go ahead of it
constexpr Duration kSilence = std::chrono::milliseconds(1'500);  // as TcpOptions::silence

Error unavailable(std::string why) { return {ErrorCode::kUnavailable, std::move(why)}; }

}  // namespace

SimTransport::SimTransport(SimNetwork& network, SimWorld& world, std::string host,
                           std::string address)
    : network_(network),
      world_(world),
      host_(std::move(host)),
      address_(std::move(address)),
      id_(network.next_endpoint_++) {
  network_.endpoints_[id_] = this;
}

SimTransport::~SimTransport() {
  network_.endpoints_.erase(id_);
  for (const auto& [key, link] : std::map(network_.links_)) {
    if (link->endpoint[0] == id_ || link->endpoint[1] == id_) {
      network_.break_link(link, "the process at the other end died");
    }
  }
}

LinkId SimTransport::connect(std::string_view address) {
  const LinkId id(network_.next_link_++);
  network_.dial(*this, id, std::string(address));
  return id;
}

Status SimTransport::send(LinkId id, Frame&& frame) {
  const auto found = network_.ends_.find(id);
  if (found == network_.ends_.end()) return ok_status();
  const auto& [link, end] = found->second;
  if (!link->usable[end] || !link->open[end]) return ok_status();
  const int towards = 1 - end;
  const std::size_t bytes = frame.payload.size() + kFrameHeaderBytes;
  const std::size_t under_way = link->under_way[towards];
  const bool data = frame.type != FrameType::kControl;
  if (data && under_way > 0 && under_way + bytes > network_.options_.queue_bytes) {
    return Error{ErrorCode::kNoCapacity, "the send queue is full"};
  }
  link->under_way[towards] += bytes;
  network_.send(link, towards, std::move(frame));
  return ok_status();
}

void SimTransport::close(LinkId id) {
  const auto found = network_.ends_.find(id);
  if (found == network_.ends_.end()) return;
  const auto [link, end] = found->second;
  if (!link->usable[end]) return;
  link->usable[end] = false;
  network_.tell_closed(link, end, {ErrorCode::kCancelled, "closed by us"});
  network_.tell_closed(link, 1 - end, unavailable("closed by the peer"));
}

std::optional<RosterEntry> SimTransport::peer(LinkId id) const {
  const auto found = network_.ends_.find(id);
  if (found == network_.ends_.end()) return std::nullopt;
  const auto& [link, end] = found->second;
  const std::string& host = link->host[1 - end];
  const auto key = network_.keys_.find(host);
  return RosterEntry{key != network_.keys_.end() ? key->second : PublicKey(),
                     host,
                     host == "coordinator" ? Role::kCoordinator : Role::kWorker,
                     {}};
}

SimTransport* SimNetwork::find(std::uint64_t endpoint) const {
  const auto found = endpoints_.find(endpoint);
  return found == endpoints_.end() ? nullptr : found->second;
}

SimTransport* SimNetwork::find(const std::string& address) const {
  for (const auto& [id, transport] : endpoints_) {
    if (transport->address_ == address) return transport;
  }
  return nullptr;
}

void SimNetwork::plan(const LinkPtr& link, int towards, std::function<void()> what) {
  const TimePoint natural =
      world_.now() + world_.microseconds(options_.delay_low_us, options_.delay_high_us);
  link->last[towards] = std::max({natural, link->last[towards], link->clogged_until});
  link->events[towards].push_back({link->last[towards], std::move(what)});
  world_.at(link->last[towards], [this, link, towards] { pump(link, towards); });
}

// What a partition holds back stays in order with everything behind it.
void SimNetwork::pump(const LinkPtr& link, int towards) {
  std::deque<Event>& events = link->events[towards];
  while (!events.empty() && events.front().due <= world_.now()) {
    const bool cut = partitioned_.contains(link->host[0]) || partitioned_.contains(link->host[1]);
    if (cut || frozen_.contains(link->host[towards])) {
      return world_.after(kPartitionPoll, [this, link, towards] { pump(link, towards); });
    }
    const std::function<void()> what = std::move(events.front().what);
    events.pop_front();
    what();
  }
}

void SimNetwork::dial(SimTransport& from, LinkId id, const std::string& address) {
  auto link = std::make_shared<Link>();
  link->endpoint[0] = from.id_;
  link->id[0] = id;
  link->usable[0] = true;
  link->name = from.host_ + ">" + address;
  link->data = address.find(":data") != std::string::npos;
  links_[id.value] = link;
  ends_[id] = {link, 0};
  link->host[0] = from.host_;
  plan(link, 1, [this, link, address] { accept(link, address); });
}

void SimNetwork::accept(const LinkPtr& link, std::string address) {
  const SimTransport* from = find(link->endpoint[0]);
  SimTransport* to = find(address);
  if (from == nullptr || !link->usable[0]) return;
  if (to == nullptr || partitioned_.contains(to->host_)) {
    return tell_closed(link, 0, unavailable("no node answers at " + address));
  }
  if (frozen_.contains(to->host_)) {
    return world_.after(kPartitionPoll, [this, link, address] { accept(link, address); });
  }
  link->heard[0] = link->heard[1] = world_.now();
  link->endpoint[1] = to->id_;
  link->host[1] = to->host_;
  link->id[1] = LinkId(next_link_++);
  link->usable[1] = true;
  link->open[1] = true;
  ends_[link->id[1]] = {link, 1};
  world_.trace("open " + link->name);
  to->events_->on_link_open(link->id[1], true);
  plan(link, 0, [this, link] {
    SimTransport* dialler = find(link->endpoint[0]);
    if (dialler == nullptr || !link->usable[0] || link->broken) return;
    link->open[0] = true;
    dialler->events_->on_link_open(link->id[0], false);
  });
}

void SimNetwork::send(const LinkPtr& link, int towards, Frame frame) {
  const bool data = frame.type == FrameType::kBatch || frame.type == FrameType::kTokens;
  if (data && std::exchange(link->behind, false)) {
    world_.trace("held back a frame on " + link->name);
    link->held[towards] = std::move(frame);
    return world_.after(kHeldBack, [this, link, towards] { release_held(link, towards); });
  }
  if (data && std::exchange(link->twice, false)) {
    world_.trace("twice a frame on " + link->name);
    link->under_way[towards] += frame.payload.size() + kFrameHeaderBytes;
    deliver(link, towards, Frame(frame));
  }
  deliver(link, towards, std::move(frame));
  release_held(link, towards);
}

void SimNetwork::release_held(const LinkPtr& link, int towards) {
  if (!link->held[towards]) return;
  Frame frame = std::move(*link->held[towards]);
  link->held[towards].reset();
  deliver(link, towards, std::move(frame));
}

void SimNetwork::deliver(const LinkPtr& link, int towards, Frame frame) {
  const std::size_t bytes = frame.payload.size() + kFrameHeaderBytes;
  const bool data = frame.type == FrameType::kBatch || frame.type == FrameType::kTokens;
  if (data) link->carried.insert(frame.type);
  if (data && world_.chance(5)) {
    if (past_.size() < kPastFrames) {
      past_.push_back(frame);
    } else {  // young and old ones alike
      past_[world_.between(0, kPastFrames - 1)] = frame;
    }
  }
  plan(link, towards, [this, link, towards, bytes, frame = std::move(frame)] {
    SimTransport* to = find(link->endpoint[towards]);
    if (to == nullptr || link->broken || !link->usable[towards]) return;
    link->under_way[towards] -= bytes;
    world_.trace("frame " + std::to_string(static_cast<int>(frame.type)) + " of " +
                 std::to_string(bytes) + " on " + link->name + (towards == 1 ? "" : " back"));
    to->events_->on_frame(link->id[towards], frame);
  });
}

void SimNetwork::break_link(const LinkPtr& link, const std::string& why) {
  if (link->broken) return;
  link->broken = true;
  world_.trace("broken " + link->name);
  for (const int end : {0, 1}) tell_closed(link, end, unavailable(why));
}

// An end hears of its link's end once, after whatever was delivered to it before.
void SimNetwork::tell_closed(const LinkPtr& link, int end, const Error& why) {
  auto tell = [this, link, end, why] {
    if (ends_.erase(link->id[end]) == 0) return;
    link->usable[end] = false;
    if (!ends_.contains(link->id[1 - end])) links_.erase(link->id[0].value);
    SimTransport* to = find(link->endpoint[end]);
    if (to != nullptr) to->events_->on_link_closed(link->id[end], why);
  };
  // What an end did itself it hears through no network.
  if (why.code == ErrorCode::kCancelled || why.code == ErrorCode::kTimeout)
    return world_.after(Duration(1), tell);
  plan(link, end, tell);
}

std::vector<SimNetwork::LinkPtr> SimNetwork::open_links() const {
  std::vector<LinkPtr> open;
  for (const auto& [id, link] : links_) {
    if (link->open[0] && link->usable[0] && link->usable[1] && !link->broken) open.push_back(link);
  }
  return open;
}

// What is under way holds its link, which holds what is under way.
SimNetwork::~SimNetwork() {
  for (const auto& [id, end] : ends_) {
    for (auto& events : end.first->events) events.clear();
  }
}

void SimNetwork::break_a_link() {
  const std::vector<LinkPtr> open = open_links();
  if (!open.empty()) break_link(open[world_.between(0, open.size() - 1)], "connection reset");
}

void SimNetwork::clog_a_link(Duration how_long) {
  const std::vector<LinkPtr> open = open_links();
  if (open.empty()) return;
  const LinkPtr link = open[world_.between(0, open.size() - 1)];
  world_.trace("clogged " + link->name);
  link->clogged_until = world_.now() + how_long;
}

void SimNetwork::partition(const std::string& host) {
  world_.trace("partitioned " + host);
  partitioned_.insert(host);
}

void SimNetwork::freeze(const std::string& host) {
  world_.trace("frozen " + host);
  frozen_.insert(host);
}

void SimNetwork::thaw(const std::string& host) {
  world_.trace("thawed " + host);
  frozen_.erase(host);
  for (const auto& [id, link] : links_) {
    for (const int end : {0, 1}) {
      if (link->host[end] == host) link->heard[end] = world_.now();  // it was we who did not listen
    }
  }
}

void SimNetwork::disturb_a_link(bool twice) {
  std::vector<LinkPtr> links = open_links();
  std::erase_if(links, [](const LinkPtr& link) { return link->carried.empty(); });
  if (links.empty()) return;
  const LinkPtr link = links[world_.between(0, links.size() - 1)];
  (twice ? link->twice : link->behind) = true;
}

void SimNetwork::undisturb() {
  for (const auto& [id, link] : links_) link->twice = link->behind = false;
}

void SimNetwork::on_timer() {
  for (const auto& [id, link] : std::map(links_)) {
    if (!link->data || link->broken || !link->open[0] || !link->open[1]) continue;
    for (const int end : {0, 1}) listen(link, end);
  }
}

// Signs of life come as long as the way is free and the far end is awake.
void SimNetwork::listen(const LinkPtr& link, int end) {
  const bool cut = partitioned_.contains(link->host[0]) || partitioned_.contains(link->host[1]);
  const bool clogged = link->clogged_until > world_.now();
  if (!cut && !clogged && !frozen_.contains(link->host[1 - end])) link->heard[end] = world_.now();
  const bool silent = world_.now() - link->heard[end] > kSilence;
  if (!silent || frozen_.contains(link->host[end]) || !link->usable[end]) return;
  world_.trace("silent " + link->name);
  link->usable[end] = false;
  tell_closed(link, end, {ErrorCode::kTimeout, "the peer sent nothing"});
  tell_closed(link, 1 - end, unavailable("closed by the peer"));
}

bool SimNetwork::replay_a_frame(Epoch before) {
  std::vector<const Frame*> old;
  for (const Frame& frame : past_) {
    std::uint64_t epoch = 0;  // the first field of either message
    std::memcpy(&epoch, frame.payload.data(), sizeof(epoch));
    if (Epoch(epoch) < before) old.push_back(&frame);
  }
  if (old.empty()) return false;
  const Frame& frame = *old[world_.between(0, old.size() - 1)];
  std::vector<LinkPtr> links = open_links();
  std::erase_if(links, [&](const LinkPtr& link) { return !link->carried.contains(frame.type); });
  if (links.empty()) return false;
  const LinkPtr link = links[world_.between(0, links.size() - 1)];
  world_.trace("replayed a frame on " + link->name);
  link->under_way[1] += frame.payload.size() + kFrameHeaderBytes;
  deliver(link, 1, Frame(frame));
  return true;
}

}  // namespace hearth::sim
