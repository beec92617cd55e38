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
constexpr std::size_t kGraphsMost = 64;  // then all are dropped, and those in use made again

}  // namespace

CardForward::CardForward(Setup setup)
    : setup_(std::move(setup)),
      spec_(setup_.spec),
      shape_{&setup_.spec, setup_.layers, setup_.batch_rows, setup_.kv_pages},
      pool_of_pages_(setup_.kv_pages),
      held_(std::make_unique<Held>()),
      watchdog_(setup_.step_limit, [this] {
        lose({ErrorCode::kIo, "the card has not answered for " +
                                  std::to_string(setup_.step_limit.count()) + " ms"});
      }) {
  sampled_.reserve(setup_.batch_rows);
  undrawn_.reserve(setup_.batch_rows);
  segments_.reserve(setup_.batch_rows);
  for (std::uint32_t i = setup_.layers.begin; i < setup_.layers.end; ++i) {
    if (spec_.is_local(i)) local_layer_ = i;
  }
  frequencies_ = spec_.rope_frequencies();
  if (local_layer_) local_frequencies_ = spec_.local_rope_frequencies();
}

// A lost card is not even told to free what it holds: that stays until the process ends.
CardForward::~CardForward() {
  static auto* const left = new std::vector<Held*>;
  if (lost()) left->push_back(held_.release());
}

// --- memory ---

Result<CardForward::Bytes> CardForward::bytes_of(const model::GgufFile& file,
                                                 const model::ModelSpec& spec, LayerRange layers,
                                                 std::uint32_t batch_rows, std::uint32_t kv_pages) {
  Bytes bytes;
  Placement placement;
  TRY(const CardWeights weights, CardWeights::place(file, spec, layers, placement));
  placement.take<std::uint64_t>(weights.tensors().size());
  bytes.weights = placement.bytes();
  CardBuffers::place({&spec, layers, batch_rows, kv_pages}, placement);
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
      true));
  TRY_VOID(card->verify_weights());
  return Result<std::unique_ptr<CardForward>>(std::move(card));
}

Status CardForward::take_memory(const model::GgufFile& file) {
  TRY(const Bytes bytes, bytes_of(file, spec_, setup_.layers, setup_.batch_rows, setup_.kv_pages));
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
  for (cuda::OwnedEvent* event :
       {&held_->uploaded, &held_->computed, &held_->logits_made[0], &held_->logits_made[1],
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
  return weights_.load(file, *setup_.pool, held_->upload.get(),
                       [&](std::uint64_t done, std::uint64_t all) {
                         watchdog_.begin();  // the limit is of a part, not of a model
                         if (setup_.progress) setup_.progress(done, all);
                       });
}

Status CardForward::verify_weights() {
  return guarded([&] { return weights_.verify(digests_, held_->digests.data(), compute()); });
}

// --- losing the card ---

std::optional<Error> CardForward::lost() const {
  const std::lock_guard lock(lost_mutex_);
  return lost_;
}

void CardForward::lose(const Error& error) const {
  const Error named{error.code, "cuda:" + std::to_string(setup_.device) + ": " + error.message};
  {
    const std::lock_guard lock(lost_mutex_);
    if (lost_) return;
    lost_ = named;
  }
  if (setup_.on_lost) setup_.on_lost(named);
}

// While loading, what is wrong with the file and too little memory are no fault of the card.
template <typename Calls>
Status CardForward::guarded(const Calls& calls, bool loading) const {
  if (const auto error = lost()) return *error;
  watchdog_.begin();
  Status status = cuda::use_device(setup_.device);
  if (status.ok()) status = calls();
  watchdog_.end();
  if (!status.ok()) {
    if (loading && status.error().code != ErrorCode::kIo) return status;
    lose(status.error());
  }
  if (const auto error = lost()) return *error;
  return ok_status();
}

// --- a step ---

Status CardForward::run(std::span<const ForwardRow> given, const OnLogits& on_logits,
                        const OnToken& on_token) {
  INVARIANT(!given.empty() && given.size() <= setup_.batch_rows, "a step has its bounds");
  rows_ = given;
  return guarded([&] { return step({on_logits, on_token}); });
}

void CardForward::sort_sampled() {
  sampled_.clear();
  undrawn_.clear();
  draws_.begin(held_->host.draws, spec_.vocabulary);
  for (const bool observed : {false, true}) {
    for (std::uint32_t i = 0; i < rows(); ++i) {
      const ForwardRow& row = rows_[i];
      if (!row.sample || row.observed != observed) continue;
      const bool drawn = row.draw != nullptr && draws_.add(*row.draw);
      (drawn ? sampled_ : undrawn_).push_back(i);
    }
    if (!observed) logits_from_ = static_cast<std::uint32_t>(sampled_.size());
  }
  sampled_.insert(sampled_.end(), undrawn_.begin(), undrawn_.end());
}

Status CardForward::step(const Outputs& outputs) {
  sort_sampled();
  attention_segments(rows_, spec_.heads / spec_.kv_heads, segments_);
  const Reach reach = fill_words();
  fill_angles();
  TRY_VOID(send(reach.entries));
  TRY_VOID(cuda::wait(compute(), held_->uploaded.get()));
  TRY_VOID(run_layers(reach));
  TRY_VOID(cuda::record(held_->computed.get(), compute()));
  if (shape_.is_last() && !sampled_.empty()) TRY_VOID(head(outputs));
  return receive();
}

CardForward::Reach CardForward::fill_words() {
  const StepWords words = StepWords::at(held_->host.words, setup_.batch_rows);
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
  std::copy(sampled_.begin(), sampled_.end(), words.sampled);
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
  const HostBuffers& host = held_->host;
  setup_.pool->parallel_for(rows(), 16, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::size_t at = std::size_t{i} * spec_.head_dim;
      kernels::rope_table_row(rows_[i].position, frequencies_, host.angles + at);
      if (local_frequencies_.empty()) continue;
      kernels::rope_table_row(rows_[i].position, local_frequencies_, host.local_angles + at);
    }
  });
}

Status CardForward::send(std::uint32_t entries) {
  const cuda::Stream upload = held_->upload.get();
  const HostBuffers& host = held_->host;
  const std::size_t angle_bytes = std::size_t{rows()} * spec_.head_dim * sizeof(float);
  TRY_VOID(cuda::copy_to_device(
      buffers_.words, host.words,
      StepWords::count(setup_.batch_rows, entries) * sizeof(std::uint32_t), upload));
  TRY_VOID(cuda::copy_to_device(buffers_.angles, host.angles, angle_bytes, upload));
  if (local_layer_) {
    TRY_VOID(cuda::copy_to_device(buffers_.local_angles, host.local_angles, angle_bytes, upload));
  }
  if (!shape_.is_first()) {
    TRY_VOID(cuda::copy_to_device(buffers_.bits, host.bits,
                                  std::size_t{rows()} * spec_.hidden * sizeof(std::uint16_t),
                                  upload));
  }
  TRY_VOID(draws_.send(buffers_.draws, upload));
  return cuda::record(held_->uploaded.get(), upload);
}

// The first step of a shape runs as it is, the second one is captured. Prompts differ too much.
Status CardForward::run_layers(const Reach& reach) {
  const bool decodes = segments_.size() == 1 && !segments_[0].prompt;
  if (rows() > kGraphRows || !decodes) return all_layers(reach);
  const Key key{rows(), reach.all, reach.local};
  if (held_->graphs.size() >= kGraphsMost && !held_->graphs.contains(key)) held_->graphs.clear();
  GraphSlot& slot = held_->graphs[key];
  if (!std::exchange(slot.seen, true)) return all_layers(reach);
  if (slot.graph == nullptr) {
    TRY_VOID(cuda::begin_capture(compute()));
    const Status captured = all_layers(reach);
    TRY(slot.graph, cuda::end_capture(compute()));
    TRY_VOID(captured);
  }
  return cuda::launch(slot.graph.get(), compute());
}

// What leaves: the residual and the flags, those of the head too.
Status CardForward::receive() {
  const cuda::Stream download = held_->download.get();
  const HostBuffers& host = held_->host;
  const std::size_t flags = rows() * sizeof(std::uint32_t);
  TRY_VOID(cuda::wait(download, held_->computed.get()));
  TRY_VOID(cuda::copy_to_host(host.failed, buffers_.failed, flags, download));
  if (!shape_.is_last()) {
    TRY_VOID(cuda::copy_to_host(host.bits, buffers_.bits,
                                std::size_t{rows()} * spec_.hidden * sizeof(std::uint16_t),
                                download));
  }
  const std::size_t sampled = shape_.is_last() ? sampled_.size() : 0;
  if (sampled > 0) {
    TRY_VOID(cuda::copy_to_host(host.head_failed, buffers_.head_failed,
                                sampled * sizeof(std::uint32_t), download));
  }
  TRY_VOID(cuda::synchronize(download));
  for (std::size_t i = 0; i < sampled; ++i) host.failed[sampled_[i]] |= host.head_failed[i];
  return ok_status();
}

bool CardForward::failed(std::uint32_t row) const { return held_->host.failed[row] != 0; }

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
