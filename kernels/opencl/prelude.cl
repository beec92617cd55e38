// What stands before the text of every kernel (kernel_text.py).
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif

// Memory is read as another type than it was written.
typedef uchar __attribute__((may_alias)) uchar_;
typedef ushort __attribute__((may_alias)) ushort_;
typedef uint __attribute__((may_alias)) uint_;
typedef ulong __attribute__((may_alias)) ulong_;

int hearth_dot_signed(uint a, uint b, uint sum) {
  const char4 x = as_char4(a), y = as_char4(b);
  return (int)sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}
int hearth_dot_unsigned(uint a, uint b, uint sum) {
  const uchar4 x = as_uchar4(a);
  const char4 y = as_char4(b);
  return (int)sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}
uint hearth_pick_byte(ulong eight, uint nibble) {
  const uint byte = (uint)(eight >> (8u * (nibble & 7u))) & 255u;
  return (nibble & 8u) == 0u ? byte : (byte >> 7) * 255u;
}
uint hearth_pick_bytes(uint low, uint high, uint selector) {
  const ulong eight = (ulong)high << 32 | low;
  return hearth_pick_byte(eight, selector) | hearth_pick_byte(eight, selector >> 4) << 8 |
         hearth_pick_byte(eight, selector >> 8) << 16 | hearth_pick_byte(eight, selector >> 12) << 24;
}

void hearth_fence(void) {
#if __OPENCL_C_VERSION__ == 200 || defined(__opencl_c_atomic_scope_device)
  atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);
#else
  mem_fence(CLK_GLOBAL_MEM_FENCE);
#endif
}

// The loop of a kernel: each turn takes a thread to its next stop. All meet at one barrier, which
// holds those that wait for the block until every other thread waits for it too, or is done.
// Threads count themselves in three places in turn: one of this turn, one that may still be read,
// and one that is cleared.
#define HEARTH_WARP 0u
#define HEARTH_BLOCK 1u
#define HEARTH_DONE 0x10001u
#define HEARTH_LOCALS __local uchar *hearth_shared, __local uint *hearth_slots
#define HEARTH_SLOT(turn, slot, thread) \
  hearth_slots[(((turn) & 1u) * hearth_slot_count + (slot)) * hearth_threads + (thread)]
#define HEARTH_BEGIN(slots)                                     \
  __local uint hearth_counts[3];                                \
  const uint hearth_slot_count = slots;                         \
  const uint hearth_thread = (uint)get_local_id(0);             \
  const uint hearth_threads = (uint)get_local_size(0);          \
  uint hearth_at = 0, hearth_stop = 0, hearth_turn = 0;         \
  uint hearth_held = 0;                                         \
  if (hearth_thread < 3u) hearth_counts[hearth_thread] = 0;     \
  barrier(CLK_LOCAL_MEM_FENCE);
#define HEARTH_LOOP \
  for (;;) {        \
    if (hearth_held) goto hearth_wait; \
    hearth_go:
#define HEARTH_MEET                                                                            \
  hearth_wait:                                                                                 \
    if (hearth_stop != HEARTH_WARP) atomic_add(&hearth_counts[hearth_turn % 3u], hearth_stop); \
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);                                       \
    const uint hearth_count = hearth_counts[hearth_turn % 3u];                                 \
    if (hearth_thread == 0) hearth_counts[(hearth_turn + 2u) % 3u] = 0;                        \
    ++hearth_turn;                                                                             \
    if (hearth_count >> 16 == hearth_threads) break;                                           \
    hearth_held = hearth_stop == HEARTH_DONE ||                                                \
                  (hearth_stop == HEARTH_BLOCK && (hearth_count & 0xFFFFu) != hearth_threads); \
  }
