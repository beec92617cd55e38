#include "node/engine/card/card_forward.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "node/engine/kv_cache.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

constexpr std::uint32_t kGraphRows = 64;

}  // namespace

CardForward::CardForward(Setup setup)
    : setup_(std::move(setup)),
      spec_(setup_.spec),
      shape_{&setup_.spec, setup_.layers, setup_.batch_rows, setup_.kv_pages, setup_.score_floats},
      pool_of_pages_(setup_.kv_pages),
      held_(std::make_unique<Held>()),
      watchdog_(setup_.step_limit,
                [this] { setup_.context->lose(CardContext::unanswered(setup_.step_limit)); }) {
  for (Step& step : steps_) step.sampled.reserve(setup_.batch_rows);
  undrawn_.reserve(setup_.batch_rows);
  segments_.reserve(setup_.batch_rows);
  for (std::uint32_t i = setup_.layers.begin; i < setup_.layers.end; ++i) {
    if (spec_.is_local(i)) local_layer_ = i;
  }
  frequencies_ = spec_.rope_frequencies();
  if (local_layer_) local_frequencies_ = spec_.local_rope_frequencies();
}

CardForward::~CardForward() {
  if (under_way_ == 0) return;  // else what is queued still reads and writes all this
  const Status ended = guarded([&]() -> Status {
    TRY_VOID(cuda::synchronize(compute()));
    return cuda::synchronize(held_->download.get());
  });
  static_cast<void>(ended);
}

// --- memory ---

Result<CardForward::Bytes> CardForward::bytes_of(const model::GgufFile& file,
                                                 const model::ModelSpec& spec, LayerRange layers,
                                                 std::uint32_t batch_rows, std::uint32_t kv_pages,
                                                 std::size_t score_floats) {
  Bytes bytes;
  Placement placement;
  TRY(const CardWeights weights, CardWeights::place(file, spec, layers, placement));
  placement.take<std::uint64_t>(weights.tensors().size());
  bytes.weights = placement.bytes();
  CardBuffers::place({&spec, layers, batch_rows, kv_pages, score_floats}, placement);
  bytes.buffers = placement.bytes() - bytes.weights;
  bytes.kv_page = KvCache::page_bytes(layers.size(), spec.kv_layout());
  return bytes;
}

Result<std::unique_ptr<CardForward>> CardForward::load(const model::GgufFile& file, Setup setup) {
  std::unique_ptr<CardForward> card(new CardForward(std::move(setup)));
  TRY_VOID(card->guarded(
      [&]() -> Status {
        TRY_VOID(card->take_memory(file));
        TRY_VOID(card->clear_memory());
        return card->load_weights(file);
      },
      CardContext::Loses::kWhereItFailed));
  TRY_VOID(card->verify_weights());
  return Result<std::unique_ptr<CardForward>>(std::move(card));
}

Status CardForward::take_memory(const model::GgufFile& file) {
  TRY(const Bytes bytes, bytes_of(file, spec_, setup_.layers, setup_.batch_rows, setup_.kv_pages,
                                  setup_.score_floats));
  TRY(held_->memory, cuda::DeviceMemory::allocate(bytes.all(setup_.kv_pages)));
  Placement placement(held_->memory);
  TRY(weights_, CardWeights::place(file, spec_, setup_.layers, placement));
  digests_ = placement.take<std::uint64_t>(weights_.tensors().size());
  buffers_ = CardBuffers::place(shape_, placement);
  kv_layer_bytes_ = KvCache::page_bytes(1, spec_.kv_layout());
  kv_ = placement.take<std::byte>(bytes.kv_page * setup_.kv_pages);
  TRY(held_->host, HostBuffers::allocate(shape_));
  TRY(held_->digests,
      cuda::PinnedMemory::allocate(weights_.tensors().size() * sizeof(std::uint64_t)));
  for (cuda::OwnedStream* stream : {&held_->upload, &held_->compute, &held_->download}) {
    TRY(*stream, cuda::make_stream());
  }
  for (StepEvents& events : held_->events) {
    for (cuda::OwnedEvent* event : {&events.uploaded, &events.computed, &events.received}) {
      TRY(*event, cuda::make_event());
    }
  }
  for (cuda::OwnedEvent* event : {&held_->logits_made[0], &held_->logits_made[1],
                                  &held_->logits_sent[0], &held_->logits_sent[1]}) {
    TRY(*event, cuda::make_event());
  }
  return ok_status();
}

// What kernels hand each other begins as zero; so do the pages, of which a value may be read, and
// then counted as nothing, before it is written.
Status CardForward::clear_memory() {
  TRY_VOID(cuda::fill_zero(buffers_.product.sums, buffers_.product_sums * sizeof(std::int32_t),
                           compute()));
  TRY_VOID(cuda::fill_zero(buffers_.product.tickets,
                           buffers_.product_tickets * sizeof(std::uint32_t), compute()));
  TRY_VOID(cuda::fill_zero(buffers_.attention.state, buffers_.attention_state, compute()));
  TRY_VOID(
      cuda::fill_zero(kv_, kv_layer_bytes_ * setup_.layers.size() * setup_.kv_pages, compute()));
  return cuda::synchronize(compute());
}

Status CardForward::load_weights(const model::GgufFile& file) {
  return weights_.load(
      file, *setup_.pool, held_->upload.get(),
      [&](std::uint64_t done, std::uint64_t all) {
        watchdog_.begin();  // the limit is of a part, not of a model
        if (setup_.progress) setup_.progress(done, all);
      },
      setup_.cancelled);
}

Status CardForward::verify_weights() {
  return guarded([&] { return weights_.verify(digests_, held_->digests.data(), compute()); });
}

// --- losing the card ---

// While steps are under way the limit goes on between the calls, from the last one that came back.
template <typename Calls>
Status CardForward::guarded(const Calls& calls, CardContext::Loses loses) const {
  watchdog_.begin();
  const Status status = setup_.context->ask(loses, calls);
  if (under_way_ == 0) {
    watchdog_.end();
  } else {
    watchdog_.begin();
  }
  return status;
}

// --- a step ---

bool CardForward::may_overlap() const {
  for (std::uint32_t i = 0; i < under_way_; ++i) {
    if (steps_[(oldest_ + i) % kStepsUnderWay].reads_logits()) return false;
  }
  return true;
}

Status CardForward::begin(std::span<const ForwardRow> rows, const Outputs& outputs) {
  INVARIANT(!rows.empty() && rows.size() <= setup_.batch_rows, "a step has its bounds");
  if (const auto error = lost()) return *error;  // nobody counts steps any more
  INVARIANT(under_way_ < kStepsUnderWay && may_overlap(), "a step waits for its turn");
  if (under_way_ == 0) oldest_ = 0;
  set_ = next_set();
  rows_ = rows;
  step().rows = static_cast<std::uint32_t>(rows.size());
  step().outputs = &outputs;
  return guarded([&] {
    ++under_way_;
    return start();
  });
}

bool CardForward::ready() const {
  if (lost() || steps_[oldest_].reads_logits()) return true;
  const Result<bool> passed = cuda::passed(held_->events[oldest_].received.get());
  if (passed.ok()) return *passed;
  setup_.context->lose(passed.error());
  return true;
}

Status CardForward::finish() {
  set_ = finished_ = oldest_;
  return guarded([&] {
    const Status status = complete();
    oldest_ = (oldest_ + 1) % kStepsUnderWay;
    --under_way_;
    return status;
  });
}

Status CardForward::start() {
  sort_sampled();
  attention_segments(rows_, spec_.heads / spec_.kv_heads, segments_);
  const Reach reach = fill_words();
  fill_angles();
  TRY_VOID(send(reach.entries));
  TRY_VOID(cuda::wait(compute(), events().uploaded.get()));
  TRY_VOID(run_layers(reach));
  if (step().reads_logits()) return ok_status();
  TRY_VOID(draw_tokens());
  return receive();
}

Status CardForward::complete() {
  const Step& done = step();
  if (done.reads_logits()) {
    TRY_VOID(read_logits());
    TRY_VOID(receive());
  }
  TRY_VOID(cuda::synchronize(events().received.get()));
  for (std::size_t i = 0; i < done.sampled.size(); ++i) {
    host().failed[done.sampled[i]] |= host().head_failed[i];
  }
  if (!done.reads_logits()) hand_on_tokens(0, done.draws.count());
  return ok_status();
}

void CardForward::sort_sampled() {
  Step& of = step();
  of.sampled.clear();
  undrawn_.clear();
  of.draws.begin(host().draws, spec_.vocabulary);
  for (const bool observed : {false, true}) {
    for (std::uint32_t i = 0; i < rows(); ++i) {
      const ForwardRow& row = rows_[i];
      if (!row.sample || row.observed != observed) continue;
      const bool drawn = row.draw != nullptr && of.draws.add(*row.draw);
      (drawn ? of.sampled : undrawn_).push_back(i);
    }
    if (!observed) of.logits_from = static_cast<std::uint32_t>(of.sampled.size());
  }
  of.sampled.insert(of.sampled.end(), undrawn_.begin(), undrawn_.end());
}

CardForward::Reach CardForward::fill_words() {
  const StepWords words = StepWords::at(host().words, setup_.batch_rows);
  Reach reach;
  std::uint32_t begins_at = 0;
  std::uint32_t pages = 1;
  std::uint32_t local_pages = 1;
  for (std::uint32_t i = 0; i < rows(); ++i) {
    const ForwardRow& row = rows_[i];
    if (i == 0 || row.pages != rows_[i - 1].pages) {
      begins_at = reach.entries;
      INVARIANT(row.pages->size() <= setup_.kv_pages - reach.entries, "a page has one owner");
      std::copy(row.pages->begin(), row.pages->end(), words.pages + reach.entries);
      reach.entries += static_cast<std::uint32_t>(row.pages->size());
    }
    const std::uint32_t own = row.position / kernels::kPageTokens;
    const std::uint32_t local_begin =
        local_layer_ ? spec_.first_visible(*local_layer_, row.position) : 0;
    words.tokens[i] = static_cast<std::uint32_t>(row.token);
    words.slots[i] = row.position % kernels::kPageTokens;
    words.first[i] = begins_at;
    words.own[i] = begins_at + own;
    words.ends[i] = row.position + 1;
    words.begins[i] = 0;
    words.local_begins[i] = local_begin;
    pages = std::max(pages, own + 1);
    local_pages = std::max(local_pages, own + 1 - local_begin / kernels::kPageTokens);
  }
  std::copy(step().sampled.begin(), step().sampled.end(), words.sampled);
  *words.entries = reach.entries;
  const std::uint32_t most = pages_for(spec_.context, kernels::kPageTokens);
  // Powers of two from eight pages on, which a split of attention takes anyway.
  const auto rounded = [&](std::uint32_t n) {
    return std::min(most, std::max(8U, std::bit_ceil(n)));
  };
  reach.all = rounded(pages);
  reach.local = rounded(local_pages);
  return reach;
}

void CardForward::fill_angles() {
  const StepArrays& to = host();
  setup_.pool->parallel_for(rows(), 16, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::size_t at = std::size_t{i} * spec_.head_dim;
      kernels::rope_table_row(rows_[i].position, frequencies_, to.angles + at);
      if (local_frequencies_.empty()) continue;
      kernels::rope_table_row(rows_[i].position, local_frequencies_, to.local_angles + at);
    }
  });
}

Status CardForward::send(std::uint32_t entries) {
  const cuda::Stream upload = held_->upload.get();
  const auto copy = [&]<typename T>(T* to, const T* from, std::size_t count) {
    return cuda::copy_to_device(to, from, count * sizeof(T), upload);
  };
  const std::size_t angles = std::size_t{rows()} * spec_.head_dim;
  TRY_VOID(copy(card().words, host().words, StepWords::count(setup_.batch_rows, entries)));
  TRY_VOID(copy(card().angles, host().angles, angles));
  if (local_layer_) TRY_VOID(copy(card().local_angles, host().local_angles, angles));
  if (!shape_.is_first()) {
    TRY_VOID(copy(card().bits, host().bits, std::size_t{rows()} * spec_.hidden));
  }
  TRY_VOID(step().draws.send(card().draws, upload));
  return cuda::record(events().uploaded.get(), upload);
}

// Prompts differ too much for graphs.
Status CardForward::run_layers(const Reach& reach) {
  const bool decodes = segments_.size() == 1 && !segments_[0].prompt;
  if (rows() > kGraphRows || !decodes) return all_layers(reach);
  const std::uint64_t made = held_->graphs.count().made;
  TRY_VOID(held_->graphs.run({set_, rows(), reach.all, reach.local}, compute(),
                             [&] { return all_layers(reach); }));
  say_graphs(made);
  return ok_status();
}

// Their memory is the driver's, which nobody can reckon before: said when there are twice as many.
void CardForward::say_graphs(std::uint64_t made) const {
  const CardGraphs::Count& count = held_->graphs.count();
  if (count.made == made || count.made < 8 || !std::has_single_bit(count.made)) return;
  if (!setup_.say) return;
  setup_.say(std::to_string(count.kept) + " graphs of shapes of step, " +
             std::to_string(count.made) + " made so far, hold " +
             std::to_string(count.bytes >> 10) + " KiB of the driver's memory");
}

// What leaves: the residual, the flags, those of the head too, and the tokens, unless they were
// sent with the logits.
Status CardForward::receive() {
  const cuda::Stream download = held_->download.get();
  const auto copy = [&]<typename T>(T* to, const T* from, std::size_t count) {
    return count == 0 ? ok_status() : cuda::copy_to_host(to, from, count * sizeof(T), download);
  };
  TRY_VOID(cuda::record(events().computed.get(), compute()));
  TRY_VOID(cuda::wait(download, events().computed.get()));
  TRY_VOID(copy(host().failed, card().failed, rows()));
  TRY_VOID(copy(host().head_failed, card().head_failed, step().sampled.size()));
  if (!shape_.is_last()) {
    TRY_VOID(copy(host().bits, card().bits, std::size_t{rows()} * spec_.hidden));
  }
  if (!step().reads_logits()) {
    const std::uint32_t drawn = step().draws.count();
    TRY_VOID(copy(host().draws.tokens, card().draws.tokens, drawn));
    TRY_VOID(copy(host().draws.outcomes, card().draws.outcomes, drawn));
  }
  return cuda::record(events().received.get(), download);
}

bool CardForward::failed(std::uint32_t row) const {
  return held_->host.steps[finished_].failed[row] != 0;
}

Result<const std::byte*> CardForward::page(std::uint32_t index, std::uint32_t layer) const {
  std::byte* const to = held_->host.page;
  TRY_VOID(guarded([&]() -> Status {
    const std::byte* from =
        kv_ + (std::size_t{index} * setup_.layers.size() + layer) * kv_layer_bytes_;
    TRY_VOID(cuda::copy_to_host(to, from, spec_.kv_layout().page_bytes(), held_->download.get()));
    return cuda::synchronize(held_->download.get());
  }));
  return Result<const std::byte*>(to);
}

}  // namespace hearth::node
