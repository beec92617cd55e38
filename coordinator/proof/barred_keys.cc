#include "coordinator/proof/barred_keys.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/check.h"
#include "ledger/receipt.h"

namespace hearth::coordinator {

std::string line_of(const std::string& words) {
  constexpr std::size_t kWordsMax = 1'024;
  std::string line = words.substr(0, kWordsMax);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return line;
}

std::string BarredKeys::node_of(const PublicKey& key) const {
  const auto found = std::ranges::find(present_, key, [](const auto& one) { return one.second; });
  return found == present_.end() ? "" : found->first;
}

const PublicKey* BarredKeys::key_of(const std::string& node) const {
  const auto found = present_.find(node);
  return found == present_.end() ? nullptr : &found->second;
}

void BarredKeys::pronounced(const ledger::VerdictEntry& verdict) {
  if (verdict.verdict == ledger::Verdict::kFraud) {
    ended_.insert(verdict.guilty);
  } else if (verdict.verdict == ledger::Verdict::kFault && verdict.guilty != cluster_) {
    quarantine(verdict.guilty, verdict.receipt);
  }
}

void BarredKeys::meet(const std::string& node, const PublicKey& key) {
  present_[node] = key;
  if (quarantined_.contains(key)) send_check(node, key);
  if (is_ended(key) || refused_.contains(key)) send_ended(node, key);
}

void BarredKeys::bar_copier(const std::string& node, const PublicKey& key) {
  if (!refused_.insert(key).second) return;
  send_ended(node, key);
}

void BarredKeys::send_ended(const std::string& node, const PublicKey& key) {
  NodeMessage& message = messages_.emplace_back();
  message.node = node;
  message.body.mutable_ended()->set_why(why_barred(key));
}

void BarredKeys::quarantine(const PublicKey& key, std::uint64_t entry) {
  quarantined_[key] = {entry, 0, clock_.now()};
  if (const std::string node = node_of(key); !node.empty()) send_check(node, key);
}

void BarredKeys::send_check(const std::string& node, const PublicKey& key) {
  INVARIANT(quarantined_.contains(key), "only who is at fault looks at itself");
  Quarantine& one = quarantined_.at(key);
  one.number = next_check_++;
  one.sent = clock_.now();
  NodeMessage& message = messages_.emplace_back();
  message.node = node;
  message.body.mutable_self_check()->set_number(one.number);
  message.body.mutable_self_check()->set_why(why_barred(key));
}

void BarredKeys::on_self_checked(const std::string& node, const control::v1::SelfChecked& found) {
  const auto key = present_.find(node);
  if (key == present_.end()) return;
  const auto one = quarantined_.find(key->second);
  if (one == quarantined_.end() || one->second.number != found.number()) return;
  if (!found.weights_whole() || !found.self_test_passed()) {
    spdlog::error("the self-check of node {} failed: {}", node, line_of(found.what()));
    return;  // asked again in a while: damaged weights are dropped, and read anew
  }
  spdlog::info("the self-check of node {} passed; it may get work again", node);
  quarantined_.erase(one);
}

bool BarredKeys::is_ended(const PublicKey& key) const {
  const ledger::Standing* standing = books_.standing(key);
  return ended_.contains(key) || (standing != nullptr && standing->is_tombstoned());
}

std::string BarredKeys::why_barred(const PublicKey& key) const {
  if (is_ended(key)) {
    return "the ledger shows a fraud by it: its key is barred for good";
  }
  if (refused_.contains(key)) {
    return "in an audit it claimed a result that it had not computed: it gets no work until this "
           "server restarts";
  }
  const auto one = quarantined_.find(key);
  if (one == quarantined_.end()) return "";
  return "a verdict found it at fault (entry " + std::to_string(one->second.entry) +
         " of the ledger): it gets no work until its self-check of weights and kernels passes";
}

std::map<PublicKey, std::string> BarredKeys::barred() const {
  std::map<PublicKey, std::string> all;
  const auto add = [&](const PublicKey& key) {
    if (std::string why = why_barred(key); !why.empty()) all[key] = std::move(why);
  };
  for (const PublicKey& key : books_.keys()) add(key);
  for (const auto& [key, one] : quarantined_) add(key);
  for (const PublicKey& key : refused_) add(key);
  for (const PublicKey& key : ended_) add(key);
  return all;
}

// Whether it was repaired since, no entry says.
void BarredKeys::recall(const ledger::Entry& entry) {
  if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body)) pronounced(*verdict);
}

void BarredKeys::logged(const ledger::Entry& entry) {
  PublicKey guilty;
  if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body)) {
    guilty = verdict->guilty;
  } else if (const auto* two = std::get_if<ledger::EquivocationEntry>(&entry.body)) {
    const auto receipt = ledger::reread_receipt(two->one);
    if (!receipt) return;
    guilty = receipt->worker;
  } else {
    return;
  }
  const std::string node = node_of(guilty);
  if (!is_ended(guilty) || node.empty()) return;
  send_ended(node, guilty);
}

void BarredKeys::on_timer() {
  for (auto& [key, one] : quarantined_) {
    const std::string node = node_of(key);
    if (!node.empty() && clock_.now() - one.sent >= kPatience) send_check(node, key);
  }
}

}  // namespace hearth::coordinator
