#include "tests/emulated/shadow.h"

namespace hearth::emulated {
namespace {

constexpr std::uint32_t kManyBlocks = 0xFFFFFFFFU;
constexpr std::uint16_t kMany = 0xFFFFU;

void set(auto& event, const Moment& now) {
  event = {now.block, now.barrier, now.meeting, now.warp, now.thread};
}

}  // namespace

bool Shadow::Event::before(const Moment& now) const {
  if (block == 0) return true;
  if (block != now.block) return false;
  if (barrier < now.barrier || thread == now.thread) return true;
  return warp == now.warp && meeting < now.meeting;
}

// What came earlier and is ordered before the new one needs no account of its own.
void Shadow::Event::add(const Moment& now) {
  if (block == 0 || (block == now.block && barrier < now.barrier)) {
    set(*this, now);
  } else if (block != now.block) {
    block = kManyBlocks;
  } else if (warp != now.warp) {
    warp = kMany;
    thread = kMany;
  } else if (meeting < now.meeting) {
    set(*this, now);
  } else if (thread != now.thread) {
    thread = kMany;
  }
}

Shadow::Shadow(std::size_t bytes, bool written, bool writable)
    : cells_(bytes), writable_(writable) {
  for (Cell& cell : cells_) cell.written = written;
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
  for (std::size_t i = at; i < at + bytes; ++i) {
    if (!cells_[i].written) return "reads what nobody has written";
    if (!writable_) continue;
    Cell& cell = cell_at(i, now);
    if (cell.pending) return "reads what an asynchronous copy has not brought yet";
    if (!cell.write.before(now)) return "reads what another thread writes, no barrier between";
    if (!cell.update.before(now)) return "reads what another thread updates, no barrier between";
    cell.read.add(now);
  }
  return nullptr;
}

const char* Shadow::overwrite(std::size_t at, std::size_t bytes, const Moment& now) {
  if (!writable_) return "writes to memory that is only read";
  for (std::size_t i = at; i < at + bytes; ++i) {
    Cell& cell = cell_at(i, now);
    if (cell.pending) return "writes where an asynchronous copy is under way";
    if (!cell.write.before(now)) return "writes what another thread writes, no barrier between";
    if (!cell.read.before(now)) return "writes what another thread reads, no barrier between";
    if (!cell.update.before(now)) return "writes what another thread updates, no barrier between";
    set(cell.write, now);
    cell.read = cell.update = Event{};
  }
  return nullptr;
}

const char* Shadow::write(std::size_t at, std::size_t bytes, const Moment& now) {
  if (const char* wrong = overwrite(at, bytes, now)) return wrong;
  for (std::size_t i = at; i < at + bytes; ++i) cells_[i].written = true;
  return nullptr;
}

const char* Shadow::update(std::size_t at, std::size_t bytes, const Moment& now) {
  if (!writable_) return "updates memory that is only read";
  for (std::size_t i = at; i < at + bytes; ++i) {
    Cell& cell = cell_at(i, now);
    if (!cell.written) return "updates what nobody has written";
    if (cell.pending) return "updates where an asynchronous copy is under way";
    if (!cell.write.before(now)) return "updates what another thread writes, no barrier between";
    if (!cell.read.before(now)) return "updates what another thread reads, no barrier between";
    cell.update.add(now);
  }
  return nullptr;
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
    set(cell.write, now);
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
