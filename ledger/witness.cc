#include "ledger/witness.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace hearth::ledger {
namespace {

constexpr std::string_view kForkHead = "hearth fork v1\n";

std::string named(const Checkpoint& checkpoint) {
  return std::to_string(checkpoint.size) + " entries with the root " + checkpoint.root.hex();
}

std::string line_of(std::string_view word, ByteSpan bytes) {
  return std::string(word) + " " + base64(bytes) + "\n";
}

// The decoded bytes of the next line, which must begin with this word.
Result<Bytes> take_line(std::string_view& text, std::string_view word) {
  const std::size_t end = text.find('\n');
  REQUIRE(end != std::string_view::npos && text.substr(0, end).starts_with(word) &&
              text.size() > word.size() && text[word.size()] == ' ',
          "a fork's file has no line '", word, "' where it must have one");
  auto bytes = from_base64(text.substr(word.size() + 1, end - word.size() - 1));
  REQUIRE(bytes && !bytes->empty(), "a line '", word, "' of a fork's file holds no base64");
  text.remove_prefix(end + 1);
  return *std::move(bytes);
}

Result<Hash256> take_hash(std::string_view& text, std::string_view word) {
  TRY(const Bytes bytes, take_line(text, word));
  Hash256 hash;
  REQUIRE(bytes.size() == hash.bytes.size(), "a line '", word, "' of a fork's file holds no hash");
  std::copy(bytes.begin(), bytes.end(), hash.bytes.begin());
  return hash;
}

Judgement refused(std::string why) {
  return {Judgement::Kind::kRefused, std::move(why), std::nullopt};
}

Judgement forked(Fork fork) {
  std::string why = "the log has two histories: its key signed " + named(fork.one) + ", and " +
                    named(fork.other) + ", which does not begin with them";
  return {Judgement::Kind::kFork, std::move(why), std::move(fork)};
}

}  // namespace

Result<Checkpoint> parse_cosigned(ByteSpan bytes, const PublicKey& log, const PublicKey& witness) {
  TRY(Checkpoint checkpoint, parse_checkpoint(bytes, ForeignLines::kRefuse));
  REQUIRE(checkpoint.log == log, "a cosigned checkpoint is of another log, ", checkpoint.log.hex(),
          ", not of ", log.hex());
  REQUIRE(checkpoint.cosignatures.size() == 1 && checkpoint.cosignatures[0].witness == witness,
          "a cosigned checkpoint has not the one cosignature of its witness, ", witness.hex());
  return checkpoint;
}

Checkpoint cosigned_by(const Checkpoint& offered, std::uint64_t time, const SecretKey& witness) {
  Checkpoint checkpoint = offered;
  checkpoint.cosignatures.clear();
  std::erase_if(checkpoint.note.signatures, [&offered](const NoteSignature& line) {
    return line.name != log_name(offered.log);
  });
  const NoteSignature line = cosign(checkpoint, time, witness);
  checkpoint.cosignatures.push_back({witness.public_key(), time});
  checkpoint.note.signatures.push_back(line);
  return checkpoint;
}

Status check_fork(const Fork& fork) {
  REQUIRE(fork.one.log == fork.other.log, "the two checkpoints are of two logs");
  REQUIRE(fork.proof.size() <= kProofHashes, "a proof of ", fork.proof.size(),
          " hashes; the limit is ", kProofHashes);
  TRY_VOID(
      check_consistency(fork.one.size, fork.root, fork.other.size, fork.other.root, fork.proof));
  REQUIRE(fork.root != fork.one.root,
          "the one checkpoint is a beginning of the other: both are of one history");
  return ok_status();
}

std::string format_fork(const Fork& fork) {
  std::string text(kForkHead);
  for (const Checkpoint* one : {&fork.one, &fork.other}) {
    text += line_of("checkpoint", as_bytes(one->text()));
  }
  text += line_of("root", fork.root.bytes);
  for (const Hash256& hash : fork.proof) text += line_of("proof", hash.bytes);
  return text;
}

Result<Fork> parse_fork(ByteSpan bytes) {
  REQUIRE(bytes.size() <= kForkBytes, "a fork's file of ", bytes.size(), " bytes; the limit is ",
          kForkBytes);
  std::string_view text = as_text(bytes);
  REQUIRE(text.starts_with(kForkHead), "it is no file of a fork: it does not begin with '",
          kForkHead.substr(0, kForkHead.size() - 1), "'");
  text.remove_prefix(kForkHead.size());
  Fork fork;
  for (Checkpoint* one : {&fork.one, &fork.other}) {
    TRY(const Bytes note, take_line(text, "checkpoint"));
    TRY(*one, parse_checkpoint(note));
  }
  TRY(fork.root, take_hash(text, "root"));
  while (!text.empty()) {
    REQUIRE(fork.proof.size() < kProofHashes, "a fork's proof has more than ", kProofHashes,
            " hashes");
    TRY(const Hash256 hash, take_hash(text, "proof"));
    fork.proof.push_back(hash);
  }
  TRY_VOID(check_fork(fork));
  return fork;
}

Judgement judge(const Offer& offer, const std::optional<Checkpoint>& latest, const PublicKey& log) {
  const Checkpoint& shown = offer.checkpoint;
  if (shown.log != log) return refused("the checkpoint is of another log, " + shown.log.hex());
  if (latest && shown.size < latest->size) {
    return refused("the log was cut back: it shows " + named(shown) + ", and had signed " +
                   named(*latest));
  }
  if (latest && shown.size == latest->size) {
    if (shown.root == latest->root) return {Judgement::Kind::kSame, "", std::nullopt};
    return forked({*latest, shown, shown.root, {}});
  }
  if (offer.old_size != (latest ? latest->size : 0)) {
    return {Judgement::Kind::kElsewhere, "", std::nullopt};
  }
  if (offer.proof.size() > kProofHashes) return refused("the proof is too long for any log");
  const Status proved =
      check_consistency(offer.old_size, offer.old_root, shown.size, shown.root, offer.proof);
  if (!proved.ok()) {
    return refused(
        "the log shows " + named(shown) +
        " and does not prove that they extend what this node cosigned: " + proved.error().message);
  }
  if (latest && offer.old_root != latest->root) {
    return forked({*latest, shown, offer.old_root, offer.proof});
  }
  return {Judgement::Kind::kExtends, "", std::nullopt};
}

}  // namespace hearth::ledger
