#include "coordinator/proof/change_book.h"

#include <utility>

#include "base/hex.h"
#include "base/private_file.h"

namespace hearth::coordinator {
namespace {

constexpr std::size_t kHexBytes = 64;
constexpr std::size_t kLineBytes = 2 * kHexBytes + 2;  // the key, a space, the hash, a newline

}  // namespace

Status ChangeBook::open(std::string file) {
  file_ = std::move(file);
  const auto bytes = read_private_file(file_, kKeys * kLineBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return ok_status();
  if (!bytes) return bytes.error();
  std::string_view text = as_text(*bytes);
  REQUIRE(text.size() % kLineBytes == 0, file_ + " was cut; remove it: rm " + file_);
  for (; !text.empty(); text.remove_prefix(kLineBytes)) {
    const std::string_view key = text.substr(0, kHexBytes);
    const std::string_view machine = text.substr(kHexBytes + 1, kHexBytes);
    REQUIRE(from_hex(key) && text[kHexBytes] == ' ' && from_hex(machine) &&
                text[kLineBytes - 1] == '\n',
            file_ + " holds a line that is none of this program; remove it: rm " + file_);
    machines_.insert_or_assign(std::string(key), std::string(machine));
  }
  return ok_status();
}

bool ChangeBook::meet(const PublicKey& key, std::string_view machine) {
  const std::string now = blake2b(as_bytes(machine)).hex();
  const auto known = machines_.find(key.hex());
  if (known == machines_.end()) {
    if (machines_.size() < kKeys) is_new_ = machines_.emplace(key.hex(), now).second;
    return false;
  }
  if (known->second == now) return false;
  known->second = now;
  is_new_ = true;
  return true;
}

Status ChangeBook::store() {
  if (!is_new_ || file_.empty()) return ok_status();
  std::string text;
  for (const auto& [key, machine] : machines_) text += key + " " + machine + "\n";
  TRY_VOID(write_private_file(file_, as_bytes(text)));
  is_new_ = false;
  return ok_status();
}

}  // namespace hearth::coordinator
