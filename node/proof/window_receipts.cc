#include "node/proof/window_receipts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/canonical.h"
#include "ledger/statements.h"
#include "node/engine/step_hash.h"
#include "proto/committed_sampling.h"
#include "proto/fixed_field.h"

namespace hearth::node {
namespace {

// The i-th of `rows` equal parts; nothing of nothing.
ByteSpan part(ByteSpan bytes, std::size_t i, std::size_t rows) {
  const std::size_t each = bytes.size() / rows;
  return bytes.subspan(i * each, each);
}

}  // namespace

void WindowReceipts::begin(const Assignment& assignment, const Hash256& model) {
  open_.clear();
  assignment_ = assignment;
  program_ = ledger::program_id(model, identity_.build, kernels::kCanonicalVersion);
}

void WindowReceipts::step(const StepBatch& batch, ByteSpan in,
                          std::span<const SampledToken> drawn) {
  if (batch.epoch != assignment_.epoch) return;
  for (const SequenceOpen& open : batch.opens) {
    if (!open.receipt) continue;
    Open begun;
    begun.order = *open.receipt;
    begun.prompt_tokens = open.prompt_tokens;
    begun.sampling = encode_committed(open.sampling);
    open_.insert_or_assign(open.sequence, std::move(begun));
  }
  for (const SequenceTruncate& truncated : batch.truncates) truncate(truncated);
  note_drawn(drawn);
  const std::size_t rows = batch.rows.size();
  for (std::size_t i = 0; i < rows; ++i) {
    add_row(batch.rows[i], part(in, i, rows), part(batch.activations, i, rows));
  }
  settle_drawn(drawn);
  if (assignment_.is_last()) reject_undrawn(batch, drawn);
  for (const SequenceId sequence : batch.releases) {
    const auto found = open_.find(sequence);
    if (found == open_.end()) continue;
    if (!found->second.has_rejected) finish(found->second);
    open_.erase(found);
  }
}

void WindowReceipts::note_drawn(std::span<const SampledToken> drawn) {
  for (const SampledToken& one : drawn) {
    const auto found = open_.find(one.sequence);
    if (found != open_.end()) found->second.drawn[one.position] = one.token;
  }
}

// Behind the step's rows. Tokens of a sequence stand together, positions ascending: rows from the
// last one's position on were drafts that it rejects.
void WindowReceipts::settle_drawn(std::span<const SampledToken> drawn) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto found = open_.find(drawn[i].sequence);
    if (found == open_.end()) continue;
    Open& open = found->second;
    const Position position = drawn[i].position;
    const bool first = i == 0 || drawn[i - 1].sequence != drawn[i].sequence;
    if (first) open.drawn.erase(open.drawn.begin(), open.drawn.lower_bound(position));
    const bool last = i + 1 == drawn.size() || drawn[i + 1].sequence != drawn[i].sequence;
    if (last && open.first() + open.tokens.size() > position) open.has_rejected = true;
  }
}

// Drafts that go on behind an earlier step's, of which nothing was drawn.
void WindowReceipts::reject_undrawn(const StepBatch& batch, std::span<const SampledToken> drawn) {
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const SequenceId sequence = batch.rows[i].sequence;
    const bool begins = i == 0 || batch.rows[i - 1].sequence != sequence;
    if (!begins || !batch.rows[i].draft()) continue;
    const auto found = open_.find(sequence);
    if (found == open_.end()) continue;
    if (std::ranges::find(drawn, sequence, &SampledToken::sequence) == drawn.end()) {
      found->second.has_rejected = true;
    }
  }
}

void WindowReceipts::skip() { open_.clear(); }

// Rows of a window that was claimed already cannot be taken back, nor can what this stage drew: no
// receipts any more.
void WindowReceipts::truncate(const SequenceTruncate& truncate) {
  const auto found = open_.find(truncate.sequence);
  if (found == open_.end()) return;
  Open& open = found->second;
  const bool drops_drawn = !open.drawn.empty() && truncate.length < open.drawn.rbegin()->first;
  if (truncate.length < open.first() || drops_drawn) {
    open_.erase(found);
    return;
  }
  const std::size_t left =
      std::min<std::size_t>(truncate.length - open.first(), open.tokens.size());
  open.tokens.resize(left);
  open.in.resize(std::min(left, open.in.size()));
  open.out.resize(std::min(left, open.out.size()));
  const bool drops_rejected = !open.drawn.empty() && truncate.length <= open.drawn.rbegin()->first;
  if (drops_rejected) open.has_rejected = false;
}

void WindowReceipts::add_row(const BatchRow& row, ByteSpan in, ByteSpan out) {
  const auto found = open_.find(row.sequence);
  if (found == open_.end()) return;
  Open& open = found->second;
  // A step was skipped, or the first stage feeds a token that this stage never sampled. A rejected
  // draft stays until the next step drops it. A draft may not end a window, because a full window
  // is claimed at once.
  const auto drawn = open.drawn.find(row.position);
  const bool is_other = drawn != open.drawn.end() && drawn->second != row.token;
  const bool ends_window = (row.position + 1) % limits::kWindowPositions == 0;
  const bool refused = row.draft() ? ends_window : is_other || open.has_rejected;
  if (refused || row.position != open.first() + open.tokens.size()) {
    open_.erase(found);
    return;
  }
  if (open.tokens.empty()) {
    open.begun_unix = clock_.unix_seconds();
    open.begun = clock_.now();
  }
  open.tokens.push_back(static_cast<std::uint32_t>(row.token));
  const LayerRange layers = assignment_.layers;
  if (!assignment_.is_first()) open.in.push_back(hash_activation(layers.begin, row.position, in));
  if (!assignment_.is_last()) open.out.push_back(hash_activation(layers.end, row.position, out));
  if (open.tokens.size() == limits::kWindowPositions) finish(open);
}

// Leaves the next window, empty.
void WindowReceipts::finish(Open& open) {
  const auto positions = static_cast<std::uint32_t>(open.tokens.size());
  if (positions == 0) return;
  const Hash256& salt = open.order.salt;
  const std::uint32_t first = open.first();
  const Duration took = clock_.now() - open.begun;
  ledger::Receipt receipt;
  receipt.slot = {open.order.request, assignment_.epoch.value,
                  static_cast<std::uint16_t>(assignment_.stage), open.window};
  receipt.program = program_;
  receipt.layer_begin = static_cast<std::uint16_t>(assignment_.layers.begin);
  receipt.layer_end = static_cast<std::uint16_t>(assignment_.layers.end);
  receipt.stages = static_cast<std::uint16_t>(assignment_.stages);
  receipt.first_position = first;
  receipt.positions = positions;
  receipt.prompt_positions = std::clamp(open.prompt_tokens, first, first + positions) - first;
  receipt.tokens = ledger::commit_tokens(salt, first, open.tokens, open.sampling);
  receipt.in_root =
      assignment_.is_first() ? receipt.tokens : ledger::boundary_root(salt, first, open.in);
  receipt.out_root =
      assignment_.is_last() ? receipt.tokens : ledger::boundary_root(salt, first, open.out);
  receipt.begun_ms = static_cast<std::uint64_t>(open.begun_unix) * 1'000;
  receipt.took_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), UINT32_MAX));
  std::optional<ledger::ShownRow> shown;
  if (!assignment_.is_last()) {
    shown = ledger::show_row(ledger::out_edge(receipt), salt, first, open.out);
  }
  ++open.window;
  open.tokens.clear();
  open.in.clear();
  open.out.clear();
  claim(receipt, open.begun, shown);
}

void WindowReceipts::claim(const ledger::Receipt& receipt, TimePoint begun,
                           const std::optional<ledger::ShownRow>& shown) {
  if (claims_.size() >= limits::kReceiptClaims) claims_.pop_front();
  if (waiting_.size() >= limits::kReceiptWindows) waiting_.erase(waiting_.begin());
  const ledger::Slot& slot = receipt.slot;
  waiting_.insert_or_assign({slot.request, slot.epoch, slot.window}, Waiting{receipt, begun});
  control::v1::WindowClaim& claim = claims_.emplace_back();
  INVARIANT(claims_.size() <= limits::kReceiptClaims && waiting_.size() <= limits::kReceiptWindows,
            "a full list drops its oldest window before it takes another one");
  claim.set_request(to_field(slot.request));
  claim.set_epoch(slot.epoch);
  claim.set_window(slot.window);
  claim.set_positions(receipt.positions);
  claim.set_in_root(to_field(receipt.in_root.bytes));
  claim.set_out_root(to_field(receipt.out_root.bytes));
  const auto sign = [this](const ledger::Edge& edge) {
    return to_field(ledger::sign_edge(edge, identity_.cluster, identity_.key));
  };
  claim.set_in_signature(sign(ledger::in_edge(receipt)));
  claim.set_out_signature(sign(ledger::out_edge(receipt)));
  if (!shown) return;
  claim.set_shown_row(to_field(shown->row.bytes));
  for (const Hash256& hash : shown->path) claim.mutable_shown_path()->append(to_field(hash.bytes));
}

control::v1::WindowClaims WindowReceipts::take_claims() {
  control::v1::WindowClaims taken;
  const std::size_t count = std::min<std::size_t>(claims_.size(), limits::kReceiptBatch);
  for (std::size_t i = 0; i < count; ++i) *taken.add_windows() = std::move(claims_[i]);
  claims_.erase(claims_.begin(), claims_.begin() + static_cast<std::ptrdiff_t>(count));
  return taken;
}

control::v1::Receipts WindowReceipts::countersign(const control::v1::Countersign& message) {
  control::v1::Receipts answer;
  Hash256 previous;
  if (!read_field(message.previous(), previous.bytes)) return answer;
  for (const control::v1::Countersigned& signed_by_both : message.windows()) {
    Window window{{}, signed_by_both.epoch(), signed_by_both.window()};
    if (!read_field(signed_by_both.request(), window.request)) continue;
    const auto found = waiting_.find(window);
    if (found == waiting_.end()) continue;
    ledger::Receipt receipt = found->second.receipt;
    if (message.now_ms() > 0) {
      const auto age =
          std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - found->second.begun);
      receipt.begun_ms = message.now_ms() - std::min<std::uint64_t>(message.now_ms(), age.count());
    }
    waiting_.erase(found);
    receipt.previous = previous;
    if (!read_field(signed_by_both.in_signature(), receipt.in_edge) ||
        !read_field(signed_by_both.out_signature(), receipt.out_edge)) {
      continue;
    }
    const auto bytes = ledger::sign_receipt(receipt, identity_.cluster, identity_.key);
    if (!bytes) continue;
    previous = blake2b(*bytes);
    answer.add_receipts(to_field(*bytes));
  }
  return answer;
}

control::v1::Seals WindowReceipts::seal(const control::v1::SealOrder& order) {
  control::v1::Seals answer;
  for (const control::v1::AuditedWindow& audited : order.windows()) {
    Window window{{}, audited.epoch(), audited.window()};
    if (!read_field(audited.request(), window.request)) continue;
    const auto found = waiting_.find(window);
    if (found == waiting_.end()) continue;
    Sealed sealed{found->second.receipt.out_root, {}};
    waiting_.erase(found);
    random_bytes(sealed.salt.bytes);
    const std::uint64_t entry = audited.entry();
    if (!sealed_.emplace(entry, sealed).second) continue;
    if (sealed_.size() > limits::kReceiptWindows) sealed_.erase(sealed_.begin());
    const Hash256 hash =
        ledger::seal_of(entry, identity_.key.public_key(), sealed.root, sealed.salt);
    const ledger::SealEntry said = ledger::sign_seal(entry, hash, identity_.cluster, identity_.key);
    control::v1::Seal& seal = *answer.add_seals();
    seal.set_entry(entry);
    seal.set_seal(to_field(said.seal.bytes));
    seal.set_signature(to_field(said.signature));
  }
  return answer;
}

control::v1::Openings WindowReceipts::open(const control::v1::OpenOrder& order) {
  control::v1::Openings answer;
  for (const std::uint64_t entry : order.entries()) {
    const auto found = sealed_.find(entry);
    if (found == sealed_.end() || std::exchange(found->second.opened, true)) continue;
    control::v1::Opening& opening = *answer.add_openings();
    opening.set_entry(entry);
    opening.set_root(to_field(found->second.root.bytes));
    opening.set_salt(to_field(found->second.salt.bytes));
  }
  return answer;
}

// Whether this node stated the root. True also for an audit whose seal it no longer keeps, because
// it cannot rule that out.
bool WindowReceipts::said(const control::v1::Accusation& accusation) const {
  Hash256 root;
  if (!read_field(accusation.root(), root.bytes)) return false;
  if (accusation.receipt().empty()) {
    const auto sealed = sealed_.find(accusation.entry());
    return sealed == sealed_.end() || sealed->second.root == root;
  }
  const auto receipt = ledger::parse_receipt(as_bytes(accusation.receipt()), identity_.cluster);
  return receipt && receipt->worker == identity_.key.public_key() && receipt->out_root == root;
}

control::v1::Answer WindowReceipts::plead(const control::v1::Accusation& accusation,
                                          const control::v1::SelfChecked& found) const {
  const bool concedes = said(accusation);
  const ledger::Answer own =
      ledger::sign_answer({accusation.entry(),
                           {},
                           concedes ? ledger::Plea::kConceded : ledger::Plea::kContested,
                           found.weights_whole(),
                           found.self_test_passed(),
                           {}},
                          identity_.cluster, identity_.key);
  control::v1::Answer answer;
  answer.set_entry(own.receipt);
  answer.set_plea(static_cast<std::uint32_t>(own.plea));
  *answer.mutable_found() = found;
  answer.set_signature(to_field(own.signature));
  return answer;
}

void WindowReceipts::forget() {
  sealed_.clear();
  open_.clear();
  waiting_.clear();
  claims_.clear();
}

}  // namespace hearth::node
