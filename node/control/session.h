// ControlSession: the worker's side of the control plane. It dials the coordinator, again after
// every loss, registers, sends heartbeats and passes on the coordinator's orders. It stops dialling
// only when the coordinator has refused this worker for good (refused()).
//
// Threads: everything on the main thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "node/backoff.h"
#include "node/stage_options.h"
#include "proto/away.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"

namespace hearth::node {

class ControlEvents {
 public:
  virtual ~ControlEvents() = default;
  virtual void on_assign(const control::v1::Assign& assign) = 0;
  virtual void on_unassign(Epoch epoch) = 0;
  virtual void on_control_lost() = 0;
  // An order about receipts, audits or disputes: Countersign, SealOrder, OpenOrder, Accusation or
  // SelfCheck, unread.
  virtual void on_proof(const control::v1::CoordinatorMessage& order) = 0;
  virtual void fill_heartbeat(control::v1::Heartbeat& heartbeat) = 0;
};

class ControlSession final : public TransportEvents {
 public:
  ControlSession(const StageOptions& options, std::string data_address, const Clock& clock,
                 Random& random, Transport& transport, ControlEvents& events);

  void dial();
  void on_timer();
  // Sent now, or with the next registration.
  void set_away(std::optional<Away> away);
  // Drops the message while there is no session.
  void send(const control::v1::WorkerMessage& message);
  const std::string& refused() const { return refused_; }
  // Where other ranks reach this worker; empty: it gets no group.
  const std::string& rank_address() const { return rank_address_; }

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

 private:
  enum class State { kWaiting, kDialling, kRegistering, kRegistered, kRefused };

  bool tried_all() const;
  void register_worker();
  void beat();
  void on_registered(const control::v1::Registered& registered);
  void on_roster(const control::v1::RosterUpdate& update);
  void on_hold(const control::v1::Hold& hold);
  void on_probe(const control::v1::Probe& probe);
  void on_forward(const control::v1::Forward& forward);
  void on_checkpoint(const control::v1::CheckpointOffer& offer);
  void on_order(const control::v1::HostOrder& order);
  void on_refused(const control::v1::Refused& refused);
  // Ends the session, reports that to the events if it had begun, and schedules the next attempt.
  void lose(const std::string& why);

  const StageOptions& options_;
  std::string address_;  // the address dialled last
  std::string data_address_;
  const Clock& clock_;
  Transport& transport_;
  ControlEvents& events_;
  Backoff backoff_;
  State state_ = State::kWaiting;
  LinkId link_;
  bool is_patient_ = false;  // in every second round through the addresses
  TimePoint deadline_{};     // the next attempt, or the timeout for a silent coordinator
  TimePoint next_heartbeat_{};
  Duration heartbeat_{};
  std::optional<Away> away_;
  std::uint64_t newest_epoch_ = 0;  // newest assigned epoch
  std::string refused_;
  std::string rank_address_;                // once a coordinator has asked for it
  std::optional<TimePoint> refused_since_;  // first refusal for a reason that may pass
};

}  // namespace hearth::node
