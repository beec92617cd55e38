#include "node/machine/pause_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/limits.h"
#include "base/private_file.h"

namespace hearth::node {
namespace {

constexpr std::string_view kDrains = "{\"drain\":true";
constexpr std::string_view kPauses = "{\"drain\":false";
constexpr std::string_view kUntil = ",\"until\":";

Descriptor open_lock(const std::string& folder) {
  const std::string name = folder + "/pause.lock";
  return Descriptor(::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

std::string text_of(const OwnerOrder& order) {
  return std::string(order.drain ? kDrains : kPauses) + std::string(kUntil) +
         std::to_string(order.until) + "}\n";
}

// Nothing for a text that text_of() never writes.
std::optional<OwnerOrder> parse_order(std::string_view text) {
  OwnerOrder order;
  const std::size_t at = text.find(kUntil);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view until = text.substr(at + kUntil.size());
  order.drain = text.starts_with(kDrains);
  std::from_chars(until.data(), until.data() + until.size(), order.until);
  return text_of(order) == text ? std::optional(order) : std::nullopt;
}

Result<std::optional<OwnerOrder>> read_order(const std::string& path, const char* step) {
  const auto bytes = read_private_file(path, 4 * limits::kKiB);
  if (!bytes.ok() && bytes.error().code == ErrorCode::kNotFound) return std::optional<OwnerOrder>();
  TRY_VOID(bytes);
  const auto order = parse_order(as_text(*bytes));
  REQUIRE(order, path, " is not an order of this program; ", step, " removes it");
  return order;
}

Result<bool> remove_order(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return Error::of(ErrorCode::kIo, "removing ", path, ": ", std::strerror(errno));
}

}  // namespace

std::string pause_file(const std::string& folder) { return folder + "/pause.json"; }

Result<std::optional<OwnerOrder>> read_pause_file(const std::string& folder) {
  return read_order(pause_file(folder), "hearth resume");
}

Status write_pause_file(const std::string& folder, const OwnerOrder& order) {
  TRY_VOID(make_private_folder(folder));
  return write_private_file(pause_file(folder), as_bytes(text_of(order)));
}

Result<bool> remove_pause_file(const std::string& folder) {
  return remove_order(pause_file(folder));
}

Result<std::optional<OwnerOrder>> read_admin_order(const std::string& path) {
  return read_order(path, "hearth resume --node, on the server,");
}

Status write_admin_order(const std::string& path, const std::optional<OwnerOrder>& order) {
  if (order) return write_private_file(path, as_bytes(text_of(*order)));
  TRY_VOID(remove_order(path));
  return ok_status();
}

WorkShare::WorkShare(const std::string& folder) : lock_(open_lock(folder)) {}

void WorkShare::hold(bool wanted) {
  if (!lock_.open() || wanted == held_) return;
  if (::flock(*lock_, wanted ? LOCK_SH | LOCK_NB : LOCK_UN) == 0) held_ = wanted;
}

Result<bool> workers_work(const std::string& folder) {
  const Descriptor lock = open_lock(folder);
  if (!lock.open()) {
    return Error::of(ErrorCode::kIo, "opening ", folder, "/pause.lock: ", std::strerror(errno));
  }
  return ::flock(*lock, LOCK_EX | LOCK_NB) != 0;
}

}  // namespace hearth::node
