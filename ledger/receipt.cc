#include "ledger/receipt.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>

#include "base/limits.h"
#include "ledger/fields.h"
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

// The signed fields behind the magic.
void receipt_fields(auto& a, Receipt& r) {
  a(r.slot.epoch, r.slot.request, r.program, r.layer_begin, r.layer_end, r.slot.stage, r.stages,
    r.slot.window, r.first_position, r.positions, r.prompt_positions, r.tokens, r.in_root,
    r.out_root, r.previous, r.begun_ms, r.took_ms, r.worker, r.in_edge, r.out_edge);
}

Status check_fields(const Receipt& r) {
  REQUIRE(r.layer_begin < r.layer_end && r.layer_end <= limits::kModelLayers,
          "a receipt of layers ", r.layer_begin, " to ", r.layer_end, "; the limit is ",
          limits::kModelLayers);
  REQUIRE(r.slot.stage < r.stages && r.stages <= limits::kStages, "a receipt of stage ",
          r.slot.stage, " of ", r.stages, "; the limit is ", limits::kStages);
  REQUIRE(r.positions > 0 && r.positions <= limits::kWindowPositions &&
              r.first_position <= limits::kModelContext - r.positions,
          "a receipt of ", r.positions, " positions from ", r.first_position,
          "; a window has at most ", limits::kWindowPositions, ", a request ",
          limits::kModelContext);
  REQUIRE(r.first_position == std::uint64_t{r.slot.window} * limits::kWindowPositions,
          "a receipt of window ", r.slot.window, ", which begins at position ",
          std::uint64_t{r.slot.window} * limits::kWindowPositions, ", from ", r.first_position);
  REQUIRE(r.prompt_positions <= r.positions, "a receipt has more prompt positions than positions");
  REQUIRE(!r.is_first() || r.in_root == r.tokens,
          "a receipt of the first stage has other input than its tokens");
  REQUIRE(!r.is_last() || r.out_root == r.tokens,
          "a receipt of the last stage has other output than its tokens");
  // Layers that change nothing are no layers.
  REQUIRE(r.stages == 1 || r.in_root != r.out_root, "a receipt's output is its input");
  return ok_status();
}

Bytes edge_bytes(const Edge& edge) {
  return pack(edge.request, edge.epoch, edge.below, edge.window, edge.root);
}

std::vector<Hash256> boundary_leaves(const Hash256& salt, std::uint32_t first_position,
                                     std::span<const Hash256> rows) {
  std::vector<Hash256> leaves;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    leaves.push_back(boundary_leaf(salt, first_position + static_cast<std::uint32_t>(i), rows[i]));
  }
  return leaves;
}

// The index of the row that the stage must show, among this many rows.
std::uint32_t shown_index(const Edge& edge, const Hash256& salt, std::uint32_t rows) {
  const Hash256 hash = keyed_blake2b(salt, pack("shown", edge_bytes(edge)));
  return static_cast<std::uint32_t>(ByteReader(hash.bytes).read<std::uint64_t>() % rows);
}

Result<Receipt> read_form(ByteSpan bytes) {
  REQUIRE(bytes.size() == kReceiptBytes && as_text(bytes).starts_with(kReceiptMagic),
          "the bytes are not a receipt: a receipt has ", kReceiptBytes, " bytes and begins with ",
          kReceiptMagic);
  FieldReader reader{
      ByteReader(bytes.first(kReceiptBytes - kSignatureBytes).subspan(kReceiptMagic.size()))};
  Receipt receipt;
  receipt_fields(reader, receipt);
  TRY_VOID(reader.status);
  REQUIRE(!reader.in.failed() && reader.in.remaining() == 0, "a receipt has a wrong length");
  return receipt;
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
  FieldWriter out{pack(kReceiptMagic)};
  receipt_fields(out, receipt);
  out(key.sign(kReceiptPurpose, pack(cluster, out.bytes)));
  return std::move(out.bytes);
}

Result<Receipt> parse_receipt(ByteSpan bytes, const PublicKey& cluster) {
  TRY(const Receipt receipt, read_form(bytes));
  const ByteSpan body = bytes.first(kReceiptBytes - kSignatureBytes);
  REQUIRE(verify(receipt.worker, kReceiptPurpose, pack(cluster, body), bytes.last(kSignatureBytes)),
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
  FieldReader reader{ByteReader(receipt)};
  Slot slot;
  std::uint16_t stages = 0;
  (void)reader.in.take(kReceiptMagic.size());
  reader(slot.epoch, slot.request);
  (void)reader.in.take(kStageAt - kRequestAt - slot.request.size());
  reader(slot.stage, stages, slot.window);
  return slot;
}

Hash256 worker_in(ByteSpan receipt) {
  FieldReader reader{ByteReader(receipt)};
  Hash256 worker;
  (void)reader.in.take(kWorkerAt);
  reader(worker);
  return worker;
}

Hash256 program_id(const Hash256& manifest, std::string_view build,
                   std::uint32_t canonical_version) {
  return blake2b(pack(manifest, canonical_version, build));
}

Hash256 choice_salt(const Hash256& answer_salt, const RequestId& request) {
  return keyed_blake2b(answer_salt, pack("choice", request));
}

Hash256 commit_tokens(const Hash256& salt, std::uint32_t first_position,
                      std::span<const std::uint32_t> tokens, ByteSpan sampling) {
  return keyed_blake2b(salt,
                       pack("tokens", first_position, static_cast<std::uint32_t>(tokens.size()),
                            std::as_bytes(tokens), sampling));
}

Hash256 boundary_leaf(const Hash256& salt, std::uint32_t position, const Hash256& row) {
  return leaf_hash(keyed_blake2b(salt, pack("row", position, row)).bytes);
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
  return key.sign(kEdgePurpose, pack(cluster, edge_bytes(edge)));
}

bool check_edge(const Edge& edge, const PublicKey& cluster, const PublicKey& signer,
                const Signature& signature) {
  return verify(signer, kEdgePurpose, pack(cluster, edge_bytes(edge)), signature);
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
  const std::string where =
      message_of("the edge between stage ", upper.slot.stage, " and stage ", lower.slot.stage);
  REQUIRE(upper.layer_end == lower.layer_begin && upper.program == lower.program &&
              upper.tokens == lower.tokens && upper.first_position == lower.first_position &&
              upper.positions == lower.positions &&
              upper.prompt_positions == lower.prompt_positions,
          where, ": the two say different things of model, layers, tokens or positions");
  REQUIRE(upper.out_root == lower.in_root, where, ": what went out is not what came in");
  REQUIRE(check_edge(in_edge(lower), cluster, upper.worker, lower.in_edge), where,
          ": the sender has not signed what it sent");
  REQUIRE(check_edge(out_edge(upper), cluster, lower.worker, upper.out_edge), where,
          ": the receiver has not signed what it received");
  return ok_status();
}

Status check_windows(const Receipt& earlier, const Receipt& later) {
  const std::string which = message_of("of windows ", earlier.slot.window, " and ",
                                       later.slot.window, " of a request the first has ");
  REQUIRE(earlier.positions == limits::kWindowPositions, which, earlier.positions,
          " positions, and only the last may have fewer than ", limits::kWindowPositions);
  REQUIRE(later.prompt_positions == 0 || earlier.prompt_positions == earlier.positions, which,
          "generated positions, and the second some of the prompt");
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
