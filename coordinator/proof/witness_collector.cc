#include "coordinator/proof/witness_collector.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "proto/fixed_field.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {

std::string entries(const ledger::Checkpoint& checkpoint) {
  return std::to_string(checkpoint.size) + " entries with the root " + checkpoint.root.hex();
}

// Whether the log begins with what this checkpoint signs.
Result<bool> has(ledger::Log& log, const ledger::Checkpoint& held) {
  if (held.size > log.size()) return false;
  TRY(const ledger::Offer own, log.offer(held.size));
  return own.old_root == held.root;
}

}  // namespace

void WitnessCollector::meet(const std::string& node, const PublicKey& key) {
  Witness& witness = witnesses_[node] = {};
  witness.key = key;
  witness.at = clock_.now();
}

// From what the log has of it, before it has said more itself.
void WitnessCollector::offer(const std::string& node, Witness& witness, ledger::Log& log) {
  if (!witness.is_known) {
    const auto kept = log.cosigned().find(witness.key);
    witness.size = kept == log.cosigned().end() ? 0 : kept->second.size;
  }
  witness.is_asked = true;
  witness.at = clock_.now();
  const auto offer = log.offer(witness.size);
  if (!offer) {
    spdlog::error("no checkpoint of the ledger for {} to cosign: {}", node, offer.error().message);
    return;
  }
  ledger::Checkpoint plain = offer->checkpoint;
  std::erase_if(plain.note.signatures, [&plain](const ledger::NoteSignature& line) {
    return line.name != ledger::log_name(plain.log);
  });
  NodeMessage& message = messages_.emplace_back();
  message.node = node;
  auto& body = *message.body.mutable_checkpoint_offer();
  body.set_checkpoint(plain.text());
  body.set_old_size(offer->old_size);
  body.set_old_root(to_field(offer->old_root.bytes));
  for (const Hash256& hash : offer->proof) body.add_proof(to_field(hash.bytes));
}

Status WitnessCollector::on_timer(ledger::Log& log) {
  const TimePoint now = clock_.now();
  for (auto& [node, witness] : witnesses_) {
    const bool is_late = witness.is_asked && now - witness.at >= kPatience;
    const bool is_due =
        !witness.is_asked && now >= witness.at && (!witness.is_known || witness.size < log.size());
    if (fault_.empty() && (is_late || is_due)) offer(node, witness, log);
  }
  if (cosigned_.empty()) return ok_status();
  std::vector<ledger::Checkpoint> some;
  for (auto& [key, checkpoint] : std::exchange(cosigned_, {})) {
    some.push_back(std::move(checkpoint));
  }
  return log.keep_cosigned(some);
}

void WitnessCollector::take(const std::string& node, const control::v1::Cosigned& answer,
                            ledger::Log& log) {
  const auto found = witnesses_.find(node);
  if (found == witnesses_.end() || !found->second.is_asked) return;  // unasked
  Witness& witness = found->second;
  witness.is_asked = false;
  witness.at = clock_.now() + kPause;
  const std::string refused = decode_refused(as_bytes(answer.refused()));
  if (!refused.empty() && !witness.refuses) {
    spdlog::error("{} does not cosign the ledger: {}", node, refused);
  }
  witness.refuses = !refused.empty();
  const Status learnt = learn(node, witness, as_bytes(answer.checkpoint()), log);
  if (!learnt.ok()) spdlog::warn("refused what {} cosigned: {}", node, learnt.error().message);
}

Status WitnessCollector::learn(const std::string& node, Witness& witness, ByteSpan bytes,
                               ledger::Log& log) {
  const bool was_known = std::exchange(witness.is_known, true);
  const std::uint64_t thought = witness.size;
  if (bytes.empty()) {
    witness.size = 0;
    if (thought > 0 && !was_known) {
      spdlog::warn("{} reports no cosigned checkpoint; it had cosigned one of {} entries", node,
                   thought);
      witness.at = clock_.now();
    }
    return ok_status();
  }
  auto held = ledger::parse_cosigned(bytes, cluster_, witness.key);
  if (!held) return held.error();
  TRY(const bool is_ours, has(log, *held));
  if (!is_ours) {
    contradicted(node, witness, *held, log);
    return ok_status();
  }
  // Offered from elsewhere than where it is: at once again, but only the first time.
  if (held->size != log.size() && !was_known && held->size != thought) witness.at = clock_.now();
  witness.size = held->size;
  const auto kept = log.cosigned().find(witness.key);
  const bool is_new = kept == log.cosigned().end();
  if (is_new && log.cosigned().size() + cosigned_.size() >= ledger::kWitnesses) return ok_status();
  if (!is_new && kept->second.size >= held->size) return ok_status();
  cosigned_.insert_or_assign(witness.key, *std::move(held));
  return ok_status();
}

void WitnessCollector::contradicted(const std::string& node, Witness& witness,
                                    const ledger::Checkpoint& held, ledger::Log& log) {
  if (fault_.empty()) {
    fault_ = node + " holds a checkpoint of this ledger that this cluster signed, of " +
             entries(held) + "; this folder's log has " + entries(log.checkpoint()) +
             " and does not contain it: the folder is an older copy, or continued from one. "
             "Restore the newest copy of the folder, or serve with --no-receipts";
  }
  // It may have a second checkpoint that we signed.
  witness.size = std::min(held.size, log.size());
  if (held.size < log.size()) offer(node, witness, log);
}

}  // namespace hearth::coordinator
