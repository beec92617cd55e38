#include "ledger/receipt.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>

#include "base/limits.h"
#include "ledger/merkle.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kReceiptMagic = "HRC1";
constexpr std::size_t kSecondsBytes = 4;  // big-endian
constexpr std::size_t kRequestAt = 12;
constexpr std::size_t kStageAt = 64;
constexpr std::size_t kWorkerAt = 224;
constexpr std::string_view kReceiptPurpose = "hearth receipt v1";
constexpr std::string_view kEdgePurpose = "hearth edge v1";

Bytes in_cluster(const PublicKey& cluster, ByteSpan bytes) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(cluster.bytes());
  writer.append(bytes);
  return all;
}

template <std::size_t kBytes>
void read_into(ByteReader& reader, std::array<std::byte, kBytes>& to) {
  const ByteSpan taken = reader.take(kBytes);
  std::copy(taken.begin(), taken.end(), to.begin());
}

Bytes body_of(const Receipt& r) {
  Bytes body;
  ByteWriter writer(body);
  writer.append(as_bytes(kReceiptMagic));
  writer.write(r.slot.epoch);
  writer.append(r.slot.request);
  writer.append(r.program.bytes);
  writer.write(r.layer_begin);
  writer.write(r.layer_end);
  writer.write(r.slot.stage);
  writer.write(r.stages);
  writer.write(r.slot.window);
  writer.write(r.first_position);
  writer.write(r.positions);
  writer.write(r.prompt_positions);
  writer.append(r.tokens.bytes);
  writer.append(r.in_root.bytes);
  writer.append(r.out_root.bytes);
  writer.append(r.previous.bytes);
  writer.write(r.begun_ms);
  writer.write(r.took_ms);
  writer.append(r.worker.bytes());
  writer.append(r.in_edge);
  writer.append(r.out_edge);
  return body;
}

Result<Receipt> read_body(ByteSpan body) {
  ByteReader reader(body.subspan(kReceiptMagic.size()));
  Receipt r;
  r.slot.epoch = reader.read<std::uint64_t>();
  read_into(reader, r.slot.request);
  read_into(reader, r.program.bytes);
  r.layer_begin = reader.read<std::uint16_t>();
  r.layer_end = reader.read<std::uint16_t>();
  r.slot.stage = reader.read<std::uint16_t>();
  r.stages = reader.read<std::uint16_t>();
  r.slot.window = reader.read<std::uint32_t>();
  r.first_position = reader.read<std::uint32_t>();
  r.positions = reader.read<std::uint32_t>();
  r.prompt_positions = reader.read<std::uint32_t>();
  read_into(reader, r.tokens.bytes);
  read_into(reader, r.in_root.bytes);
  read_into(reader, r.out_root.bytes);
  read_into(reader, r.previous.bytes);
  r.begun_ms = reader.read<std::uint64_t>();
  r.took_ms = reader.read<std::uint32_t>();
  TRY(r.worker, PublicKey::parse(reader.take(PublicKey::kBytes)));
  read_into(reader, r.in_edge);
  read_into(reader, r.out_edge);
  REQUIRE(!reader.failed() && reader.remaining() == 0, "a receipt has a wrong length");
  return r;
}

Status check_fields(const Receipt& r) {
  REQUIRE(r.layer_begin < r.layer_end && r.layer_end <= limits::kModelLayers,
          "a receipt of layers " + std::to_string(r.layer_begin) + " to " +
              std::to_string(r.layer_end) + "; the limit is " +
              std::to_string(limits::kModelLayers));
  REQUIRE(r.slot.stage < r.stages && r.stages <= limits::kStages,
          "a receipt of stage " + std::to_string(r.slot.stage) + " of " + std::to_string(r.stages) +
              "; the limit is " + std::to_string(limits::kStages));
  REQUIRE(r.positions > 0 && r.positions <= limits::kWindowPositions &&
              r.first_position <= limits::kModelContext - r.positions,
          "a receipt of " + std::to_string(r.positions) + " positions from " +
              std::to_string(r.first_position) + "; a window has at most " +
              std::to_string(limits::kWindowPositions) + ", a request " +
              std::to_string(limits::kModelContext));
  REQUIRE(r.first_position == std::uint64_t{r.slot.window} * limits::kWindowPositions,
          "a receipt of window " + std::to_string(r.slot.window) + ", which begins at position " +
              std::to_string(std::uint64_t{r.slot.window} * limits::kWindowPositions) + ", from " +
              std::to_string(r.first_position));
  REQUIRE(r.prompt_positions <= r.positions, "a receipt has more prompt than positions");
  REQUIRE(!r.is_first() || r.in_root == r.tokens,
          "a receipt of the first stage has other input than its tokens");
  REQUIRE(!r.is_last() || r.out_root == r.tokens,
          "a receipt of the last stage has other output than its tokens");
  // Layers that change nothing are no layers.
  REQUIRE(r.stages == 1 || r.in_root != r.out_root, "a receipt's output is its input");
  return ok_status();
}

void write_edge(const Edge& edge, ByteWriter& writer) {
  writer.append(edge.request);
  writer.write(edge.epoch);
  writer.write(edge.below);
  writer.write(edge.window);
  writer.append(edge.root.bytes);
}

Bytes edge_bytes(const Edge& edge, const PublicKey& cluster) {
  Bytes bytes;
  ByteWriter writer(bytes);
  write_edge(edge, writer);
  return in_cluster(cluster, bytes);
}

std::vector<Hash256> boundary_leaves(const Hash256& salt, std::uint32_t first_position,
                                     std::span<const Hash256> rows) {
  std::vector<Hash256> leaves;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    leaves.push_back(boundary_leaf(salt, first_position + static_cast<std::uint32_t>(i), rows[i]));
  }
  return leaves;
}

// Of so many rows, the one that is to be shown.
std::uint32_t shown_index(const Edge& edge, const Hash256& salt, std::uint32_t rows) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("shown"));
  write_edge(edge, writer);
  const Hash256 hash = keyed_blake2b(salt, all);
  return static_cast<std::uint32_t>(ByteReader(hash.bytes).read<std::uint64_t>() % rows);
}

Result<Receipt> read_form(ByteSpan bytes) {
  REQUIRE(bytes.size() == kReceiptBytes && as_text(bytes).starts_with(kReceiptMagic),
          "the bytes are no receipt: it has " + std::to_string(kReceiptBytes) +
              " bytes and begins with " + std::string(kReceiptMagic));
  return read_body(bytes.first(kReceiptBytes - kSignatureBytes));
}

}  // namespace

AnswerName answer_name(std::int64_t unix_seconds, ByteSpan own) {
  AnswerName name{};
  for (std::size_t i = 0; i < kSecondsBytes; ++i) {
    name[i] = static_cast<std::byte>(unix_seconds >> (8 * (kSecondsBytes - 1 - i)));
  }
  std::copy_n(own.begin(), name.size() - kSecondsBytes, name.begin() + kSecondsBytes);
  return name;
}

RequestId request_of(const AnswerName& answer, std::uint16_t choice) {
  RequestId request{};
  std::copy(answer.begin(), answer.end(), request.begin());
  request[answer.size()] = static_cast<std::byte>(choice >> 8);
  request[answer.size() + 1] = static_cast<std::byte>(choice);
  return request;
}

std::int64_t asked_at(const AnswerName& answer) {
  std::int64_t seconds = 0;
  for (std::size_t i = 0; i < kSecondsBytes; ++i) {
    seconds = seconds << 8 | std::to_integer<std::int64_t>(answer[i]);
  }
  return seconds;
}

Result<Bytes> sign_receipt(Receipt receipt, const PublicKey& cluster, const SecretKey& key) {
  receipt.worker = key.public_key();
  TRY_VOID(check_fields(receipt));
  Bytes bytes = body_of(receipt);
  const Signature signature = key.sign(kReceiptPurpose, in_cluster(cluster, bytes));
  ByteWriter(bytes).append(signature);
  return bytes;
}

Result<Receipt> parse_receipt(ByteSpan bytes, const PublicKey& cluster) {
  TRY(const Receipt receipt, read_form(bytes));
  const ByteSpan body = bytes.first(kReceiptBytes - kSignatureBytes);
  REQUIRE(verify(receipt.worker, kReceiptPurpose, in_cluster(cluster, body),
                 bytes.last(kSignatureBytes)),
          "a receipt's signature is not its worker's");
  TRY_VOID(check_fields(receipt));
  return receipt;
}

Result<Receipt> reread_receipt(ByteSpan bytes) {
  TRY(const Receipt receipt, read_form(bytes));
  TRY_VOID(check_fields(receipt));
  return receipt;
}

RequestId request_in(ByteSpan receipt) { return slot_in(receipt).request; }

Slot slot_in(ByteSpan receipt) {
  ByteReader reader(receipt);
  (void)reader.take(kReceiptMagic.size());
  Slot slot;
  slot.epoch = reader.read<std::uint64_t>();
  read_into(reader, slot.request);
  (void)reader.take(kStageAt - kRequestAt - slot.request.size());
  slot.stage = reader.read<std::uint16_t>();
  (void)reader.read<std::uint16_t>();  // stages
  slot.window = reader.read<std::uint32_t>();
  return slot;
}

Hash256 worker_in(ByteSpan receipt) {
  ByteReader reader(receipt);
  (void)reader.take(kWorkerAt);
  Hash256 worker;
  read_into(reader, worker.bytes);
  return worker;
}

Hash256 program_id(const Hash256& manifest, std::string_view build,
                   std::uint32_t canonical_version) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(manifest.bytes);
  writer.write(canonical_version);
  writer.append(as_bytes(build));
  return blake2b(all);
}

Hash256 commit_tokens(const Hash256& salt, std::uint32_t first_position,
                      std::span<const std::uint32_t> tokens, ByteSpan sampling) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("tokens"));
  writer.write(first_position);
  writer.write(static_cast<std::uint32_t>(tokens.size()));
  for (const std::uint32_t token : tokens) writer.write(token);
  writer.append(sampling);
  return keyed_blake2b(salt, all);
}

Hash256 boundary_leaf(const Hash256& salt, std::uint32_t position, const Hash256& row) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("row"));
  writer.write(position);
  writer.append(row.bytes);
  return leaf_hash(keyed_blake2b(salt, all).bytes);
}

Hash256 boundary_root(const Hash256& salt, std::uint32_t first_position,
                      std::span<const Hash256> rows) {
  return subtree_root(boundary_leaves(salt, first_position, rows));
}

Edge in_edge(const Receipt& receipt) {
  return {receipt.slot.request, receipt.slot.epoch, receipt.slot.stage, receipt.slot.window,
          receipt.in_root};
}

Edge out_edge(const Receipt& receipt) {
  return {receipt.slot.request, receipt.slot.epoch,
          static_cast<std::uint16_t>(receipt.slot.stage + 1), receipt.slot.window,
          receipt.out_root};
}

Signature sign_edge(const Edge& edge, const PublicKey& cluster, const SecretKey& key) {
  return key.sign(kEdgePurpose, edge_bytes(edge, cluster));
}

bool check_edge(const Edge& edge, const PublicKey& cluster, const PublicKey& signer,
                const Signature& signature) {
  return verify(signer, kEdgePurpose, edge_bytes(edge, cluster), signature);
}

ShownRow show_row(const Edge& edge, const Hash256& salt, std::uint32_t first_position,
                  std::span<const Hash256> rows) {
  const std::uint32_t index = shown_index(edge, salt, static_cast<std::uint32_t>(rows.size()));
  return {rows[index], inclusion_path(index, boundary_leaves(salt, first_position, rows))};
}

Status check_row(const Edge& edge, const Hash256& salt, std::uint32_t first_position,
                 std::uint32_t rows, const ShownRow& shown) {
  REQUIRE(rows > 0, "a boundary without rows");
  const std::uint32_t index = shown_index(edge, salt, rows);
  return check_inclusion(boundary_leaf(salt, first_position + index, shown.row), index, rows,
                         shown.path, edge.root);
}

Status check_neighbours(const Receipt& upper, const Receipt& lower, const PublicKey& cluster) {
  const bool adjacent = upper.slot.request == lower.slot.request &&
                        upper.slot.epoch == lower.slot.epoch &&
                        upper.slot.window == lower.slot.window &&
                        upper.slot.stage + 1 == lower.slot.stage && upper.stages == lower.stages;
  REQUIRE(adjacent, "two receipts are not of neighbouring stages of one window");
  const std::string where = "the edge between stage " + std::to_string(upper.slot.stage) +
                            " and stage " + std::to_string(lower.slot.stage);
  REQUIRE(upper.layer_end == lower.layer_begin && upper.program == lower.program &&
              upper.tokens == lower.tokens && upper.first_position == lower.first_position &&
              upper.positions == lower.positions &&
              upper.prompt_positions == lower.prompt_positions,
          where + ": the two say different things of model, layers, tokens or positions");
  REQUIRE(upper.out_root == lower.in_root, where + ": what went out is not what came in");
  REQUIRE(check_edge(in_edge(lower), cluster, upper.worker, lower.in_edge),
          where + ": the sender has not signed what it sent");
  REQUIRE(check_edge(out_edge(upper), cluster, lower.worker, upper.out_edge),
          where + ": the receiver has not signed what it received");
  return ok_status();
}

Status check_windows(const Receipt& earlier, const Receipt& later) {
  const std::string which = "of windows " + std::to_string(earlier.slot.window) + " and " +
                            std::to_string(later.slot.window) + " of a request the first has ";
  REQUIRE(earlier.positions == limits::kWindowPositions,
          which + std::to_string(earlier.positions) +
              " positions, and only the last may have fewer than " +
              std::to_string(limits::kWindowPositions));
  REQUIRE(later.prompt_positions == 0 || earlier.prompt_positions == earlier.positions,
          which + "generated positions, and the second some of the prompt");
  return ok_status();
}

bool is_equivocation(const Receipt& one, const Receipt& other) {
  const auto said = [](const Receipt& r) {
    return std::tie(r.program, r.layer_begin, r.layer_end, r.stages, r.first_position, r.positions,
                    r.prompt_positions, r.tokens, r.in_root, r.out_root);
  };
  return one.worker == other.worker && one.slot == other.slot && said(one) != said(other);
}

}  // namespace hearth::ledger
