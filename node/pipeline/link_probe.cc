#include "node/pipeline/link_probe.h"

#include <algorithm>
#include <utility>

namespace hearth::node {
namespace {

constexpr Duration kPatience = std::chrono::seconds(8);  // with all of it
constexpr std::uint32_t kRoundTrips = 8;                 // the quickest counts
constexpr double kLeast = 1e-6;                          // seconds: nothing on a link is quicker

}  // namespace

LinkProbe::LinkProbe(Transport& transport, const Clock& clock)
    : transport_(transport), clock_(clock) {
  transport_.set_events(this);
}

void LinkProbe::start(std::string node, const std::string& address, Done done) {
  // The measurement under way ends; its `done` gets an error that another one has begun.
  if (step_ != Step::kIdle)
    finish(Error{ErrorCode::kUnavailable, "replaced by the measurement of another link"});
  step_ = Step::kDialling;
  node_ = std::move(node);
  done_ = std::move(done);
  rate_ = {};
  round_trips_ = 0;
  deadline_ = clock_.now() + kPatience;
  link_ = transport_.connect(address);
}

void LinkProbe::on_timer() {
  if (step_ == Step::kIdle || clock_.now() < deadline_) return;
  finish(Error{ErrorCode::kUnavailable, "the node did not answer in time"});
}

void LinkProbe::on_link_open(LinkId link, bool incoming) {
  if (incoming || link != link_ || step_ != Step::kDialling) return transport_.close(link);
  const Status peer = check_peer(transport_, link, node_, Role::kWorker);
  if (!peer.ok()) return finish(peer.error());
  send(Step::kRoundTrips, 1, {});
}

void LinkProbe::on_link_closed(LinkId link, const Error& why) {
  if (link != link_ || step_ == Step::kIdle) return;
  finish(Error{ErrorCode::kUnavailable, why.message});
}

void LinkProbe::on_frame(LinkId link, Frame frame) {
  if (link != link_ || step_ == Step::kIdle) return;
  if (frame.type == FrameType::kRefused) {
    return finish(Error::of(ErrorCode::kRefused,
                            "the node refused the link: ", decode_refused(frame.payload)));
  }
  if (frame.type != FrameType::kPong || awaited_ == 0) return;
  if (frame.payload.size() != answer_bytes_) {
    return finish(Error::invalid("the node answered a ping with ", frame.payload.size(),
                                 " bytes instead of ", answer_bytes_));
  }
  if (--awaited_ == 0) answered();
}

void LinkProbe::send(Step step, std::uint32_t pieces, const Ping& ping) {
  step_ = step;
  awaited_ = pieces;
  answer_bytes_ = ping.answer_bytes;
  sent_at_ = clock_.now();
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const Status sent = transport_.send(link_, {FrameType::kPing, encode(ping)});
    if (!sent.ok()) return finish(sent.error());
  }
}

double LinkProbe::spent() const {
  return std::max(kLeast, std::chrono::duration<double>(clock_.now() - sent_at_).count());
}

void LinkProbe::send_rate() {
  const RateTrial::Pings pings = trial_.next();
  send(step_, pings.count, step_ == Step::kTo ? Ping{0, pings.bytes} : Ping{pings.bytes, 0});
}

void LinkProbe::took_rate() {
  const bool enough = trial_.took(spent() - rate_.round_trip_seconds);
  if (!enough) return send_rate();
  if (step_ == Step::kFrom) {
    rate_.from_bytes_per_second = trial_.bytes_per_second();
    return finish(rate_);
  }
  rate_.to_bytes_per_second = trial_.bytes_per_second();
  step_ = Step::kFrom;
  trial_ = {};
  send_rate();
}

void LinkProbe::answered() {
  if (step_ != Step::kRoundTrips) return took_rate();
  rate_.round_trip_seconds =
      round_trips_ == 0 ? spent() : std::min(rate_.round_trip_seconds, spent());
  if (++round_trips_ < kRoundTrips) return send(Step::kRoundTrips, 1, {});
  step_ = Step::kTo;
  trial_ = {};
  send_rate();
}

void LinkProbe::finish(Result<LinkRate> result) {
  step_ = Step::kIdle;
  awaited_ = 0;
  transport_.close(std::exchange(link_, LinkId()));
  const Done done = std::exchange(done_, nullptr);
  if (done) done(std::move(result));
}

}  // namespace hearth::node
