// WindowReceipts: the claims and receipts of one stage, window by window (ledger/PROTOCOL.md, 2).
// It gets every step of a pipeline and hashes the rows of requests that want receipts. A full
// window, or the last one of a request, becomes a claim: its signed edges. With the neighbours'
// signatures it becomes a receipt.
//
// An audit is a request like any other until its windows are claimed. Then the coordinator names
// the log entries that they audit. The stage seals its result and opens the seal on request. It
// never learns what others claimed or sealed.
//
// Bounded: at most limits::kReceiptWindows windows wait for signatures and kReceiptClaims claims
// wait to be sent; the oldest are dropped first. A window's begin is derived from the time that
// comes with the signatures, if there is one, because this machine's clock may be wrong. Rows that
// do not continue a request end its receipts in this pipeline. One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "ledger/receipt.h"
#include "node/assignment.h"
#include "proto/control.pb.h"
#include "proto/step.h"

namespace hearth::node {

// The signing node, its cluster and its build.
struct ReceiptIdentity {
  SecretKey key;
  PublicKey cluster;
  std::string build;
};

class WindowReceipts {
 public:
  WindowReceipts(ReceiptIdentity identity, const Clock& clock)
      : identity_(std::move(identity)), clock_(clock) {}

  // Begins the next pipeline. Requests that are open in the one before get no more receipts there.
  void begin(const Assignment& assignment, const Hash256& model);
  // `batch`: as it leaves the stage. `in`: its incoming activations, empty on the first stage.
  // `drawn`: its sampled tokens, on the last stage; empty elsewhere. When later rows feed other
  // tokens than `drawn`, the last stage claims no further window of that request. A step of another
  // epoch is ignored.
  void step(const StepBatch& batch, ByteSpan in, std::span<const SampledToken> drawn = {});
  void skip();  // a step was skipped: requests that are open get no more receipts
  bool has_claims() const { return !claims_.empty(); }
  // The oldest untaken claims, at most limits::kReceiptBatch. Requires has_claims().
  control::v1::WindowClaims take_claims();
  // Receipts for the windows of a Countersign that are known here.
  control::v1::Receipts countersign(const control::v1::Countersign& message);
  // Seals the outgoing roots of claimed windows that turn out to be audits. Each log entry is
  // sealed once; unknown windows get no seal.
  control::v1::Seals seal(const control::v1::SealOrder& order);
  // Opens the entries that are sealed and not opened yet.
  control::v1::Openings open(const control::v1::OpenOrder& order);
  // The accused's signed answer. It concedes a root that it stated or may have stated, because a
  // referee's arithmetic is exact, and contests any other.
  control::v1::Answer plead(const control::v1::Accusation& accusation,
                            const control::v1::SelfChecked& found) const;
  // Drops open requests, claims, windows that wait for signatures, and seals: the coordinator is
  // another one, or has lost its state.
  void forget();

 private:
  // An open request and its open window.
  struct Open {
    ReceiptOrder order;
    std::uint32_t prompt_tokens = 0;
    Bytes sampling;
    std::uint32_t window = 0;
    std::vector<std::uint32_t> tokens;
    std::vector<Hash256> in;            // of the rows, except on the first stage
    std::vector<Hash256> out;           // except on the last stage
    std::map<Position, TokenId> drawn;  // in the latest step that drew any
    bool has_rejected = false;          // drafts among its rows, until they are truncated
    std::int64_t begun_unix = 0;
    TimePoint begun{};
    std::uint32_t first() const { return window * limits::kWindowPositions; }
  };
  struct Window {
    ledger::RequestId request{};
    std::uint64_t epoch = 0;
    std::uint32_t window = 0;
    friend auto operator<=>(const Window&, const Window&) = default;
  };

  struct Sealed {
    Hash256 root;
    Hash256 salt;
    bool opened = false;
  };

  bool said(const control::v1::Accusation& accusation) const;
  void truncate(const SequenceTruncate& truncate);
  void add_row(const BatchRow& row, ByteSpan in, ByteSpan out);
  void note_drawn(std::span<const SampledToken> drawn);
  void settle_drawn(std::span<const SampledToken> drawn);
  void reject_undrawn(const StepBatch& batch, std::span<const SampledToken> drawn);
  void finish(Open& open);
  void claim(const ledger::Receipt& receipt, TimePoint begun,
             const std::optional<ledger::ShownRow>& shown);

  const ReceiptIdentity identity_;
  const Clock& clock_;
  Assignment assignment_;
  Hash256 program_;
  std::unordered_map<SequenceId, Open> open_;
  struct Waiting {
    ledger::Receipt receipt;
    TimePoint begun{};
  };
  std::map<Window, Waiting> waiting_;  // for signatures; requests' names begin with a time
  std::deque<control::v1::WindowClaim> claims_;
  std::map<std::uint64_t, Sealed> sealed_;  // by the entry of the log, which only grows
};

}  // namespace hearth::node
