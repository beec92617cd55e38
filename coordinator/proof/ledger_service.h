// LedgerService: runs a ReceiptCollector, an Auditor and their log on a separate thread, so that no
// request waits for a signature or a disk. Entries of about half a second are written together.
// Work beyond limits::kReceiptQueueBytes is dropped, and its requests have no receipts. A failed
// log takes no entries until it is opened again, and requests continue without receipts: fault()
// has the reason. When the thread is seconds behind, new requests of the API key with the most
// requests get no receipts, so that the thread never falls so far behind that all receipts are
// late.
//
// Threads: made, called and destroyed on the main thread; `post` hands messages to it and may be
// called from any.
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
  // Callbacks on the main thread; each may be null. A coordinator ignores what is not of its nodes
  // and its requests.
  struct Listener {
    std::function<void(const std::string& node, const control::v1::CoordinatorMessage&)> send = {};
    // An audit's request to compute. False: its nodes are another coordinator's.
    std::function<bool(const AuditRun&)> run = {};
    std::function<void(const AuditOutcome&)> outcome = {};  // of requests' audits
    // why_barred(), is_newcomer() or why_unreceipted() may have changed.
    std::function<void()> standing = {};
  };
  // Stores a verdict's evidence under its BLAKE2b, on the disk when it returns. Any thread.
  using Keep = std::function<Status(const Hash256& hash, ByteSpan evidence)>;

  // Begins a log in an empty folder, or continues the cluster's own, which it reads whole:
  // kInvalidInput when that is not sound. `build`: this program's, with which nodes' builds are
  // compared. `credits`: pays for windows; null: a ledger without credits. `schedule`: runs the
  // work instead of a thread.
  static Result<std::unique_ptr<LedgerService>> open(std::unique_ptr<ledger::LogFolder> folder,
                                                     const SecretKey& cluster, std::string build,
                                                     AuditMode audits, const Clock& clock,
                                                     Post post,
                                                     std::shared_ptr<Credits> credits = nullptr,
                                                     WorkerThread::Schedule schedule = {});
  ~LedgerService() override;  // logs what is settled

  const std::string& build() const { return build_; }
  std::string fault() const override;
  std::optional<std::int64_t> time() const override;
  std::optional<std::uint64_t> free_bytes() const override;
  void summarise(std::function<void(const LedgerSummary& summary)> done) const override;
  // The coordinators of a server, one for each loaded model, listen until they destroy the result.
  std::shared_ptr<const Listener> listen(Listener listener);
  // Logs a grant; `done` is called on this class's thread once the grant is on the disk and
  // spendable. kInvalidInput for an amount out of its range; kRefused without credits. Any thread.
  void grant(const PublicKey& to, std::int64_t amount, std::function<void(const Status&)> done);
  // `referee` decides disputes; null: disputes are not judged. `keep` stores evidence; null: no
  // verdicts. `rate`: the share of windows that the referee audits, in parts of a million.
  void set_referee(Referee referee, Keep keep,
                   std::int64_t rate = ledger::Policy().coordinator_rate);
  // Ends the disputes that an earlier process left open, by stored evidence or unjudged. `kept`
  // reads the evidence, on this class's thread, if there are such disputes. Once, after
  // set_referee().
  void take_up_disputes(std::function<std::vector<Bytes>()> kept);
  // Sets the nodes' machines as the store has them; without it, a change over a restart goes
  // unnoticed.
  void remember_machines(MachineHistory machines);
  // Why this key is barred, a sentence for people; empty: not barred.
  std::string why_barred(const PublicKey& key) const;
  // Why a node's work has no receipts: its build differs, or it has not signed recently; empty: it
  // has receipts, or there are no audits.
  std::string why_unreceipted(const std::string& node, const std::string& build) const;
  // No member vouches for this key: a key new to the log becomes a newcomer's.
  void doubt(const PublicKey& key);
  // By the log and by its pending entries.
  bool is_newcomer(const PublicKey& key) const;
  AuditStatus audits() const;
  // Asks whether ended requests have no outstanding receipts, seals or openings. `done` is called
  // on the main thread, while there is a listener.
  void ask_settled(std::function<void(bool settled)> done);
  // The standings by the latest entries; null without audits.
  std::shared_ptr<const Standings> standings() const;

  // As in ReceiptCollector and Auditor.
  void begin(ReceiptPipeline pipeline);
  void start(Epoch epoch, const ledger::RequestId& request, std::uint64_t positions,
             const std::string& owner = {});
  // Counts a request without receipts, because the nodes `foreign` among its stages have another
  // build.
  void skip(const std::vector<std::string>& foreign, std::size_t stages, const std::string& owner,
            std::uint64_t tokens);
  void over(ReceiptRequest request);
  void end(Epoch epoch);
  void put_off(const ledger::RequestId& run, const std::string& why);
  void give_up(const ledger::RequestId& run, const std::string& why);
  // Takes a node's message for the ledger; ignores other messages.
  void take(const std::string& node, const control::v1::WorkerMessage& message);
  void meet(const std::string& node, const PublicKey& key);  // it has a session, of our build
  // Records its machine, with any build (MachineHistory).
  void meet_machine(const PublicKey& key, const std::string& machine);
  void lose(const std::string& node);

 private:
  struct State;
  LedgerService(std::string build, std::shared_ptr<State> state);

  const std::string build_;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::coordinator
