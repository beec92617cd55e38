#include "node/machine/power_supply.h"

#include <fstream>
#include <string>
#include <system_error>

namespace hearth::node {
namespace {

std::string line_of(const std::filesystem::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

}  // namespace

bool on_battery(const std::filesystem::path& folder) {
  bool emptied = false;
  std::error_code error;
  std::filesystem::directory_iterator supplies(folder, error);
  for (; !error && supplies != std::filesystem::directory_iterator(); supplies.increment(error)) {
    const std::filesystem::path& supply = supplies->path();
    const std::string type = line_of(supply / "type");
    if ((type == "Mains" || type == "USB") && line_of(supply / "online") == "1") return false;
    // A mouse has one as well, with the scope "Device".
    if (type != "Battery" || line_of(supply / "scope") == "Device") continue;
    emptied |= line_of(supply / "status") == "Discharging";
  }
  return emptied;
}

}  // namespace hearth::node
