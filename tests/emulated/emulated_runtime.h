// The emulator's side of kernels/cuda/runtime.h, for tests: what is queued on a stream waits there
// and runs when somebody waits for it, or at any moment before that; which stream goes on is drawn
// from the seed of the emulator. What the runtime was asked for orders streams and host, not that
// schedule: whatever touches memory of the card without an order is a Fault with every seed
// (stream_order.h), and so is what the host does to pinned memory too early (pinned_copies.h); what
// it reads there too early is rubbish.
//
// One host thread at a time. Work on the null stream runs at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/cuda/runtime.h"

namespace hearth::emulated {

// Alike cards in the machine, up to nine, of which a process uses one; as it is before any test
// sets it: 1. The n-th is at bus 0000:0n:00.0.
void set_count(std::uint32_t cards);
// What device_count() answers of a driver that does not work; empty, as before any test sets it:
// the driver works.
void set_driver_fault(std::string words);
// A card of so many bytes, all of them free; as it is before any test sets it: 2 GiB.
void set_memory(std::uint64_t bytes);
// Of them, those that other processes have taken; as it is before any test sets it: 0.
void set_foreign_memory(std::uint64_t bytes);
// Of the card; as it is before any test sets it: 9.0.
void set_capability(std::uint32_t major, std::uint32_t minor);
std::uint64_t memory_used();
std::uint64_t pinned_used();

// What happens to the card, from the n-th next operation on that is queued or waited for.
enum class Fail {
  kNothing,
  kSticky,  // that call and all later ones answer an illegal address
  // An allocation of the card's or of pinned memory, the only calls that are then counted, answers
  // that there is no memory; the card lives on.
  kOutOfMemory,
  kHang,  // a wait does not return before `hang` has been called
};
// Forgets a card that was lost before.
void fail_after(Fail fail, std::uint64_t operations, std::function<void()> hang = {});
// While held no stream goes on, as behind a kernel that does not end.
void hold(bool held);
// kSticky at the next operation; from any thread.
void fail_soon();
// Every call so far that a lost card would answer, for tests that a poisoned one is left alone.
std::uint64_t runtime_calls();
// Of them, those after the one that lost the card.
std::uint64_t calls_since_lost();
std::uint64_t allocations();
// What each graph made from now on takes of the card's memory; as it is before any test sets it: 0.
void set_graph_memory(std::uint64_t bytes);
std::uint64_t graphs_made();
std::uint64_t graphs_launched();

// What was left to a lost card, as the end of its process would.
void forget_lost();

// What a bit error in the card's memory does to a byte of it.
void flip_bit(const std::byte* at);
const std::byte* newest_memory();  // of what is allocated
// The first bit error of the newest memory, at the next operation; from any thread.
void flip_bit_soon();

}  // namespace hearth::emulated
