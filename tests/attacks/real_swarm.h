// A swarm in one process, of the product's own parts and a clock that stands still: engines on a
// small model, the batcher, what stages claim and sign (WindowReceipts), the coordinator's desks of
// receipts and audits, and the books of a stranger who checks every entry. Only sockets and threads
// are left out.
//
// Any stage may be given another engine, another way to compute, or another way to say what it
// found. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/proof/auditor.h"
#include "coordinator/proof/receipt_collector.h"
#include "kernels/kernels.h"
#include "ledger/books.h"
#include "ledger/entry.h"
#include "model/synthetic.h"
#include "node/engine/engine.h"
#include "node/proof/window_receipts.h"
#include "node/runner/batcher.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::attacks {

SecretKey key_of(unsigned char seed);
// Two layers for each of three stages.
model::SyntheticOptions small_model();
std::shared_ptr<const model::GgufFile> parse_model(Bytes bytes);
std::unique_ptr<node::Engine> load_engine(const std::shared_ptr<const model::GgufFile>& file,
                                          LayerRange layers, std::uint32_t stage,
                                          const kernels::Kernels* kernels = nullptr);

// The 16-bit value of a residual, by row and place in it.
std::uint16_t residual(const StepBatch& batch, std::size_t row, std::size_t place);
void set_residual(StepBatch& batch, std::size_t row, std::size_t place, std::uint16_t value);

// The encoded grammar of any JSON object.
Bytes any_object_grammar();
// RealStage::compute of one that ignores grammars: it claims what it sampled under the request's
// own parameters.
Status compute_without_mask(node::Engine& engine, StepBatch& batch, node::StepResult& result);

struct RealStage {
  std::string node;
  SecretKey key;
  std::unique_ptr<node::Engine> engine;
  std::unique_ptr<node::WindowReceipts> receipts;
  // In place of engine->step(); what it leaves in the batch is what goes out.
  std::function<Status(node::Engine&, StepBatch&, node::StepResult&)> compute = {};
  // Called with what came in and the batch that goes out, before its receipts see it.
  std::function<void(StepBatch&, const Bytes& in)> lie = {};
  // What the next stage gets, when that is not what its receipts saw.
  std::function<void(StepBatch&)> hands_on = {};
  // Of a claim that it is about to send.
  std::function<void(control::v1::WindowClaim&)> claim = {};
  std::map<std::uint64_t, control::v1::Opening> sealed = {};  // by the entry that it audits
};

class RealPipeline {
 public:
  // Keys of its stages begin at `keys`.
  RealPipeline(const std::shared_ptr<const model::GgufFile>& file, Epoch epoch, std::string name,
               unsigned char keys, const Clock& clock, const std::string& build = "build");

  // To the end of the sequence; all of its tokens. kNumeric and the like: the sequence failed.
  Result<std::vector<TokenId>> compute(const SequenceOpen& open, std::vector<TokenId> tokens);
  // One step; false when nothing is left to do.
  Result<bool> step(std::vector<SampledToken>& tokens);

  coordinator::ReceiptPipeline description() const;
  node::Batcher& batcher() { return batcher_; }

  Epoch epoch;
  std::vector<RealStage> stages;
  std::uint64_t replayed = 0;  // rows that a stage had kept and did not compute

 private:
  node::Batcher batcher_;
};

class RealSwarm {
 public:
  explicit RealSwarm(coordinator::AuditMode mode = coordinator::AuditMode::kFull,
                     const model::SyntheticOptions& options = small_model());

  RealPipeline& add_pipeline(const std::string& name);  // of the same cut

  // Answers a request on the first pipeline, from its submission to its receipts and what is drawn;
  // audits that follow are computed by whom the desk names.
  struct Answer {
    ledger::RequestId request{};
    std::vector<TokenId> prompt;
    std::vector<TokenId> tokens;  // all
    Hash256 salt;
  };
  Answer ask(std::vector<TokenId> prompt, std::uint32_t max_tokens = 4, float temperature = 0.8F);
  Answer ask(unsigned number, std::uint32_t prompt_tokens = 12);  // a prompt of its own
  SequenceOpen open(const std::vector<TokenId>& prompt, const SamplingParams& sampling,
                    const ReceiptOrder& order);
  void later(Duration time);
  void pump();
  void run_waiting();  // what is in `runs`

  // Receipts in the log, and those of one stage; entries of a kind (ledger/entry.h).
  std::vector<ledger::Receipt> receipts() const;
  std::size_t of_kind(std::size_t kind) const;
  // The stage of the only dispute; nothing unless exactly one is open.
  std::optional<std::uint16_t> disputed_stage() const;
  // Ends the latest dispute against one of its parties.
  Status judge(const PublicKey& guilty, ledger::Verdict verdict);
  const ledger::Standing& standing(const RealStage& stage) const;

  RealStage& stage(std::size_t pipeline, std::size_t index) {
    return pipelines.at(pipeline)->stages.at(index);
  }
  RealStage& stage(const std::string& node);

  testing::FakeClock clock;
  std::shared_ptr<const model::GgufFile> file;
  std::vector<std::unique_ptr<RealPipeline>> pipelines;
  coordinator::ReceiptCollector desk;
  coordinator::Auditor audits;
  ledger::Books books;  // of a stranger
  std::vector<Bytes> entries;
  // By request, of what was drawn: the chance that none of its windows is, by the rates that their
  // workers had then; and those of which one is.
  std::map<ledger::RequestId, double> unseen;
  std::set<ledger::RequestId> drawn;
  std::string refusal;  // of the stranger's books, the latest
  Bytes grammar;        // of the requests that follow; empty: none
  // Of the prefix cache: of requests, and of audits whose order allows one.
  std::optional<Hash256> scope;
  bool runs_audits = true;  // else they wait in `runs`
  bool willing = true;      // auditors seal and open
  std::vector<coordinator::AuditRun> runs;

 private:
  void log(const Bytes& entry);
  void reckon_draw();
  void run(const coordinator::AuditRun& order);
  void answer(const coordinator::Auditor::Message& message);
  void send_claims(RealPipeline& pipeline, bool is_audit);

  // What stages claimed last, by node and request: what went out.
  std::map<std::string, std::map<ledger::RequestId, Hash256>> claimed_;
  std::uint64_t sequences_ = 0;
  std::uint64_t requests_ = 0;
};

}  // namespace hearth::attacks
