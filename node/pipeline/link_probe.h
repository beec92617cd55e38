// LinkProbe: measures the round trip and the bytes a second in each direction to another node. It
// sends pings over its own data link, which the far transport answers once it has received all of
// them (proto/link/rate_trial.h).
//
// Threads: everything on the main thread.
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

  // Only this probe uses `transport`.
  LinkProbe(Transport& transport, const Clock& clock);

  // `done` is called once, never inside this call. kUnavailable when no link to the node opens,
  // also because another key answers; kTimeout without an answer in time, or when another start()
  // comes first; kRefused when the node refuses.
  void start(std::string node, const std::string& route, Done done);
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
