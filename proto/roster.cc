#include "proto/roster.h"

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth {
namespace {

constexpr std::string_view kRosterMagic = "HEARTHR1";
constexpr std::string_view kRosterPurpose = "hearth roster v1";

Status check_entry(const RosterEntry& entry) {
  TRY_VOID(check_node_name(entry.name));
  REQUIRE(entry.role >= Role::kWorker && entry.role <= Role::kCoordinator, "roster entry ",
          entry.name, " has role ", static_cast<int>(entry.role), "; roles are 1 to 4");
  REQUIRE(entry.addresses.size() <= limits::kRosterAddresses, "roster entry ", entry.name, " has ",
          entry.addresses.size(), " addresses; the limit is ", limits::kRosterAddresses);
  for (const std::string& address : entry.addresses) TRY_VOID(parse_address(address));
  return ok_status();
}

// A signature does not ensure these: entries are in order, so one roster has one encoding, and each
// name means one node.
Status check_entries(const std::vector<RosterEntry>& entries) {
  REQUIRE(entries.size() <= limits::kRosterEntries, "a roster of ", entries.size(),
          " entries; the limit is ", limits::kRosterEntries);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    TRY_VOID(check_entry(entries[i]));
    REQUIRE(i == 0 || entries[i - 1].key < entries[i].key, "roster entry ", entries[i].name,
            " has the key of another or is out of order");
    REQUIRE(names.insert(entries[i].name).second, "two roster entries have the name ",
            entries[i].name);
  }
  return ok_status();
}

Result<RosterEntry> read_entry(ByteReader& reader) {
  RosterEntry entry;
  TRY(entry.key, PublicKey::parse(reader.take(PublicKey::kBytes)));
  const auto role = reader.read<std::uint8_t>();
  REQUIRE(role >= static_cast<std::uint8_t>(Role::kWorker) &&
              role <= static_cast<std::uint8_t>(Role::kCoordinator),
          "role ", role, " of a roster entry is unknown");
  entry.role = static_cast<Role>(role);
  entry.name = as_text(reader.take(reader.read<std::uint8_t>()));
  const auto addresses = reader.read<std::uint8_t>();
  REQUIRE(addresses <= limits::kRosterAddresses, "a roster entry has ", addresses,
          " addresses; the limit is ", limits::kRosterAddresses);
  for (std::uint8_t i = 0; i < addresses; ++i) {
    entry.addresses.emplace_back(as_text(reader.take(reader.read<std::uint16_t>())));
  }
  REQUIRE(!reader.failed(), "a roster ends inside an entry");
  return entry;
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kWorker: return "worker";
    case Role::kClient: return "client";
    case Role::kAdmin: return "admin";
    case Role::kCoordinator: return "coordinator";
  }
  return "unknown";
}

Result<Role> parse_role(std::string_view name) {
  for (const Role role : {Role::kWorker, Role::kClient, Role::kAdmin, Role::kCoordinator}) {
    if (name == role_name(role)) return role;
  }
  return Error::invalid("a role is worker, client, admin or coordinator");
}

const RosterEntry* Roster::find(const PublicKey& key) const {
  const auto found = std::ranges::find(entries, key, &RosterEntry::key);
  return found == entries.end() ? nullptr : &*found;
}

const RosterEntry* Roster::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &RosterEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

Result<Bytes> sign_roster(Roster roster, const SecretKey& key) {
  std::ranges::sort(roster.entries, {}, &RosterEntry::key);
  TRY_VOID(check_entries(roster.entries));
  REQUIRE(roster.number >= 1, "a roster has number 0; numbers begin at 1");
  Bytes out;
  ByteWriter writer(out);
  writer.append(as_bytes(kRosterMagic));
  writer.append(key.public_key().bytes());
  writer.write(roster.number, static_cast<std::uint32_t>(roster.entries.size()));
  for (const RosterEntry& entry : roster.entries) {
    writer.append(entry.key.bytes());
    writer.write(static_cast<std::uint8_t>(entry.role),
                 static_cast<std::uint8_t>(entry.name.size()));
    writer.append(as_bytes(entry.name));
    writer.write(static_cast<std::uint8_t>(entry.addresses.size()));
    for (const std::string& address : entry.addresses) {
      writer.write(static_cast<std::uint16_t>(address.size()));
      writer.append(as_bytes(address));
    }
  }
  writer.append(key.sign(kRosterPurpose, out));
  return out;
}

Result<Roster> parse_roster(ByteSpan bytes) {
  REQUIRE(bytes.size() <= limits::kRosterBytes, "a roster of ", bytes.size(),
          " bytes; the limit is ", limits::kRosterBytes);
  REQUIRE(bytes.size() > kSignatureBytes && as_text(bytes).starts_with(kRosterMagic),
          "the bytes are not a roster: they do not begin with ", kRosterMagic);
  const ByteSpan body = bytes.first(bytes.size() - kSignatureBytes);
  ByteReader reader(body.subspan(kRosterMagic.size()));
  Roster roster;
  TRY(roster.cluster, PublicKey::parse(reader.take(PublicKey::kBytes)));
  // The signature is checked before any other field, counts included.
  REQUIRE(verify(roster.cluster, kRosterPurpose, body, bytes.last(kSignatureBytes)),
          "a roster's signature is not of the cluster key that it names");
  roster.number = reader.read<std::uint64_t>();
  const auto count = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed() && roster.number >= 1, "a roster has no number");
  REQUIRE(count <= limits::kRosterEntries, "a roster of ", count, " entries; the limit is ",
          limits::kRosterEntries);
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY(RosterEntry entry, read_entry(reader));
    roster.entries.push_back(std::move(entry));
  }
  REQUIRE(reader.remaining() == 0, "a roster has ", reader.remaining(),
          " bytes behind its last entry");
  TRY_VOID(check_entries(roster.entries));
  return roster;
}

Offer judge_offer(std::uint64_t number, ByteSpan bytes, std::uint64_t number_in_force,
                  ByteSpan bytes_in_force) {
  if (number > number_in_force) return Offer::kNewer;
  if (number < number_in_force) return Offer::kRollback;
  const bool same =
      std::equal(bytes.begin(), bytes.end(), bytes_in_force.begin(), bytes_in_force.end());
  return same ? Offer::kKnown : Offer::kFork;
}

Result<RosterBook::Offer> RosterBook::offer(ByteSpan bytes) {
  TRY(Roster roster, parse_roster(bytes));
  REQUIRE(roster.cluster == cluster_, "the roster is of another cluster");
  const MutexLock lock(mutex_);
  if (roster_ != nullptr) {
    const Offer offer = judge_offer(roster.number, bytes, roster_->number, bytes_);
    if (offer != Offer::kNewer) return offer;
  }
  roster_ = std::make_shared<const Roster>(std::move(roster));
  bytes_.assign(bytes.begin(), bytes.end());
  return Offer::kNewer;
}

std::shared_ptr<const Roster> RosterBook::roster() const {
  const MutexLock lock(mutex_);
  return roster_;
}

Bytes RosterBook::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

std::optional<RosterEntry> RosterBook::find(const PublicKey& key) const {
  const auto newest = roster();
  const RosterEntry* entry = newest == nullptr ? nullptr : newest->find(key);
  return entry == nullptr ? std::nullopt : std::optional(*entry);
}

std::optional<RosterEntry> RosterBook::find(std::string_view name) const {
  const auto newest = roster();
  const RosterEntry* entry = newest == nullptr ? nullptr : newest->find(name);
  return entry == nullptr ? std::nullopt : std::optional(*entry);
}

}  // namespace hearth
