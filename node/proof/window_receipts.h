// WindowReceipts: what one stage says of the requests that it computes, window by window
// (ledger/PROTOCOL.md, 2). Fed with every step of a pipeline, it hashes the rows of requests that
// want receipts; a window that is full, or whose request is over, becomes a claim: its edges,
// signed. When the neighbours' signatures come back, it becomes a receipt.
//
// An audit is a request like any other until its windows are claimed. Then this stage is told of
// which entries of the log they are audits, seals what it found, and opens that when it is asked
// to. What others claimed or sealed it never hears.
//
// Bounded: what waits for signatures beyond limits::kReceiptWindows goes, and what waits to be
// claimed beyond kReceiptClaims, the oldest first. When a window was begun is said by the time that
// comes with the signatures, where one does: this machine's clock may be wrong. Rows that do not
// follow what was seen of their request end its receipts in this pipeline. One thread.
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

// Who signs, for which cluster, and what it is that computes.
struct ReceiptIdentity {
  SecretKey key;
  PublicKey cluster;
  std::string build;
};

class WindowReceipts {
 public:
  WindowReceipts(ReceiptIdentity identity, const Clock& clock)
      : identity_(std::move(identity)), clock_(clock) {}

  // The next pipeline. What is open in the one before has no receipts.
  void begin(const Assignment& assignment, const Hash256& model);
  // `batch` as it leaves the stage; `in`: its activations as they came, empty on the first stage;
  // `drawn`: the tokens that came of it, on the last stage, which claims nothing of a request that
  // it is fed others of. A step of another epoch is nothing.
  void step(const StepBatch& batch, ByteSpan in, std::span<const SampledToken> drawn = {});
  void skip();  // a step was left out: what is open has no receipts
  bool has_claims() const { return !claims_.empty(); }
  // The oldest that were not taken yet, at most limits::kReceiptBatch; has_claims().
  control::v1::WindowClaims take_claims();
  // Of the windows of a Countersign, those that are known here.
  control::v1::Receipts countersign(const control::v1::Countersign& message);
  // Windows that were claimed here turn out to be audits: what went out of them, sealed. An entry
  // of the log is sealed once; windows that are not known have no seal.
  control::v1::Seals seal(const control::v1::SealOrder& order);
  // Of those entries that were sealed and not opened yet.
  control::v1::Openings open(const control::v1::OpenOrder& order);
  // Whether the accused concedes, signed. It denies only what it never said: a referee's arithmetic
  // is exact.
  control::v1::Answer plead(const control::v1::Accusation& accusation,
                            const control::v1::SelfChecked& found) const;
  // The coordinator is another one now, or has forgotten what it was told.
  void forget();

 private:
  // A request that is open, and its window that is.
  struct Open {
    ReceiptOrder order;
    std::uint32_t prompt_tokens = 0;
    Bytes sampling;
    std::uint32_t window = 0;
    std::vector<std::uint32_t> tokens;
    std::vector<Hash256> in;            // of the rows, but on the first stage
    std::vector<Hash256> out;           // but on the last one
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
