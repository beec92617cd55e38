#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/kernels.h"

namespace hearth::kernels {
namespace {

// CANONICAL.md, "Quantising a run of values".
void put_run(const float* x, std::uint32_t n, ByteWriter& values, ByteWriter& scales) {
  float largest = 0.0F;
  for (std::uint32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float inverse = 127.0F / largest;
  for (std::uint32_t i = 0; i < n; ++i) {
    values.write(static_cast<std::int8_t>(std::nearbyint(x[i] * inverse)));
  }
  scales.write(largest / 127.0F);
}

Bytes expected(const KvLayout& layout, const float* k, const float* v) {
  Bytes all;
  ByteWriter writer(all);
  for (std::uint32_t h = 0; h < layout.kv_heads; ++h) {
    Bytes key_scales;
    Bytes value_scale;
    ByteWriter late(key_scales);
    ByteWriter last(value_scale);
    for (std::uint32_t b = 0; b < layout.head_dim / kBlock; ++b) {
      put_run(k + h * layout.head_dim + b * kBlock, kBlock, writer, late);
    }
    writer.append(key_scales);
    put_run(v + h * layout.head_dim, layout.head_dim, writer, last);
    writer.append(value_scale);
  }
  return all;
}

TEST(KvRead, GivesWhatEveryTableWrites) {
  SeededRandom random(4);
  for (const KvLayout layout : {KvLayout{1, 32}, {2, 64}, {3, 96}, {1, 256}}) {
    const std::uint32_t n = layout.kv_heads * layout.head_dim;
    std::vector<float> k(std::size_t{kPageTokens} * n);
    std::vector<float> v(k.size());
    for (std::vector<float>* x : {&k, &v}) {
      for (float& value : *x) value = static_cast<float>(random.next() >> 40) * 0x1p-20F - 8.0F;
    }
    for (const Kernels* table : available_kernels()) {
      std::vector<std::byte> memory(layout.page_bytes() + 64);
      auto at = reinterpret_cast<std::uintptr_t>(memory.data());
      std::byte* page = memory.data() + (64 - at % 64) % 64;
      for (std::uint32_t slot = kPageTokens; slot > 0; --slot) {
        const std::size_t from = std::size_t{slot - 1} * n;
        ASSERT_TRUE(table->kv_write(layout, page, slot - 1, &k[from], &v[from]));
      }
      Bytes read(layout.slot_bytes());
      for (std::uint32_t slot = 0; slot < kPageTokens; ++slot) {
        kv_read(layout, page, slot, read.data());
        const std::size_t from = std::size_t{slot} * n;
        EXPECT_EQ(read, expected(layout, &k[from], &v[from])) << table->name << ", slot " << slot;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::kernels
