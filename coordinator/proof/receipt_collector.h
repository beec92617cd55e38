// ReceiptCollector: the coordinator's part in receipts (ledger/PROTOCOL.md, 2). Stages claim
// windows; when all stages of one have, and its request is over, the desk compares what they say
// with each other and with the tokens that went in and out. Where everything agrees it signs both
// ends of the pipeline, hands every stage its neighbours' signatures, and takes the receipts: as
// entries of the log. What contradicts is an error in the process log that names the node, and is
// no entry; but two receipts of one slot that a member signed are one, for they prove themselves.
//
// A window has receipts when its request ended in the pipeline that computed it; what was computed
// for one that went on elsewhere has none. Stages that say nothing have none either, and their
// neighbours with them.
//
// Two receipts of one slot that say different things are logged as equivocation, no
// matter which node sends the second: of the latest kRemembered that were asked for, logged or
// refused. Who loses its standing for good, by that or by a verdict of fraud, signs nothing that is
// logged from there on.
//
// With credits a window is paid from what was kept for its request; without, or when nothing was,
// no account pays.
//
// Under more load than can be signed, windows are refused before they wait: as many wait for a node
// as it was just seen to sign before it forgets them. API keys share all places fairly
// (key_shares.h), and what has no receipt is counted (unreceipted.h).
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
    Hash256 owner = {};  // who answers for it; zeros: it does itself
  };
  Epoch epoch;
  Hash256 program;  // ledger::program_id()
  std::vector<Stage> stages;
  bool checks = false;  // newcomers stand in it: it computes audits alone
  Hash256 model = {};   // that the program is of
};

// A request that is over: all of its tokens, the last of which was sampled and never fed.
struct ReceiptRequest {
  Epoch epoch;
  ReceiptOrder order;
  std::uint32_t prompt_tokens = 0;
  std::vector<TokenId> tokens;
  SamplingParams sampling;
  RequestPolicy policy = {};
  bool is_audit = false;     // of another request: it has seals in place of receipts
  std::uint32_t cached = 0;  // positions of the prompt, from the first on, that no stage computed
};

class ReceiptCollector {
 public:
  static constexpr std::size_t kRemembered = 8'192;  // receipts

  // `credits`: null, no account pays.
  ReceiptCollector(SecretKey cluster, const Clock& clock,
                   std::shared_ptr<Credits> credits = nullptr)
      : cluster_(std::move(cluster)), clock_(clock), credits_(std::move(credits)) {}

  // Every entry of the log so far, in order. Receipts were checked when they were logged.
  Status recall(ByteSpan entry);
  // In place of these: the books of the entries so far, and before that the latest of these
  // entries, a few times kRemembered, from which receipts are remembered.
  void recall(const ledger::Books& books);
  void remember_entry(ByteSpan entry);

  void begin(ReceiptPipeline pipeline);
  // On that pipeline; it will have no more positions than so many. `owner`: the API key's id.
  void start(Epoch epoch, const ledger::RequestId& request, std::uint64_t positions,
             const std::string& owner = {});
  void over(ReceiptRequest request);
  // The pipeline is gone. Its requests that are not over have no receipts there.
  void end(Epoch epoch);
  void take(const std::string& node, const control::v1::WindowClaims& claims);
  void take(const std::string& node, const control::v1::Receipts& receipts);
  void lose(const std::string& node);  // what it was asked is not answered any more
  void on_timer();                     // once a second or so

  // Something else for the log, behind what is there. What a tombstoned key says is left out: a log
  // that had it would not be sound.
  void log(ledger::EntryBody body);
  // Whom the log has not named yet it names as a member.
  void enter(const PublicKey& key) { (void)latest(key); }
  // Where the log has not named it yet, it will do so as one that no member vouches for.
  void doubt(const PublicKey& key) { unvouched_.insert(key); }
  // By the books, which allow no receipt of them.
  void set_newcomers(std::set<PublicKey> keys) { newcomers_ = std::move(keys); }
  // From here on the books allow, or may allow, no receipt of this key: none of it is taken.
  void bar(const PublicKey& key) { barred_.insert(key); }
  void unbar(const PublicKey& key) { barred_.erase(key); }
  // Nothing is kept of any request: no receipt is still to come.
  bool is_settled() const;
  // Requests that receipts may still come of.
  std::set<ledger::RequestId> unsettled() const;
  // Whether it has contradicted itself: the books allow nothing of it.
  bool contradicted(const PublicKey& key) const { return contradicted_.contains(key); }

  // Whether some node is to answer with receipts.
  bool is_asking() const;
  // The API key with most requests here; empty: those without a key have most, or nothing is here.
  std::string heaviest() const { return places_.heaviest(); }
  // Also of windows that never come here.
  Unreceipted& unreceipted() { return unreceipted_; }

  // What is to be sent and to be logged since the last call, in order.
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
  // A node that signs: what it is to be asked, and what it has been. Where it knows a window no
  // more when it is asked, less may wait for it: half of it, until it keeps up again.
  struct Signer {
    std::deque<Wanted> next;
    KeyShares shares;  // of `next`
    std::size_t most = limits::kReceiptWindows;
    std::deque<Wanted> asked;  // in the order of the Countersign
    TimePoint asked_at{};
    bool is_behind = false;  // some of what it was asked it knew no more

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
  Hash256& latest(const PublicKey& key);  // of a member, which it is from then on

  const SecretKey cluster_;
  const Clock& clock_;
  const std::shared_ptr<Credits> credits_;
  std::map<Epoch, std::shared_ptr<const ReceiptPipeline>> pipelines_;
  Requests requests_;
  KeyShares places_;             // of requests_
  KeyShares tokens_;             // that they hold
  std::deque<RequestKey> idle_;  // over, and nothing was computed of them yet that is known
  std::map<RequestKey, TimePoint> seen_;  // requests of the last hour: a slot has one receipt
  std::deque<RequestKey> seen_order_;     // the oldest first
  Unreceipted unreceipted_;
  std::map<std::string, Signer> signers_;
  std::map<PublicKey, Hash256> owners_;  // of nodes that are not their own
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
