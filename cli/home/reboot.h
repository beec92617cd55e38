// What systemd starts of Hearth when this machine starts again.
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
// The part that this machine has in a swarm, as its data folder says.
Part own_part();

// What comes back and, where `part` does not, the command that changes it. Empty where there is
// nothing to say: without systemd, or on a machine that has no part and no service.
std::string reboot_text(const Reboot& reboot, Part part);

}  // namespace hearth::cli
