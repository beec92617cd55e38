// LedgerService: keeps a ReceiptCollector, an Auditor and the log that their entries go to, on a
// thread of their own, so that no request waits for a signature or a disk. Entries of about half a
// second meet the disk together. What the thread cannot keep up with (limits::kReceiptQueueBytes)
// is left out; requests that it belongs to have no receipts. A log that fails takes nothing more
// until it is opened again, and requests go on without receipts: fault() says why. Where the thread
// is seconds behind, requests of the key that has most are refused their receipts as they begin,
// and cost it nothing more: it is never so far behind that all are too late.
//
// Threads: made, called and destroyed on the owner's; `post` hands messages to it and may be called
// from any.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/worker_thread.h"
#include "coordinator/proof/auditor.h"
#include "coordinator/proof/ledger_view.h"
#include "coordinator/proof/machine_history.h"
#include "coordinator/proof/receipt_collector.h"
#include "ledger/folder.h"

namespace hearth::coordinator {

class LedgerService final : public LedgerView {
 public:
  using Post = std::function<void(std::function<void()>)>;
  // What the owner is told, on its thread; what is null is not told.
  struct Listener {
    std::function<void(const std::string& node, const control::v1::CoordinatorMessage&)> send = {};
    std::function<void(AuditRun)> run = {};  // a request that an audit wants to have computed
    std::function<void(const AuditOutcome&)> outcome = {};  // of audits of requests
    std::function<void()> standing = {};  // why_barred() or is_newcomer() may say something else
  };
  // Keeps a verdict's evidence under its BLAKE2b; when it returns, it is on the disk. Any thread.
  using Keep = std::function<Status(const Hash256& hash, ByteSpan evidence)>;

  // Begins a log in an empty folder, or goes on with the cluster's own, which it reads whole:
  // kInvalidInput when that is not sound. `build`: of this program, by which a node's is judged.
  // `credits`: by which windows are paid; null: a ledger that is a log only. `schedule`: in place
  // of the thread.
  static Result<std::unique_ptr<LedgerService>> open(std::unique_ptr<ledger::LogFolder> folder,
                                                     const SecretKey& cluster, std::string build,
                                                     AuditMode audits, const Clock& clock,
                                                     Post post,
                                                     std::shared_ptr<Credits> credits = nullptr,
                                                     WorkerThread::Schedule schedule = {});
  ~LedgerService() override;  // what is settled is logged

  const std::string& build() const { return build_; }
  std::string fault() const override;
  std::optional<std::int64_t> time() const override;
  std::optional<std::uint64_t> free_bytes() const override;
  void summarise(std::function<void(const LedgerSummary& summary)> done) const override;
  void listen(Listener listener);
  // Logs a grant; `done` hears, on this class's thread, once it is on the disk and can be spent.
  // kInvalidInput for an amount out of its range; kRefused without credits. Any thread.
  void grant(const PublicKey& to, std::int64_t amount, std::function<void(const Status&)> done);
  // Says which side of a dispute is right; null: no dispute is judged. `keep`: where evidence is
  // kept; null: there are no verdicts. `rate`: the share of windows that the referee computes again
  // unasked, in parts of a million.
  void set_referee(Referee referee, Keep keep,
                   std::int64_t rate = ledger::Policy().coordinator_rate);
  // Ends the disputes that an earlier process has left open, by what it kept of their verdicts, or
  // unjudged. `kept` is asked for the evidence where there are any, on this class's thread. Once,
  // after set_referee().
  void take_up_disputes(std::function<std::vector<Bytes>()> kept);
  // What the machines of nodes were so far; without it no change of one is seen over a restart.
  void remember_machines(MachineHistory machines);
  // Why a node with this key may be given no work, a sentence for people; empty: it may.
  std::string why_barred(const PublicKey& key) const;
  // Why a node's work has no receipts, by its program's name in receipts or for what it has not
  // signed lately; empty: it has, or nothing is audited.
  std::string why_unreceipted(const std::string& node, const std::string& build) const;
  // No member vouches for this key: where the log does not know it yet, it is a newcomer's.
  void doubt(const PublicKey& key);
  // By the log, and by what it is about to be told.
  bool is_newcomer(const PublicKey& key) const;
  AuditStatus audits() const;
  // Whether nothing that a node is to say of requests that are over is still to come: receipts, and
  // seals and openings of audits. `done` hears it on the owner's thread, while there is a listener.
  void ask_settled(std::function<void(bool settled)> done);
  // By the latest entries of the log; null while nothing is audited.
  std::shared_ptr<const Standings> standings() const;

  // As of ReceiptCollector and Auditor.
  void begin(ReceiptPipeline pipeline);
  void start(Epoch epoch, const ledger::RequestId& request, std::uint64_t positions,
             const std::string& owner = {});
  // A request of so many tokens was computed by so many stages, some of which, `foreign`, make no
  // receipts like this program's: it is counted.
  void skip(const std::vector<std::string>& foreign, std::size_t stages, const std::string& owner,
            std::uint64_t tokens);
  void over(ReceiptRequest request);
  void end(Epoch epoch);
  void put_off(const ledger::RequestId& run, const std::string& why);
  void give_up(const ledger::RequestId& run, const std::string& why);
  // What a node says to the ledger; other messages are ignored.
  void take(const std::string& node, const control::v1::WorkerMessage& message);
  void meet(const std::string& node, const PublicKey& key);  // it has a session, of this program
  // What its machine is, of this program or not (MachineHistory).
  void meet_machine(const PublicKey& key, const std::string& machine);
  void lose(const std::string& node);

 private:
  struct State;
  LedgerService(std::string build, std::shared_ptr<State> state);

  const std::string build_;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::coordinator
