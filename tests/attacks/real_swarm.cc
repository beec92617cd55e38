#include "tests/attacks/real_swarm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/canonical.h"
#include "ledger/statements.h"
#include "model/grammar/grammar.h"
#include "model/spec.h"
#include "proto/fixed_field.h"

namespace hearth::attacks {
namespace {

constexpr std::uint32_t kStages = 3;
constexpr std::uint32_t kLayersOfStage = 2;

SecretKey cluster_key() { return key_of(1); }
Hash256 model_hash() { return blake2b(as_bytes("the small model")); }

LayerRange layers_of(std::uint32_t stage) {
  return {stage * kLayersOfStage, (stage + 1) * kLayersOfStage};
}

// As WindowReceipts::seal(), with a salt that follows from the entry, so that a log of the same
// requests is the same log again.
control::v1::Seals seal(RealStage& stage, const control::v1::SealOrder& order,
                        const std::map<ledger::RequestId, Hash256>& claimed) {
  control::v1::Seals answer;
  for (const control::v1::AuditedWindow& window : order.windows()) {
    ledger::RequestId request{};
    if (!read_field(window.request(), request) || !claimed.contains(request)) continue;
    const Hash256 root = claimed.at(request);
    const Hash256 salt = blake2b(as_bytes("salt " + std::to_string(window.entry())));
    const ledger::SealEntry said = ledger::sign_seal(
        window.entry(), ledger::seal_of(window.entry(), stage.key.public_key(), root, salt),
        cluster_key().public_key(), stage.key);
    control::v1::Seal& seal = *answer.add_seals();
    seal.set_entry(window.entry());
    seal.set_seal(to_field(said.seal.bytes));
    seal.set_signature(to_field(said.signature));
    control::v1::Opening& opening = stage.sealed[window.entry()];
    opening.set_entry(window.entry());
    opening.set_root(to_field(root.bytes));
    opening.set_salt(to_field(salt.bytes));
  }
  return answer;
}

}  // namespace

SecretKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

model::SyntheticOptions small_model() {
  model::SyntheticOptions options;
  options.layers = kStages * kLayersOfStage;
  return options;
}

std::shared_ptr<const model::GgufFile> parse_model(Bytes bytes) {
  struct Kept {
    Bytes bytes;
    std::shared_ptr<const model::GgufFile> file;
  };
  const auto kept = std::make_shared<Kept>(Kept{std::move(bytes), nullptr});
  kept->file = model::GgufFile::parse(kept->bytes, "small").value();
  return {kept, kept->file.get()};
}

std::unique_ptr<node::Engine> load_engine(const std::shared_ptr<const model::GgufFile>& file,
                                          LayerRange layers, std::uint32_t stage,
                                          const kernels::Kernels* kernels) {
  node::EngineOptions options;
  options.layers = layers;
  options.stage = stage;
  options.kv_budget_bytes = 8 << 20;
  options.replay_bytes = 1 << 20;
  options.kernels = kernels;
  return node::Engine::load(file, model::ModelSpec::read(*file).value(), options).value();
}

std::uint16_t residual(const StepBatch& batch, std::size_t row, std::size_t place) {
  const std::size_t at = row * (batch.activations.size() / batch.rows.size()) + 2 * place;
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(batch.activations[at]) |
                                    std::to_integer<unsigned>(batch.activations[at + 1]) << 8);
}

void set_residual(StepBatch& batch, std::size_t row, std::size_t place, std::uint16_t value) {
  const std::size_t at = row * (batch.activations.size() / batch.rows.size()) + 2 * place;
  batch.activations[at] = std::byte(value & 0xff);
  batch.activations[at + 1] = std::byte(value >> 8);
}

Bytes any_object_grammar() {
  return (*model::compile_grammar({model::GrammarSource::Kind::kJsonObject, {}}))->bytes();
}

Status compute_without_mask(node::Engine& engine, StepBatch& batch, node::StepResult& result) {
  const std::vector<SequenceOpen> opens = batch.opens;
  for (SequenceOpen& open : batch.opens) open.sampling.grammar.clear();
  const Status done = engine.step(batch, result);
  batch.opens = opens;
  return done;
}

// --- a pipeline ---

RealPipeline::RealPipeline(const std::shared_ptr<const model::GgufFile>& file, Epoch number,
                           std::string name, unsigned char keys, const Clock& clock,
                           const std::string& build)
    : epoch(number), batcher_(node::BatcherOptions{number, 512, 128, 1}) {
  for (std::uint32_t i = 0; i < kStages; ++i) {
    const SecretKey key = key_of(static_cast<unsigned char>(keys + i));
    stages.push_back({name + std::to_string(i), key, load_engine(file, layers_of(i), i),
                      std::make_unique<node::WindowReceipts>(
                          node::ReceiptIdentity{key, cluster_key().public_key(), build}, clock)});
    node::Assignment assignment;
    assignment.epoch = epoch;
    assignment.stage = i;
    assignment.stages = kStages;
    assignment.layers = layers_of(i);
    stages.back().receipts->begin(assignment, model_hash());
  }
}

coordinator::ReceiptPipeline RealPipeline::description() const {
  coordinator::ReceiptPipeline out{
      epoch, ledger::program_id(model_hash(), "build", kernels::kCanonicalVersion), {}};
  for (std::uint32_t i = 0; i < kStages; ++i) {
    out.stages.push_back({stages[i].node, stages[i].key.public_key(), layers_of(i)});
  }
  return out;
}

Result<bool> RealPipeline::step(std::vector<SampledToken>& tokens) {
  std::optional<StepBatch> batch = batcher_.next();
  if (!batch) return false;
  StepTokens said{batch->epoch, batch->step, {}, {}};
  for (RealStage& stage : stages) {
    const Bytes in = batch->activations;
    node::StepResult result;
    if (stage.compute) {
      TRY_VOID(stage.compute(*stage.engine, *batch, result));
    } else {
      TRY_VOID(stage.engine->step(*batch, result));
    }
    replayed += result.replayed;
    if (stage.lie) stage.lie(*batch, in);
    stage.receipts->step(*batch, in, result.tokens);
    if (stage.hands_on) stage.hands_on(*batch);
    said.tokens = std::move(result.tokens);
    said.released = std::move(result.released);
  }
  TRY_VOID(batcher_.on_tokens(said));
  tokens.insert(tokens.end(), said.tokens.begin(), said.tokens.end());
  return true;
}

Result<std::vector<TokenId>> RealPipeline::compute(const SequenceOpen& open,
                                                   std::vector<TokenId> tokens) {
  TRY_VOID(batcher_.submit({epoch, open, tokens}));
  std::vector<SampledToken> sampled;
  for (bool more = true; more;) {
    TRY(more, step(sampled));
  }
  for (const SampledToken& one : sampled) {
    if (one.finish == FinishReason::kError) return Error{one.error, "the sequence failed"};
    tokens.push_back(one.token);
  }
  return tokens;
}

// --- the swarm ---

RealSwarm::RealSwarm(coordinator::AuditMode mode, const model::SyntheticOptions& options)
    : file(parse_model(model::synthetic_model_bytes(options).value())),
      desk(cluster_key(), clock),
      audits(cluster_key(), clock, mode) {
  add_pipeline("a");
  add_pipeline("b");
}

RealPipeline& RealSwarm::add_pipeline(const std::string& name) {
  const std::size_t number = pipelines.size();
  pipelines.push_back(std::make_unique<RealPipeline>(
      file, Epoch(number + 1), name, static_cast<unsigned char>(10 + 10 * number), clock));
  desk.begin(pipelines.back()->description());
  audits.begin(pipelines.back()->description());
  return *pipelines.back();
}

RealStage& RealSwarm::stage(const std::string& node) {
  for (auto& pipeline : pipelines) {
    for (RealStage& one : pipeline->stages) {
      if (one.node == node) return one;
    }
  }
  throw std::out_of_range(node);
}

SequenceOpen RealSwarm::open(const std::vector<TokenId>& prompt, const SamplingParams& sampling,
                             const ReceiptOrder& order) {
  SequenceOpen out;
  out.sequence = SequenceId(++sequences_);
  out.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  out.sampling = sampling;
  out.receipt = order;
  out.scope = scope;
  return out;
}

RealSwarm::Answer RealSwarm::ask(unsigned number, std::uint32_t prompt_tokens) {
  std::vector<TokenId> prompt;
  for (std::uint32_t i = 0; i < prompt_tokens; ++i) {
    prompt.push_back(static_cast<TokenId>(30 + (number * 31 + i * 7 + i * i * number) % 350));
  }
  return ask(std::move(prompt));
}

RealSwarm::Answer RealSwarm::ask(std::vector<TokenId> prompt, std::uint32_t max_tokens,
                                 float temperature) {
  RealPipeline& pipeline = *pipelines.front();
  const std::uint64_t number = ++requests_;
  const Hash256 own = blake2b(as_bytes("request " + std::to_string(number)));
  coordinator::ReceiptRequest request;
  request.epoch = pipeline.epoch;
  request.order.request =
      ledger::request_of(ledger::answer_name(clock.unix_seconds(), own.bytes), 0);
  request.order.salt = blake2b(as_bytes("salt " + std::to_string(number)));
  request.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  request.sampling.temperature = temperature;
  request.sampling.seed = number;
  request.sampling.max_tokens = max_tokens;
  request.sampling.grammar = grammar;
  desk.start(pipeline.epoch, request.order.request, prompt.size() + max_tokens);
  const auto tokens = pipeline.compute(open(prompt, request.sampling, request.order), prompt);
  EXPECT_TRUE(tokens) << tokens.error().message;
  if (!tokens) return {request.order.request, prompt, {}, request.order.salt};
  request.tokens = *tokens;
  send_claims(pipeline, false);
  audits.over(request);
  desk.over(request);
  pump();
  later(coordinator::Auditor::kDrawPause);
  return {request.order.request, std::move(prompt), *tokens, request.order.salt};
}

void RealSwarm::send_claims(RealPipeline& pipeline, bool is_audit) {
  for (RealStage& stage : pipeline.stages) {
    while (stage.receipts->has_claims()) {
      control::v1::WindowClaims claims = stage.receipts->take_claims();
      for (control::v1::WindowClaim& one : *claims.mutable_windows()) {
        if (stage.claim) stage.claim(one);
        ledger::RequestId request{};
        if (!read_field(one.request(), request)) continue;
        (void)read_field(one.out_root(), claimed_[stage.node][request].bytes);
      }
      is_audit ? audits.take(stage.node, claims) : desk.take(stage.node, claims);
    }
  }
}

void RealSwarm::run(const coordinator::AuditRun& order) {
  const auto found = std::ranges::find_if(pipelines, [&order](const auto& one) {
    return one->stages.front().node == order.nodes.front();
  });
  RealPipeline& pipeline = **found;
  std::vector<TokenId> fed = order.prompt;
  fed.insert(fed.end(), order.answer.begin(), order.answer.end());
  SequenceOpen opened = open(order.prompt, order.sampling, order.order);
  if (order.cache == coordinator::CacheScope::kOff) opened.scope.reset();
  const auto tokens = pipeline.compute(opened, fed);
  EXPECT_TRUE(tokens) << tokens.error().message;
  if (!tokens) return;
  coordinator::ReceiptRequest over;
  over.epoch = pipeline.epoch;
  over.order = order.order;
  over.prompt_tokens = static_cast<std::uint32_t>(order.prompt.size());
  over.tokens = *tokens;
  over.sampling = order.sampling;
  send_claims(pipeline, true);
  audits.over(over);
}

void RealSwarm::run_waiting() {
  for (const coordinator::AuditRun& order : std::exchange(runs, {})) run(order);
  pump();
}

void RealSwarm::answer(const coordinator::Auditor::Message& message) {
  RealStage& one = stage(message.node);
  if (message.body.has_seal_order()) {
    audits.take(one.node, seal(one, message.body.seal_order(), claimed_[one.node]));
    return;
  }
  control::v1::Openings openings;
  for (const std::uint64_t entry : message.body.open_order().entries()) {
    *openings.add_openings() = one.sealed.at(entry);
  }
  audits.take(one.node, openings);
}

// What the next draw is over, and at which rates. Requests here have one window, whose stages are
// drawn together: the greatest of their rates is the request's.
void RealSwarm::reckon_draw() {
  for (std::uint64_t entry = books.drawn(); entry < books.entries(); ++entry) {
    const ledger::Receipt* receipt = books.receipt(entry);
    if (receipt == nullptr) continue;
    const std::int64_t rate =
        books.standing(receipt->worker)->audit_rate(books.policy(), clock.unix_seconds());
    const auto [found, fresh] = unseen.emplace(receipt->slot.request, 1.0);
    found->second = std::min(found->second, 1.0 - static_cast<double>(rate) / ledger::kMillion);
  }
}

void RealSwarm::log(const Bytes& entry) {
  const bool is_draw =
      std::holds_alternative<ledger::DrawEntry>(ledger::parse_entry(entry).value().body);
  if (is_draw) reckon_draw();
  const Status applied = books.apply(entry);
  if (!applied) {
    refusal = applied.error().message;
    return;
  }
  if (is_draw) {
    for (const std::uint64_t one : books.selected()) {
      drawn.insert(books.receipt(one)->slot.request);
    }
  }
  entries.push_back(entry);
  EXPECT_TRUE(audits.logged(entry));
}

void RealSwarm::pump() {
  for (bool any = true; any;) {
    any = false;
    if (const auto draw = audits.draw()) desk.log(*draw);
    for (const coordinator::Auditor::ForLog& one : audits.take_entries()) {
      desk.enter(one.member);
      desk.log(one.body);
    }
    for (const Bytes& entry : desk.take_entries()) {
      any = true;
      log(entry);
    }
    for (const coordinator::ReceiptCollector::Message& message : desk.take_messages()) {
      any = true;
      desk.take(message.node, stage(message.node).receipts->countersign(message.body));
    }
    coordinator::Auditor::Output output = audits.take_output();
    for (coordinator::AuditRun& order : output.runs) {
      any = true;
      if (runs_audits) {
        run(order);
      } else {
        runs.push_back(std::move(order));
      }
    }
    for (const coordinator::Auditor::Message& message : output.messages) {
      any = any || willing;
      if (willing) answer(message);
    }
  }
}

void RealSwarm::later(Duration time) {
  clock.advance(time);
  desk.on_timer();
  audits.on_timer();
  pump();
}

std::vector<ledger::Receipt> RealSwarm::receipts() const {
  std::vector<ledger::Receipt> out;
  for (const Bytes& entry : entries) {
    const ByteSpan receipt = ledger::receipt_in(entry);
    if (!receipt.empty()) out.push_back(ledger::reread_receipt(receipt).value());
  }
  return out;
}

std::size_t RealSwarm::of_kind(std::size_t kind) const {
  return static_cast<std::size_t>(std::ranges::count_if(entries, [kind](const Bytes& entry) {
    return ledger::parse_entry(entry)->body.index() == kind - 1;
  }));
}

std::optional<std::uint16_t> RealSwarm::disputed_stage() const {
  const std::vector<std::uint64_t> open = books.disputes();
  if (open.size() != 1) return std::nullopt;
  return books.receipt(open.front())->slot.stage;
}

Status RealSwarm::judge(const PublicKey& guilty, ledger::Verdict verdict) {
  const std::vector<std::uint64_t> open = books.disputes();
  REQUIRE(!open.empty(), "nothing is in dispute");
  refusal.clear();
  desk.log(ledger::VerdictEntry{open.back(), guilty, verdict, blake2b(as_bytes("evidence"))});
  pump();
  REQUIRE(refusal.empty(), refusal);
  return ok_status();
}

const ledger::Standing& RealSwarm::standing(const RealStage& stage) const {
  return *books.standing(stage.key.public_key());
}

}  // namespace hearth::attacks
