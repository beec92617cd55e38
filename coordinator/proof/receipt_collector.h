// ReceiptCollector: the coordinator's part in receipts (ledger/PROTOCOL.md, 2). Stages claim
// windows. When all stages have claimed one and its request has ended, the collector compares the
// claims with each other and with the tokens. If all agree, it signs both ends of the pipeline,
// sends every stage its neighbours' signatures, and logs the receipts that come back. A
// contradiction is an error in the process log that names the node. Only two contradicting receipts
// of one slot, signed by a member, become an entry, because they prove themselves.
//
// A window has receipts only when its request ended in the pipeline that computed it, and not when
// the request continued elsewhere. When one stage does not claim a window, no stage gets a receipt
// for it.
//
// Two contradicting receipts of one slot are logged as equivocation, whichever node sends the
// second, among the latest kRemembered receipts. After equivocation or a fraud verdict, nothing
// that the key signs is logged.
//
// With credits a window is paid from its request's reservation; without credits or a reservation no
// account pays.
//
// Under too much load, windows are refused early: only as many wait for a node as it can sign
// before it drops them, by its recent rate. API keys share all places fairly (key_shares.h), and
// windows without receipts are counted (unreceipted.h).
//
// Any bytes may come from a node. Bounded by base/limits.h. A plain state machine: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "coordinator/proof/credits.h"
#include "coordinator/proof/key_shares.h"
#include "coordinator/proof/unreceipted.h"
#include "coordinator/proof/window_claim.h"
#include "coordinator/request.h"
#include "ledger/books.h"
#include "ledger/entry.h"
#include "ledger/receipt.h"
#include "proto/control.pb.h"
#include "proto/step.h"

namespace hearth::coordinator {

// A pipeline whose stages all make receipts of the same program.
struct ReceiptPipeline {
  struct Stage {
    std::string node;
    PublicKey key;
    LayerRange layers;
    Hash256 owner = {};  // its owner; zeros: its own owner
  };
  Epoch epoch;
  Hash256 program;  // ledger::program_id()
  std::vector<Stage> stages;
  bool checks = false;  // it has newcomers and computes only audits
  Hash256 model = {};   // the program's model
};

// An ended request with all its tokens; the last one was sampled and never fed.
struct ReceiptRequest {
  Epoch epoch;
  ReceiptOrder order;
  std::uint32_t prompt_tokens = 0;
  std::vector<TokenId> tokens;
  SamplingParams sampling;
  RequestPolicy policy = {};
  bool is_audit = false;     // it audits another request and has seals instead of receipts
  std::uint32_t cached = 0;  // first prompt positions that no stage computed
};

class ReceiptCollector {
 public:
  static constexpr std::size_t kRemembered = 8'192;  // receipts

  // `credits`: null: no account pays.
  ReceiptCollector(SecretKey cluster, const Clock& clock,
                   std::shared_ptr<Credits> credits = nullptr)
      : cluster_(std::move(cluster)), clock_(clock), credits_(std::move(credits)) {}

  // Every entry of the log so far, in order. Receipts were checked when they were logged.
  Status recall(ByteSpan entry);
  // Replaces these calls for the entries of `books`. Before it, the caller passes the latest of
  // these entries, a few times kRemembered, to remember_entry(), so that their receipts are
  // remembered.
  void recall(const ledger::Books& books);
  void remember_entry(ByteSpan entry);

  void begin(ReceiptPipeline pipeline);
  // A request starts on that pipeline, with at most so many positions. `owner`: the API key's id.
  void start(Epoch epoch, const ledger::RequestId& request, std::uint64_t positions,
             const std::string& owner = {});
  void over(ReceiptRequest request);
  // The pipeline has ended. Its unfinished requests get no receipts there.
  void end(Epoch epoch);
  void take(const std::string& node, const control::v1::WindowClaims& claims);
  void take(const std::string& node, const control::v1::Receipts& receipts);
  void lose(const std::string& node);  // its pending answers will not come
  void on_timer();                     // once a second or so

  // Queues another entry for the log. Entries of a tombstoned key are dropped, because they would
  // break the rules.
  void log(ledger::EntryBody body);
  // Logs the key's membership if the log does not have it.
  void enter(const PublicKey& key) { (void)latest(key); }
  // A key new to the log will be logged as not vouched for.
  void doubt(const PublicKey& key) { unvouched_.insert(key); }
  // The newcomers by the books, whose rules allow no receipt of them.
  void set_newcomers(std::set<PublicKey> keys) { newcomers_ = std::move(keys); }
  // Takes no more receipts of this key, because the rules may refuse them from now on.
  void bar(const PublicKey& key) { barred_.insert(key); }
  void unbar(const PublicKey& key) { barred_.erase(key); }
  // Whether no receipt of any request is outstanding.
  bool is_settled() const;
  // Requests with outstanding receipts.
  std::set<ledger::RequestId> unsettled() const;
  // Whether it has contradicted itself, after which the rules allow no entry of it.
  bool contradicted(const PublicKey& key) const { return contradicted_.contains(key); }

  // Whether a node still has to answer with receipts.
  bool is_asking() const;
  // The API key with the most requests here; empty: the requests without a key, or no request.
  std::string heaviest() const { return places_.heaviest(); }
  // Counts also windows that never reach this class.
  Unreceipted& unreceipted() { return unreceipted_; }

  // The messages and entries since the last call, in order.
  struct Message {
    std::string node;
    control::v1::Countersign body;
  };
  std::vector<Message> take_messages() { return std::exchange(messages_, {}); }
  std::vector<Bytes> take_entries() { return std::exchange(entries_, {}); }

 private:
  using Claims = std::vector<std::optional<StageClaim>>;  // by stage
  struct Request {
    std::shared_ptr<const ReceiptPipeline> pipeline;
    std::uint64_t most = 0;  // positions
    std::string owner;
    std::map<std::uint32_t, Claims> windows;
    std::optional<ReceiptRequest> over;
    TimePoint over_at{};
    std::map<std::uint32_t, std::uint32_t> settled;  // windows, and how many positions each has
    std::set<std::uint32_t> claimed;                 // windows, by all stages
    std::uint64_t positions = 0;                     // of these
  };
  using ReceiptBytes = std::array<std::byte, ledger::kReceiptBytes>;
  using SignedSlot = std::pair<Hash256, ledger::Slot>;  // of a worker, by its key
  using RequestKey = std::pair<ledger::RequestId, Epoch>;
  using Requests = std::map<RequestKey, Request>;
  struct Wanted {
    ledger::Receipt receipt;
    std::string owner;
    std::uint32_t cached = 0;  // of the window's positions
  };
  // A signing node: the windows to ask for, and those asked. When it no longer knows a window, only
  // half as many may wait for it, until it keeps up again.
  struct Signer {
    std::deque<Wanted> next;
    KeyShares shares;  // of `next`
    std::size_t most = limits::kReceiptWindows;
    std::deque<Wanted> asked;  // in the order of the Countersign
    TimePoint asked_at{};
    bool is_behind = false;  // it no longer knew some windows

    Wanted take_oldest();
  };

  Status take_claim(const std::string& node, const control::v1::WindowClaim& claim);
  Status take_receipt(const std::string& node, Signer& signer, ByteSpan bytes);
  Status log_receipt(Wanted wanted, const ledger::Receipt& said, ByteSpan bytes);
  void remember(ByteSpan receipt);
  void hold_against(const std::string& sender, ByteSpan receipt);
  void settle(const RequestKey& key);
  Status settle(Request& request, std::uint32_t window, const Claims& claims);
  bool has_room(const ReceiptPipeline& pipeline, const std::string& owner) const;
  bool is_idle(const Request& request) const;
  bool drop_idle();
  void drop(Requests::iterator one);
  void expire(const Request& request);
  void ask(const std::string& node);
  void give_up(const std::string& node);
  Hash256& latest(const PublicKey& key);  // of a member; makes the key one

  const SecretKey cluster_;
  const Clock& clock_;
  const std::shared_ptr<Credits> credits_;
  std::map<Epoch, std::shared_ptr<const ReceiptPipeline>> pipelines_;
  Requests requests_;
  KeyShares places_;                      // of requests_
  KeyShares tokens_;                      // tokens of requests_
  std::deque<RequestKey> idle_;           // ended requests without known claims
  std::map<RequestKey, TimePoint> seen_;  // requests of the last hour: a slot has one receipt
  std::deque<RequestKey> seen_order_;     // the oldest first
  Unreceipted unreceipted_;
  std::map<std::string, Signer> signers_;
  std::map<PublicKey, Hash256> owners_;  // of nodes with an owner
  std::map<Hash256, Hash256> latest_;    // of members, by key: BLAKE2b of its latest, or zeros
  std::map<SignedSlot, ReceiptBytes> remembered_;
  std::deque<SignedSlot> remembered_order_;  // the oldest first
  std::set<PublicKey> tombstoned_;
  std::set<PublicKey> barred_;
  std::set<PublicKey> contradicted_;
  std::set<PublicKey> unvouched_;
  std::set<PublicKey> newcomers_;
  std::int64_t time_ = 0;  // of the latest entry
  bool begun_ = false;     // the log has its first entry
  std::vector<Message> messages_;
  std::vector<Bytes> entries_;
};

}  // namespace hearth::coordinator
