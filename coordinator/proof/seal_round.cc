#include "coordinator/proof/seal_round.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

std::vector<NodeMessage> messages_of(
    const std::map<std::string, control::v1::CoordinatorMessage>& orders) {
  std::vector<NodeMessage> messages;
  for (const auto& [node, body] : orders) messages.push_back({node, body});
  return messages;
}

}  // namespace

void SealRound::add(Asked asked) {
  const std::uint64_t entry = asked.finding.entry;
  const bool is_new = asked_.emplace(entry, std::move(asked)).second;
  INVARIANT(is_new, "an entry is asked for once in a round");
}

ledger::SealEntry SealRound::seal_own(const AuditCase::Finding& finding, const SecretKey& cluster) {
  const PublicKey& key = cluster.public_key();
  Hash256 salt;
  random_bytes(salt.bytes);
  const Hash256 seal = ledger::seal_of(finding.entry, key, finding.root, salt);
  const ledger::SealEntry said = ledger::sign_seal(finding.entry, seal, key, cluster);
  add({"", key, finding, said, salt});
  return said;
}

const SealRound::Asked* SealRound::find(std::uint64_t entry) const {
  const auto found = asked_.find(entry);
  return found == asked_.end() ? nullptr : &found->second;
}

std::vector<NodeMessage> SealRound::seal_orders() const {
  std::map<std::string, control::v1::CoordinatorMessage> orders;
  for (const auto& [entry, one] : asked_) {
    if (one.node.empty() || one.seal) continue;
    control::v1::AuditedWindow& window = *orders[one.node].mutable_seal_order()->add_windows();
    window.set_request(to_field(one.finding.run));
    window.set_epoch(one.finding.epoch.value);
    window.set_window(one.finding.window);
    window.set_entry(entry);
  }
  return messages_of(orders);
}

std::vector<NodeMessage> SealRound::open_orders() const {
  std::map<std::string, control::v1::CoordinatorMessage> orders;
  for (const auto& [entry, one] : asked_) {
    if (!one.node.empty()) orders[one.node].mutable_open_order()->add_entries(entry);
  }
  return messages_of(orders);
}

Result<ledger::SealEntry> SealRound::take(const std::string& node, const control::v1::Seal& seal,
                                          const PublicKey& cluster) {
  const std::string what = "entry " + std::to_string(seal.entry());
  Asked* asked = &asked_.at(seal.entry());
  INVARIANT(asked->node == node, "a seal is taken from a node that is asked");
  REQUIRE(!asked->seal, what, ": it sealed that already");
  ledger::SealEntry said{seal.entry(), asked->key, {}, {}};
  REQUIRE(read_field(seal.seal(), said.seal.bytes) && read_field(seal.signature(), said.signature),
          what, ": a seal or a signature of a wrong length");
  REQUIRE(ledger::check_seal(said, cluster), what, ": the seal's signature is not the auditor's");
  asked->seal = said;
  return said;
}

Result<ledger::OpeningEntry> SealRound::take(const std::string& node,
                                             const control::v1::Opening& opening) {
  const std::string what = "entry " + std::to_string(opening.entry());
  Asked* asked = &asked_.at(opening.entry());
  INVARIANT(asked->node == node, "an opening is taken from a node that is asked");
  REQUIRE(!asked->is_opened, what, ": it opened that already");
  INVARIANT(asked->seal && asked->is_sealed, "what is opened was sealed in the log");
  ledger::OpeningEntry said{opening.entry(), asked->key, {}, {}};
  REQUIRE(
      read_field(opening.root(), said.root.bytes) && read_field(opening.salt(), said.salt.bytes),
      what, ": a root or a salt of a wrong length");
  REQUIRE(ledger::seal_of(said.receipt, said.auditor, said.root, said.salt) == asked->seal->seal,
          what, ": that is not what it sealed");
  REQUIRE(said.root == asked->finding.root, what, ": that is not what it claimed");
  asked->is_opened = true;
  return said;
}

void SealRound::sealed(std::uint64_t entry) {
  const auto found = asked_.find(entry);
  INVARIANT(found != asked_.end() && found->second.seal, "a seal in the log was asked for");
  found->second.is_sealed = true;
}

bool SealRound::is_all_sealed() const {
  return std::ranges::all_of(asked_, [](const auto& one) { return one.second.is_sealed; });
}

std::vector<ledger::OpeningEntry> SealRound::open_own() {
  std::vector<ledger::OpeningEntry> own;
  for (auto& [entry, one] : asked_) {
    if (!one.node.empty()) continue;
    one.is_opened = true;
    own.push_back({entry, one.key, one.finding.root, one.salt});
  }
  return own;
}

SealRound::Asked SealRound::opened(std::uint64_t entry) {
  const auto found = asked_.find(entry);
  INVARIANT(found != asked_.end() && found->second.seal, "what was opened was sealed");
  Asked asked = std::move(found->second);
  asked_.erase(found);
  return asked;
}

}  // namespace hearth::coordinator
