#include "coordinator/store.h"

#include <array>
#include <utility>

namespace hearth::coordinator {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 3> kRoles = {
    {{Role::kWorker, "worker"}, {Role::kClient, "client"}, {Role::kAdmin, "admin"}}};

}  // namespace

std::string_view role_name(Role role) {
  for (const auto& [each, name] : kRoles) {
    if (each == role) return name;
  }
  return "unknown";
}

std::optional<Role> role_of(std::string_view name) {
  for (const auto& [role, each] : kRoles) {
    if (each == name) return role;
  }
  return std::nullopt;
}

}  // namespace hearth::coordinator
