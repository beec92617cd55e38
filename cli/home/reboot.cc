#include "cli/home/reboot.h"

#include <system_error>

#include "cli/home/member.h"
#include "cli/home/server_file.h"

namespace hearth::cli {
namespace {

constexpr const char* kServerUnit = "hearth-server.service";
constexpr const char* kWorkerUnit = "hearth-worker.service";

}  // namespace

Reboot read_reboot(const std::filesystem::path& root) {
  std::error_code ignored;
  const auto exists = [&](const char* folder, const char* unit) {
    return std::filesystem::exists(std::filesystem::symlink_status(root / folder / unit, ignored));
  };
  constexpr const char* kEnabled = "etc/systemd/system/multi-user.target.wants";
  Reboot reboot;
  reboot.systemd = exists("run/systemd/system", "");
  reboot.packaged =
      exists("usr/lib/systemd/system", kServerUnit) || exists("lib/systemd/system", kServerUnit);
  reboot.server = exists(kEnabled, kServerUnit);
  reboot.worker = exists(kEnabled, kWorkerUnit);
  return reboot;
}

Part own_part() {
  if (read_server_file("").ok()) return Part::kServer;
  const auto member = read_member_file("");
  const bool works = member.ok() && *member && (*member)->role == Role::kWorker;
  return works ? Part::kWorker : Part::kNone;
}

std::string reboot_text(const Reboot& reboot, Part part) {
  if (!reboot.systemd) return "";
  if (reboot.server && reboot.worker)
    return "hearth-server and hearth-worker start with this machine";
  if (reboot.server && part != Part::kWorker) return "hearth-server starts with this machine";
  if (reboot.worker && part != Part::kServer) return "hearth-worker starts with this machine";
  if (part == Part::kNone) return "";
  const bool serves = part == Part::kServer;
  const std::string what = serves ? "this server" : "this worker";
  const std::string first = what + " does not start with this machine; ";
  if (!reboot.packaged) {
    return first + "the services of the package do: docs/install.md, or deploy/install.sh";
  }
  return first + (serves ? "to have a service: sudo hearth-service init NAME, then sudo systemctl "
                           "enable --now hearth-server"
                         : "to have a service: sudo hearth-service join TOKEN, then sudo systemctl "
                           "enable --now hearth-worker");
}

}  // namespace hearth::cli
