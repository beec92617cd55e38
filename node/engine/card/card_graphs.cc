#include "node/engine/card/card_graphs.h"

#include <algorithm>
#include <utility>

namespace hearth::node {

namespace cuda = kernels::cuda;

Status CardGraphs::run(const Shape& shape, cuda::Stream stream,
                       const std::function<Status()>& calls) {
  if (!makes_) return calls();
  Slot& slot = slot_of(shape);
  const bool first = slot.used == 0;
  slot.used = ++runs_;
  if (first) return calls();
  if (slot.graph == nullptr) TRY_VOID(make(slot, stream, calls));
  return slot.graph == nullptr ? calls() : cuda::launch(slot.graph.get(), stream);
}

// Else a free one, or the one that was longest not used.
CardGraphs::Slot& CardGraphs::slot_of(const Shape& shape) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.used > 0 && slot.shape == shape;
  });
  if (found != slots_.end()) return *found;
  Slot& slot = *std::min_element(slots_.begin(), slots_.end(),
                                 [](const Slot& a, const Slot& b) { return a.used < b.used; });
  drop(slot);
  slot.shape = shape;
  return slot;
}

CardGraphs::Slot* CardGraphs::oldest_graph(const Slot& but) {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.graph == nullptr || &slot == &but) continue;
    if (oldest == nullptr || slot.used < oldest->used) oldest = &slot;
  }
  return oldest;
}

Status CardGraphs::make(Slot& slot, cuda::Stream stream, const std::function<Status()>& calls) {
  TRY(const cuda::MemoryInfo before, cuda::memory_info());
  TRY_VOID(cuda::begin_capture(stream));
  const Status captured = calls();
  Result<cuda::OwnedGraph> made = cuda::end_capture(stream);
  TRY_VOID(captured);
  if (!made.ok()) {
    if (made.error().code != ErrorCode::kNoCapacity) return made.error();
    makes_ = false;
    for (Slot& each : slots_) drop(each);
    return ok_status();
  }
  TRY(const cuda::MemoryInfo after, cuda::memory_info());
  slot.graph = std::move(*made);
  slot.bytes = before.free - std::min(before.free, after.free);
  ++count_.made;
  ++count_.kept;
  count_.bytes += slot.bytes;
  for (Slot* oldest = oldest_graph(slot); oldest != nullptr && count_.bytes > kBytesMost;
       oldest = oldest_graph(slot)) {
    drop(*oldest);
  }
  return ok_status();
}

// A graph that the card still runs is freed by the driver when that has ended.
void CardGraphs::drop(Slot& slot) {
  if (slot.graph != nullptr) {
    ++count_.dropped;
    --count_.kept;
    count_.bytes -= slot.bytes;
  }
  slot = {};
}

}  // namespace hearth::node
