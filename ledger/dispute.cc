#include "ledger/dispute.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/limits.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kMagic = "HRD1";
constexpr std::size_t kTextBytes = 255;
constexpr std::size_t kPathHashes = 64;
constexpr std::size_t kSamplingBytes = 64 * 1'024;

void put_hashes(ByteWriter& writer, const std::vector<Hash256>& hashes) {
  writer.write(static_cast<std::uint16_t>(hashes.size()));
  for (const Hash256& hash : hashes) writer.append(hash.bytes);
}

void put_bytes(ByteWriter& writer, ByteSpan bytes) {
  writer.write(static_cast<std::uint32_t>(bytes.size()));
  writer.append(bytes);
}

void put_text(ByteWriter& writer, std::string_view text) {
  writer.write(static_cast<std::uint8_t>(text.size()));
  writer.append(as_bytes(text));
}

void put_weights(ByteWriter& writer, const DisputeWeights& weights) {
  put_text(writer, weights.tensor);
  writer.write(weights.row);
  writer.write(weights.cols);
  writer.write(weights.type);
  put_bytes(writer, weights.bytes);
}

void put_evidence(ByteWriter& writer, const DisputeEvidence& evidence) {
  writer.write(static_cast<std::uint8_t>(evidence.inputs.size()));
  for (const DisputeInput& input : evidence.inputs) {
    writer.write(input.position);
    writer.write(input.slot);
    put_bytes(writer, input.value);
    writer.append(input.position_root.bytes);
    put_hashes(writer, input.slot_path);
    put_hashes(writer, input.position_path);
  }
  writer.write(static_cast<std::uint8_t>(evidence.weights.size()));
  for (const DisputeWeights& weights : evidence.weights) put_weights(writer, weights);
  put_bytes(writer, evidence.rows);
  writer.append(evidence.chain.bytes);
  writer.append(evidence.incoming.bytes);
  put_hashes(writer, evidence.incoming_path);
}

// What parse_dispute() would refuse.
Status check_sizes(const DisputeFile& file) {
  const auto most = [](std::size_t size, std::size_t limit, const char* what) -> Status {
    REQUIRE(size <= limit, "a dispute's file of " + std::to_string(size) + " " + what +
                               ", at most " + std::to_string(limit));
    return ok_status();
  };
  TRY_VOID(most(file.said.receipts.size(), kDisputeReceipts, "receipts"));
  TRY_VOID(most(file.moves.size(), kDisputeMoves, "moves"));
  TRY_VOID(most(file.build.size(), kTextBytes, "bytes of the build's name"));
  for (const Bytes& receipt : file.said.receipts) {
    REQUIRE(receipt.size() == kReceiptBytes, "a receipt is not of 448 bytes");
  }
  for (const DisputeMove& move : file.moves) {
    TRY_VOID(most(move.payload.size(), kMoveBytes, "bytes of a move"));
  }
  if (file.evidence) {
    TRY_VOID(most(file.evidence->inputs.size(), kDisputeInputs, "inputs"));
    TRY_VOID(most(file.evidence->weights.size(), kDisputeWeights, "tensors"));
    for (const DisputeWeights& weights : file.evidence->weights) {
      TRY_VOID(most(weights.tensor.size(), kTextBytes, "bytes of a tensor's name"));
    }
    TRY_VOID(most(file.evidence->incoming_path.size(), kPathHashes, "hashes of a path"));
    for (const DisputeInput& input : file.evidence->inputs) {
      TRY_VOID(most(input.slot_path.size(), kPathHashes, "hashes of a path"));
      TRY_VOID(most(input.position_path.size(), kPathHashes, "hashes of a path"));
    }
  }
  if (file.tokens) {
    TRY_VOID(most(file.tokens->tokens.size(), limits::kModelContext, "tokens"));
    TRY_VOID(most(file.tokens->sampling.size(), kSamplingBytes, "bytes of sampling"));
  }
  return ok_status();
}

// The parts of a file, each bounded by what is left of it; failed() is asked at the end.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : reader_(bytes) {}

  template <typename T>
  T number() {
    return reader_.read<T>();
  }
  Hash256 hash() {
    Hash256 out;
    copy(out.bytes);
    return out;
  }
  template <typename Array>
  void copy(Array& out) {
    const ByteSpan bytes = reader_.take(out.size());
    if (!bytes.empty()) std::ranges::copy(bytes, out.begin());
  }
  Bytes bytes() { return raw(reader_.read<std::uint32_t>()); }
  Bytes raw(std::size_t count) {
    const ByteSpan taken = reader_.take(count);
    return {taken.begin(), taken.end()};
  }
  std::string text() {
    const Bytes taken = raw(reader_.read<std::uint8_t>());
    return std::string(as_text(taken));
  }
  std::vector<Hash256> hashes() {
    std::vector<Hash256> out;
    const auto count = reader_.read<std::uint16_t>();
    for (std::size_t i = 0; i < count && !reader_.failed(); ++i) out.push_back(hash());
    return out;
  }
  PublicKey key() {
    const Bytes taken = raw(PublicKey::kBytes);
    auto key = PublicKey::parse(taken);
    if (!key) bad_key_ = true;
    return key ? *key : PublicKey();
  }
  Status flag(bool& out) {
    const auto value = reader_.read<std::uint8_t>();
    REQUIRE(value <= 1, "a part of the dispute's file is neither there nor not there");
    out = value == 1;
    return ok_status();
  }
  Status end() const {
    REQUIRE(!reader_.failed(), "the dispute's file ends early");
    REQUIRE(!bad_key_, "a key of the dispute's file is none");
    REQUIRE(reader_.remaining() == 0, "bytes are left over behind the dispute");
    return ok_status();
  }
  bool failed() const { return reader_.failed(); }

 private:
  ByteReader reader_;
  bool bad_key_ = false;
};

DisputeWeights read_weights(Reader& reader) {
  DisputeWeights out;
  out.tensor = reader.text();
  out.row = reader.number<std::uint32_t>();
  out.cols = reader.number<std::uint32_t>();
  out.type = reader.number<std::uint32_t>();
  out.bytes = reader.bytes();
  return out;
}

DisputeEvidence read_evidence(Reader& reader) {
  DisputeEvidence out;
  const auto inputs = reader.number<std::uint8_t>();
  for (std::size_t i = 0; i < inputs && !reader.failed(); ++i) {
    DisputeInput& input = out.inputs.emplace_back();
    input.position = reader.number<std::uint32_t>();
    input.slot = reader.number<std::uint32_t>();
    input.value = reader.bytes();
    input.position_root = reader.hash();
    input.slot_path = reader.hashes();
    input.position_path = reader.hashes();
  }
  const auto weights = reader.number<std::uint8_t>();
  for (std::size_t i = 0; i < weights && !reader.failed(); ++i) {
    out.weights.push_back(read_weights(reader));
  }
  out.rows = reader.bytes();
  out.chain = reader.hash();
  out.incoming = reader.hash();
  out.incoming_path = reader.hashes();
  return out;
}

Status read_case(Reader& reader, DisputeCase& out) {
  out.cluster = reader.key();
  const auto receipts = reader.number<std::uint16_t>();
  for (std::size_t i = 0; i < receipts && !reader.failed(); ++i) {
    out.receipts.push_back(reader.raw(kReceiptBytes));
  }
  out.seal.receipt = reader.number<std::uint64_t>();
  out.seal.auditor = reader.key();
  out.seal.seal = reader.hash();
  reader.copy(out.seal.signature);
  out.opened_root = reader.hash();
  out.opened_salt = reader.hash();
  out.salt = reader.hash();
  TRY(out.shape, parse_trace_shape(reader.bytes()));
  return ok_status();
}

}  // namespace

Hash256 weights_digest(const std::vector<DisputeWeights>& weights) {
  if (weights.empty()) return {};
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("hearth.wgt"));
  for (const DisputeWeights& part : weights) put_weights(writer, part);
  return blake2b(all);
}

Result<Bytes> write_dispute(const DisputeFile& file) {
  TRY_VOID(check_sizes(file));
  Bytes out;
  ByteWriter writer(out);
  writer.append(as_bytes(kMagic));
  writer.append(file.said.cluster.bytes());
  writer.write(static_cast<std::uint16_t>(file.said.receipts.size()));
  for (const Bytes& receipt : file.said.receipts) writer.append(receipt);
  writer.write(file.said.seal.receipt);
  writer.append(file.said.seal.auditor.bytes());
  writer.append(file.said.seal.seal.bytes);
  writer.append(file.said.seal.signature);
  writer.append(file.said.opened_root.bytes);
  writer.append(file.said.opened_salt.bytes);
  writer.append(file.said.salt.bytes);
  put_bytes(writer, encode(file.said.shape));
  writer.append(file.model.bytes);
  put_text(writer, file.build);
  writer.write(static_cast<std::uint8_t>(file.moves.size()));
  for (const DisputeMove& move : file.moves) {
    writer.write(static_cast<std::uint8_t>(move.side));
    put_bytes(writer, move.payload);
    writer.append(move.signature);
  }
  writer.write(static_cast<std::uint8_t>(file.evidence ? 1 : 0));
  if (file.evidence) put_evidence(writer, *file.evidence);
  writer.write(static_cast<std::uint8_t>(file.tokens ? 1 : 0));
  if (file.tokens) {
    writer.write(static_cast<std::uint32_t>(file.tokens->tokens.size()));
    for (const std::uint32_t token : file.tokens->tokens) writer.write(token);
    put_bytes(writer, file.tokens->sampling);
  }
  REQUIRE(out.size() <= kDisputeFileBytes,
          "a dispute's file of more than " + std::to_string(kDisputeFileBytes) + " bytes");
  return out;
}

Result<DisputeFile> parse_dispute(ByteSpan bytes) {
  REQUIRE(bytes.size() <= kDisputeFileBytes,
          "a dispute's file of more than " + std::to_string(kDisputeFileBytes) + " bytes");
  Reader reader(bytes);
  REQUIRE(as_text(reader.raw(kMagic.size())) == kMagic, "this is no dispute's file (HRD1)");
  DisputeFile out;
  TRY_VOID(read_case(reader, out.said));
  out.model = reader.hash();
  out.build = reader.text();
  const auto moves = reader.number<std::uint8_t>();
  for (std::size_t i = 0; i < moves && !reader.failed(); ++i) {
    DisputeMove& move = out.moves.emplace_back();
    const auto side = reader.number<std::uint8_t>();
    REQUIRE(side < kDisputeSides, "a move of the dispute's file is of neither side");
    move.side = static_cast<DisputeSide>(side);
    move.payload = reader.bytes();
    reader.copy(move.signature);
  }
  bool there = false;
  TRY_VOID(reader.flag(there));
  if (there) out.evidence = read_evidence(reader);
  TRY_VOID(reader.flag(there));
  if (there) {
    DisputeTokens& tokens = out.tokens.emplace();
    const auto count = reader.number<std::uint32_t>();
    for (std::size_t i = 0; i < count && !reader.failed(); ++i) {
      tokens.tokens.push_back(reader.number<std::uint32_t>());
    }
    tokens.sampling = reader.bytes();
  }
  TRY_VOID(reader.end());
  TRY_VOID(check_sizes(out));
  return out;
}

Result<DisputeGame> replay(const DisputeFile& file) {
  TRY(CheckedCase of, check_case(file.said));
  DisputeGame game(std::move(of));
  for (const DisputeMove& move : file.moves) TRY_VOID(game.take(move, 0));
  return game;
}

}  // namespace hearth::ledger
