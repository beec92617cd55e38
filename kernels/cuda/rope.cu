// One block a token and head, one thread a dimension: first the query's heads, then those of key
// and value.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/rows.h"
#include "kernels/elementary.h"
#include "kernels/matrix_view.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kWarpsMost = kHeadDimMax / 32;

struct Args {
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  bool adjacent;
  PageOffsets offsets;
  Global<float> query;
  Global<const float> key;
  Global<const float> value;
  Global<const float> cos_sin;
  Global<std::byte* const> pages;
  Global<const std::uint32_t> slots;
  Global<std::uint32_t> failed;
};

struct HeadShared {
  SharedArray<std::uint32_t, kWarpsMost> largest;
};

// Dimension d of the head after rotation.
HEARTH_DEVICE float rotated(const Args& args, Global<const float> head, Global<const float> cos_sin,
                            std::uint32_t d) {
  const std::uint32_t pairs = args.head_dim / 2;
  const std::uint32_t pair = args.adjacent ? d / 2 : d % pairs;
  const bool is_second = args.adjacent ? d % 2 != 0 : d >= pairs;
  const float x0 = head.get(args.adjacent ? 2 * pair : pair);
  const float x1 = head.get(args.adjacent ? 2 * pair + 1 : pair + pairs);
  const float c = cos_sin.get(2 * pair);
  const float s = cos_sin.get(2 * pair + 1);
  return is_second ? x0 * s + x1 * c : x0 * c - x1 * s;
}

HEARTH_DEVICE std::int32_t quant_of(float value, float maximum) {
  return maximum < kTiny ? 0 : round_even(value * (static_cast<float>(kQuantMax) / maximum));
}

HEARTH_DEVICE float scale_of(float maximum) {
  return maximum < kTiny ? 0.0F : maximum / static_cast<float>(kQuantMax);
}

// CANONICAL.md, "Keys and values": this thread's dimension d of one kv head; the page's layout is
// that of matrix_view.h.
HEARTH_DEVICE void store(const Args& args, std::uint32_t token, std::uint32_t slot,
                         Global<std::byte> head, float key, float value) {
  HeadShared& shared = shared_memory<HeadShared>();
  const std::uint32_t d = thread_index();
  const std::uint32_t warp = d / 32;

  const std::uint32_t key_bits = warp_max(std::bit_cast<std::uint32_t>(key) & 0x7FFFFFFFU);
  std::uint32_t largest = warp_max(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
  if (d % 32 == 0) shared.largest.put(warp, largest);
  sync_threads();
  for (std::uint32_t w = 0; w < args.head_dim / 32; ++w) {
    const std::uint32_t other = shared.largest.get(w);
    largest = other > largest ? other : largest;
  }
  const auto most = std::bit_cast<std::uint32_t>(kAttentionMax);
  if (d % 32 == 0 && (key_bits > most || largest > most)) atomic_or(args.failed, token, 1U);

  const float key_maximum = std::bit_cast<float>(key_bits);
  const float value_maximum = std::bit_cast<float>(largest);
  const std::size_t key_at =
      ((slot / 16) * (args.head_dim / 4) + d / 4) * 64 + (slot % 16) * 4 + d % 4;
  const std::size_t value_at =
      args.offsets.values + ((slot / 4) * args.head_dim + d) * 4 + slot % 4;
  head.put(key_at, static_cast<std::byte>(quant_of(key, key_maximum) + 128));
  head.put(value_at, static_cast<std::byte>(quant_of(value, value_maximum)));
  if (d % 32 == 0) {
    const std::size_t at = ((slot / 16) * (args.head_dim / kBlock) + warp) * 16 + slot % 16;
    head.at(args.offsets.key_scales).as<float>().put(at, scale_of(key_maximum));
  }
  if (d == 0) head.at(args.offsets.value_scales).as<float>().put(slot, scale_of(value_maximum));
}

HEARTH_KERNEL(kHeadDimMax, 1) rotate_and_store(Args args) {
  wait_for_previous_kernel();
  const std::uint32_t token = block_index_x();
  const std::uint32_t d = thread_index();
  const Global<const float> cos_sin = args.cos_sin.at(std::size_t{token} * args.head_dim);
  if (block_index_y() < args.heads) {
    const std::size_t at = (std::size_t{token} * args.heads + block_index_y()) * args.head_dim;
    const float mine = rotated(args, args.query.at(at).as<const float>(), cos_sin, d);
    sync_threads();
    args.query.put(at + d, mine);
    return;
  }
  const std::uint32_t kv_head = block_index_y() - args.heads;
  const std::size_t at = (std::size_t{token} * args.kv_heads + kv_head) * args.head_dim;
  const std::uint32_t slot = args.slots.get(token);
  const Global<std::byte> head =
      Global(args.pages.get(token)).at(kv_head * args.offsets.head_bytes);
  const float value = args.value.get(at + d);
  store(args, token, slot, head, rotated(args, args.key.at(at), cos_sin, d), value);
}

}  // namespace

Status rope_and_store(const RopeAndStore& args, std::uint32_t* failed, Stream stream) {
  const std::uint32_t head_dim = args.layout.head_dim;
  REQUIRE(head_dim != 0 && head_dim % kBlock == 0 && head_dim <= kHeadDimMax,
          "heads of " + std::to_string(head_dim) + " values, not a multiple of 32 up to " +
              std::to_string(kHeadDimMax));
  if (args.tokens == 0) return ok_status();
  const Args device{args.heads,
                    args.layout.kv_heads,
                    head_dim,
                    args.style == RopeStyle::kAdjacent,
                    page_offsets(head_dim),
                    Global(args.query),
                    Global(args.key),
                    Global(args.value),
                    Global(args.cos_sin),
                    Global(args.pages),
                    Global(args.slots),
                    Global(failed)};
  return launched("rotate_and_store",
                  launch_early(rotate_and_store, {args.tokens, args.heads + args.layout.kv_heads},
                               head_dim, sizeof(HeadShared), stream, device));
}

}  // namespace hearth::kernels::cuda
