// LinkProbe: measures the way to another node over a data link of its own, with pings that the
// transport at its far end answers once it has received all of them: round trip, and bytes a second
// each way as the receiver takes them (proto/link/rate_trial.h).
//
// Threads: everything on the owner's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "node/stage_options.h"
#include "proto/link/ping.h"
#include "proto/link/rate_trial.h"
#include "proto/link/transport.h"

namespace hearth::node {

class LinkProbe final : public TransportEvents {
 public:
  using Done = ProbeDone;

  // `transport` is this probe's alone.
  LinkProbe(Transport& transport, const Clock& clock);

  // `done` comes once, never inside this call. kUnavailable when no answer comes in time or another
  // start() comes before; kRefused when the node says so or the key there is another's.
  void start(std::string node, const std::string& address, Done done);
  void on_timer();

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

 private:
  enum class Step { kIdle, kDialling, kRoundTrips, kTo, kFrom };

  void send(Step step, std::uint32_t pieces, const Ping& ping);
  void answered();
  void send_rate();
  void took_rate();
  double spent() const;
  void finish(Result<LinkRate> result);

  Transport& transport_;
  const Clock& clock_;
  Step step_ = Step::kIdle;
  std::string node_;
  Done done_;
  LinkId link_;
  TimePoint deadline_{};
  TimePoint sent_at_{};
  std::uint32_t awaited_ = 0;       // answers
  std::uint32_t answer_bytes_ = 0;  // of each
  std::uint32_t round_trips_ = 0;
  RateTrial trial_;
  LinkRate rate_;
};

}  // namespace hearth::node
