#include "coordinator/http/api/kept_requests.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

constexpr int kJsonExactShift = 64 - 53;  // 53 bits pass through every JSON reader unchanged

// The length precedes each part, so no two lists of parts give the same bytes.
Hash256 hash_of(const Hash256& secret, std::initializer_list<std::string_view> parts) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const std::string_view part : parts) {
    writer.write(static_cast<std::uint64_t>(part.size()));
    writer.append(as_bytes(part));
  }
  return keyed_blake2b(secret, bytes);
}

std::string_view text_of(const Hash256& hash) { return as_text(hash.bytes); }

}  // namespace

Hash256 KeptRequests::name(const std::string& owner, std::string_view key) const {
  return hash_of(secret_, {"request", owner, key});
}

Keep KeptRequests::keep(const std::string& owner, std::string_view key, std::string_view path,
                        std::string_view body, std::string_view fingerprint) const {
  return keep(name(owner, key), hash_of(secret_, {"body", path, text_of(blake2b(as_bytes(body)))}),
              owner, fingerprint);
}

Keep KeptRequests::keep(const Hash256& name, const Hash256& digest, std::string owner,
                        std::string_view fingerprint) const {
  Keep out{name, digest, std::move(owner)};
  const std::string_view model = fingerprint.empty() ? std::string_view(fingerprint_) : fingerprint;
  const Hash256 answer = hash_of(secret_, {"answer", text_of(name), text_of(digest), model});
  std::memcpy(&out.answer, answer.bytes.data(), sizeof out.answer);
  std::memcpy(&out.seed, answer.bytes.data() + sizeof out.answer, sizeof out.seed);
  out.seed >>= kJsonExactShift;
  return out;
}

std::optional<KeptRequests::Found> KeptRequests::find(const Hash256& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return Found{found->second.generation, found->second.digest};
}

std::optional<std::size_t> KeptRequests::add(const Keep& keep,
                                             std::shared_ptr<Generation> generation) {
  const auto of_owner = std::count_if(entries_.begin(), entries_.end(), [&](const auto& each) {
    return each.second.owner == keep.owner;
  });
  const bool owner_full =
      !keep.owner.empty() && of_owner >= static_cast<std::ptrdiff_t>(limits::kKeptRequestsOwner);
  if (owner_full && !drop_oldest(&keep.owner)) return limits::kKeptRequestsOwner;
  if (entries_.size() >= limits::kKeptRequests && !drop_oldest(nullptr)) {
    return limits::kKeptRequests;
  }
  entries_.emplace(keep.name, Entry{std::move(generation), keep.digest, keep.owner});
  return std::nullopt;
}

void KeptRequests::finished(const Keep& keep, std::size_t bytes, std::int64_t since) {
  const auto found = entries_.find(keep.name);
  if (found == entries_.end()) return;
  found->second.order = ++order_;
  found->second.bytes = bytes;
  bytes_ += bytes;
  if (journal_) journal_->end(keep.name, since);
  while (bytes_ > limits::kKeptBytes && drop_oldest(nullptr)) {
  }
}

void KeptRequests::remove(const Hash256& name, const Generation* generation) {
  const auto found = entries_.find(name);
  if (found != entries_.end() && found->second.generation.get() == generation) erase(found);
}

void KeptRequests::clear() {
  const Entries entries = std::exchange(entries_, {});
  bytes_ = 0;
}

void KeptRequests::write(const Keep& keep, Bytes request) {
  if (!journal_ || request.size() > limits::kKeptRequestBytes) return;
  journal_->begin({keep.name, keep.digest, keep.owner, 0, std::move(request)});
}

void KeptRequests::write_token(const Keep& keep, std::uint32_t choice, SampledToken token) {
  if (!journal_) return;
  token.sequence = SequenceId(choice);
  journal_->token(keep.name, token);
}

void KeptRequests::remove_row(const Keep& keep) {
  if (journal_) journal_->remove(keep.name);
}

bool KeptRequests::drop_oldest(const std::string* owner) {
  auto oldest = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    const Entry& entry = each->second;
    if (entry.order == 0 || (owner != nullptr && entry.owner != *owner)) continue;
    if (oldest == entries_.end() || entry.order < oldest->second.order) oldest = each;
  }
  if (oldest == entries_.end()) return false;
  erase(oldest);
  return true;
}

void KeptRequests::erase(Entries::iterator entry) {
  const auto generation = std::move(entry->second.generation);  // its destructor may call back
  bytes_ -= entry->second.bytes;
  if (journal_) journal_->remove(entry->first);
  entries_.erase(entry);
}

}  // namespace hearth::coordinator::http
