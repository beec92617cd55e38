#include "node/proof/witness.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/limits.h"
#include "base/private_file.h"
#include "proto/fixed_field.h"

namespace hearth::node {
namespace {

using control::v1::CheckpointOffer;
using control::v1::Cosigned;
using ledger::Judgement;

}  // namespace

Result<ledger::Offer> read_offer(const CheckpointOffer& message) {
  REQUIRE(message.proof_size() <= static_cast<int>(ledger::kProofHashes),
          "an offered checkpoint has a proof of ", message.proof_size(), " hashes; the limit is ",
          ledger::kProofHashes);
  ledger::Offer offer;
  TRY(offer.checkpoint, ledger::parse_checkpoint(as_bytes(message.checkpoint())));
  offer.old_size = message.old_size();
  REQUIRE(read_field(message.old_root(), offer.old_root.bytes),
          "the old root of a checkpoint is not a hash");
  for (const std::string& bytes : message.proof()) {
    Hash256& hash = offer.proof.emplace_back();
    REQUIRE(read_field(bytes, hash.bytes), "a proof contains a field that is not a hash");
  }
  return offer;
}

WitnessBook::WitnessBook(WitnessOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

Result<std::optional<ledger::Checkpoint>> WitnessBook::latest() const {
  const auto bytes = read_private_file(options_.file, limits::kNoteBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) {
    return std::optional<ledger::Checkpoint>();
  }
  if (!bytes) return bytes.error();
  auto checkpoint = ledger::parse_cosigned(*bytes, options_.cluster, options_.key.public_key());
  REQUIRE(checkpoint, options_.file, " is damaged (", checkpoint.error().message,
          "); if you remove the file, the node forgets which checkpoint it cosigned");
  return std::optional(*std::move(checkpoint));
}

Cosigned WitnessBook::answer(const CheckpointOffer& offer) {
  auto taken = take(offer);
  Cosigned answer = taken ? *std::move(taken) : Cosigned();
  if (!taken) answer.set_refused(taken.error().message);
  const bool refuses = !answer.refused().empty();
  if (refuses && !std::exchange(refuses_, refuses)) {
    spdlog::error("{}: does not cosign the ledger: {}", options_.node, answer.refused());
  }
  refuses_ = refuses;
  return answer;
}

Result<Cosigned> WitnessBook::take(const CheckpointOffer& message) {
  TRY(const ledger::Offer offer, read_offer(message));
  TRY(const std::optional<ledger::Checkpoint> before, latest());
  const Judgement judged = ledger::judge(offer, before, options_.cluster);
  Cosigned answer;
  if (before) answer.set_checkpoint(before->text());
  if (judged.kind == Judgement::Kind::kFork) keep_fork(*judged.fork, judged.why);
  answer.set_refused(judged.why);
  if (judged.kind != Judgement::Kind::kExtends) return answer;
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(clock_.unix_seconds(), 0));
  const std::string text = ledger::cosigned_by(offer.checkpoint, now, options_.key).text();
  TRY_VOID(write_private_file(options_.file, as_bytes(text)));
  answer.set_checkpoint(text);
  return answer;
}

// The first proof stays.
void WitnessBook::keep_fork(const ledger::Fork& fork, const std::string& why) {
  const std::string file = options_.file + ".fork";
  const auto there = read_private_file(file, limits::kNoteBytes);
  if (there || there.error().code != ErrorCode::kNotFound) return;
  const Status kept = write_private_file(file, as_bytes(ledger::format_fork(fork)));
  if (kept.ok()) {
    spdlog::error("{}: {}. The proof is in {}; verify it with hearth audit --fork FILE",
                  options_.node, why, file);
  } else {
    spdlog::error("{}: {}. The proof cannot be kept: {}", options_.node, why, kept.error().message);
  }
}

Witness::Witness(WitnessOptions options, const Clock& clock, Post post)
    : post_(std::move(post)), book_(std::move(options), clock) {}

void Witness::ask(CheckpointOffer offer, Done done) {
  if (judging_.valid() && judging_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return;
  }
  judging_ =
      std::async(std::launch::async, [this, offer = std::move(offer), done = std::move(done)] {
        post_([done, answer = book_.answer(offer)] { done(answer); });
      });
}

}  // namespace hearth::node
