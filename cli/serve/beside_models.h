// BesideModels: what a server of several models loads beside the current one. Each such model has
// local workers, a data transport and a control port on loopback of its own, so that no session
// reaches the coordinator of another model. Decisions: docs/decisions/several-models.md.
//
// Threads: everything on the main thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "cli/process/children.h"
#include "cli/serve/offered_models.h"
#include "cli/serve/serve.h"
#include "coordinator/control/service.h"
#include "coordinator/coordinator.h"
#include "coordinator/machine/model_switch.h"
#include "proto/link/tcp_transport.h"

namespace hearth::cli {

class BesideModels {
 public:
  // What the references and pointers name outlives this object.
  struct Wiring {
    boost::asio::io_context& io;
    const Clock& clock;
    Random& random;
    TlsIdentity identity;
    std::shared_ptr<const RosterBook> roster;
    coordinator::Membership* membership = nullptr;
    bool in_cluster = false;
    const std::vector<OfferedModel>& models;
    const std::uint32_t& current;  // of them
    const ServeOptions& options;
  };

  explicit BesideModels(Wiring wiring);
  ~BesideModels();

  // Whether local workers may hold a second model here: they compute on processors.
  static bool are_possible(const ServeOptions& options);

  // Sets what these options ask of this object, but for load_beside.
  void wire(coordinator::ModelSwitch::Options& options);
  // ModelSwitch::Options. A machine that joined computes nothing of a model beside; so while there
  // is one, only embedding models are loaded beside, and the current model is not one of them.
  coordinator::RoomBeside room(std::uint32_t model, const coordinator::SwarmStatus& now) const;
  bool fits_in_place(std::uint32_t model, const coordinator::SwarmStatus& now) const;
  // kIo: no port is free.
  Result<std::unique_ptr<coordinator::Coordinator>> load(std::uint32_t model,
                                                         coordinator::CoordinatorOptions options);
  // Its coordinator is destroyed already. The workers end; on_timer() kills those that do not.
  void unload(std::uint32_t model);
  void on_timer();
  bool are_workers_ending() const { return !ending_.empty(); }
  // After a newer roster.
  void recheck_peers();
  // Ends all workers, for good.
  void stop();

 private:
  struct Beside {
    std::unique_ptr<TcpTransport> data;
    std::unique_ptr<coordinator::ControlService> control;
    std::unique_ptr<Children> workers;
  };
  struct Ending {
    std::unique_ptr<Children> workers;
    TimePoint kill_at{};
  };
  std::uint64_t free_bytes(const coordinator::SwarmStatus& now) const;
  std::uint64_t untouched_bytes(const coordinator::SwarmStatus& now) const;
  std::uint64_t held_bytes() const;

  const Wiring wiring_;
  std::map<std::uint32_t, Beside> loaded_;
  std::vector<Ending> ending_;
};

}  // namespace hearth::cli
