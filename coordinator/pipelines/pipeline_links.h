// PipelineLinks: the coordinator's data links, two a pipeline: one dialled to the first stage
// (Submit, Cancel), one accepted from the last (StepTokens). Each begins with a Hello each way; the
// side that dialled speaks first.
//
// Threads: everything on the main thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "proto/link/transport.h"

namespace hearth::coordinator {

class PipelineLinkEvents {
 public:
  virtual ~PipelineLinkEvents() = default;
  // Both links of the pipeline have completed their handshakes.
  virtual void on_pipeline_linked(Epoch epoch) = 0;
  virtual void on_pipeline_frame(Epoch epoch, Frame frame) = 0;
  // `stage`: the stage at the far end of the lost link.
  // `unreached`: no link to the stage opened.
  virtual void on_pipeline_link_lost(Epoch epoch, std::uint32_t stage, const std::string& why,
                                     bool unreached) = 0;
};

class PipelineLinks final : public TransportEvents {
 public:
  // `identity`: our versions and name.
  PipelineLinks(Hello identity, const Clock& clock, Transport& transport,
                PipelineLinkEvents& events);

  // Dials the first stage and expects the last one, by epoch and node name.
  void open(Epoch epoch, std::uint32_t stages, std::string first_address, std::string first_node,
            std::string last_node);
  void close(Epoch epoch);
  bool linked(Epoch epoch) const;
  // Sends to the first stage. Frames for which the transport has no room are kept in order and sent
  // later; the KV reserved for their sequences bounds them.
  void send(Epoch epoch, Frame frame);
  void on_timer();
  // Frames of links that we closed with their epoch; dropped.
  std::uint64_t late_frames() const { return late_frames_; }

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

 private:
  enum class State { kWaiting, kDialling, kGreeted, kOpen };
  struct Ends {
    std::uint32_t stages = 1;
    std::string first_address;
    std::string first_node;
    std::string last_node;
    State first_state = State::kWaiting;
    LinkId first;
    bool first_reached = false;  // a link to it opened
    TimePoint deadline{};        // the next attempt to dial, or this one's timeout
    TimePoint give_up{};         // end of all attempts
    std::deque<Frame> queue;
    bool last_open = false;
    LinkId last;
    bool announced = false;
  };
  struct Stranger {
    TimePoint deadline{};
    bool refused = false;
  };

  void dial(Ends& ends);
  void flush(Ends& ends);
  void on_first_frame(Epoch epoch, Ends& ends, const Frame& frame);
  Status check_answer(Epoch epoch, const Ends& ends, const Frame& frame) const;
  void on_stranger_frame(LinkId link, Stranger& stranger, const Frame& frame);
  Status judge(const Hello& hello) const;
  void refuse(LinkId link, Stranger& stranger, const std::string& why, std::string_view told);
  void first_closed(Epoch epoch, Ends& ends, const std::string& why);
  void announce(Epoch epoch, Ends& ends);
  Hello hello_of(Epoch epoch) const;

  Hello identity_;
  const Clock& clock_;
  Transport& transport_;
  PipelineLinkEvents& events_;
  std::map<Epoch, Ends> ends_;
  std::map<LinkId, Stranger> strangers_;
  std::uint64_t late_frames_ = 0;
};

}  // namespace hearth::coordinator
