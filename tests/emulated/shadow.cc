#include "tests/emulated/shadow.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

namespace hearth::emulated {
bool Shadow::updates_before(const Cell& cell, const Moment& now) {
  if (cell.update.block != Event::kManyBlocks) return cell.update.before(now);
  const std::vector<Event>& crowd = now.order->crowd(cell.update.barrier);
  return std::all_of(crowd.begin(), crowd.end(), [&](const Event& e) { return e.before(now); });
}

Shadow::Shadow(std::size_t bytes, bool written, bool writable)
    : cells_(static_cast<Cell*>(std::calloc(std::max<std::size_t>(bytes, 1), sizeof(Cell)))),
      bytes_(bytes),
      writable_(writable) {
  static_assert(std::is_trivially_copyable_v<Cell>, "zeroed memory is untouched cells");
  if (cells_ == nullptr) throw std::bad_alloc();
  for (std::size_t i = 0; written && i < bytes; ++i) cells_[i].written = true;
}

// Most accesses are of several bytes that were touched together: what is found of the first holds
// for the others.
bool Shadow::repeats(const Cell& cell, const Cell& before) {
  return std::memcmp(&cell, &before, sizeof(Cell)) == 0;
}

Shadow::Cell& Shadow::cell_at(std::size_t at, const Moment& now) {
  Cell& cell = cells_[at];
  if (cell.launch != now.launch) {
    cell.launch = now.launch;
    cell.write = cell.read = cell.update = Event{};
  }
  return cell;
}

const char* Shadow::read(std::size_t at, std::size_t bytes, const Moment& now) {
  Cell before;  // the byte in front, before this read and after it
  Cell after;
  for (std::size_t i = at; i < at + bytes; ++i) {
    if (!cells_[i].written) return "reads what no thread has written";
    if (!writable_) continue;
    if (i > at && repeats(cells_[i], before)) {
      cells_[i] = after;
      continue;
    }
    before = cells_[i];
    Cell& cell = cell_at(i, now);
    if (cell.pending) return "reads what an asynchronous copy has not brought yet";
    if (!cell.write.before(now)) return "reads what another thread writes, no barrier between";
    if (!updates_before(cell, now)) return "reads what another thread updates, no barrier between";
    cell.read.add(now);
    after = cell;
  }
  return nullptr;
}

const char* Shadow::overwrite(std::size_t at, std::size_t bytes, const Moment& now) {
  if (!writable_) return "writes to memory that is only read";
  Cell before;
  Cell after;
  for (std::size_t i = at; i < at + bytes; ++i) {
    if (i > at && repeats(cells_[i], before)) {
      cells_[i] = after;
      continue;
    }
    before = cells_[i];
    Cell& cell = cell_at(i, now);
    if (cell.pending) return "writes where an asynchronous copy is under way";
    if (!cell.write.before(now)) return "writes what another thread writes, no barrier between";
    if (!cell.read.before(now)) return "writes what another thread reads, no barrier between";
    if (!updates_before(cell, now)) return "writes what another thread updates, no barrier between";
    cell.write = Event::at(now);
    cell.read = cell.update = Event{};
    after = cell;
  }
  return nullptr;
}

const char* Shadow::write(std::size_t at, std::size_t bytes, const Moment& now) {
  if (const char* wrong = overwrite(at, bytes, now)) return wrong;
  for (std::size_t i = at; i < at + bytes; ++i) cells_[i].written = true;
  return nullptr;
}

const char* Shadow::update(std::size_t at, std::size_t bytes, Update kind, bool changes, Moment now,
                           BlockOrder& order) {
  if (!writable_) return "updates memory that is only read";
  Event before;  // what the cell in front had, and has
  Event after;
  for (std::size_t i = at; i < at + bytes; ++i) {
    Cell& cell = cell_at(i, now);
    if (!cell.written) return "updates what no thread has written";
    if (cell.pending) return "updates where an asynchronous copy is under way";
    if (!cell.write.before(now)) return "updates what another thread writes, no barrier between";
    if (!cell.read.before(now)) return "updates what another thread reads, no barrier between";
    const bool alike = cell.kind == kind && (kind != Update::kExchange || !changes);
    if (!alike) {
      if (!updates_before(cell, now)) return "exchanges what another thread updates, unordered";
      cell.kind = kind;
      cell.update = Event::at(now);
      continue;
    }
    if (i == at || cell.update != before) {
      before = after = cell.update;
      join(after, now, order);
    }
    cell.update = after;
  }
  return nullptr;
}

// Another update of the same kind.
void Shadow::join(Event& event, const Moment& now, BlockOrder& order) {
  if (event.block == 0 || event.block == now.block) return event.add(now);
  if (event.block != Event::kManyBlocks) {
    event = {Event::kManyBlocks, order.new_crowd(event), 0, 0, 0};
  }
  std::vector<Event>& crowd = order.crowd(event.barrier);
  const auto mine = std::find_if(crowd.rbegin(), crowd.rend(),
                                 [&](const Event& e) { return e.block == now.block; });
  if (mine == crowd.rend()) {
    crowd.push_back(Event::at(now));
  } else {
    mine->add(now);
  }
}

void Shadow::look(std::size_t at, std::size_t bytes, const Moment& now) {
  for (std::size_t i = at; i < at + bytes; ++i) cells_[i].update = Event::at(now);
}

const char* Shadow::announce(std::size_t at, std::size_t bytes, const Moment& now) {
  if (const char* wrong = overwrite(at, bytes, now)) return wrong;
  for (std::size_t i = at; i < at + bytes; ++i) cells_[i].pending = true;
  return nullptr;
}

// The copying thread itself may read on; the others need a barrier after its wait.
const char* Shadow::arrive(std::size_t at, std::size_t bytes, const Moment& now) {
  for (std::size_t i = at; i < at + bytes; ++i) {
    Cell& cell = cell_at(i, now);
    cell.pending = false;
    cell.written = true;
    cell.write = Event::at(now);
  }
  return nullptr;
}

void Shadow::fill(std::size_t at, std::size_t bytes) {
  for (std::size_t i = at; i < at + bytes; ++i) cells_[i].written = true;
}

bool Shadow::filled(std::size_t at, std::size_t bytes) const {
  for (std::size_t i = at; i < at + bytes; ++i) {
    if (!cells_[i].written) return false;
  }
  return true;
}

}  // namespace hearth::emulated
