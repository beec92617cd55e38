// The parts of Hearth that systemd starts when this machine restarts.
#pragma once

#include <filesystem>
#include <string>

namespace hearth::cli {

struct Reboot {
  bool systemd = false;   // it runs this machine; in most containers it does not
  bool packaged = false;  // the package has brought the services
  bool server = false;    // hearth-server starts with the machine
  bool worker = false;    // hearth-worker does
};

// `root`: the folder in place of /.
Reboot read_reboot(const std::filesystem::path& root);

enum class Part { kNone, kServer, kWorker };
// The role of this machine in a swarm, according to its data folder.
Part own_part();

// Says what starts again after a reboot and, if `part` does not, the command that changes it. Empty
// without systemd, and on a machine with neither a role nor a service.
std::string reboot_text(const Reboot& reboot, Part part);

}  // namespace hearth::cli
