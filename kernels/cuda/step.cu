#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/step.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Args {
  Global<std::byte> memory;
  std::size_t layer_bytes;
  std::uint32_t layers;
  std::uint32_t entries_most;
  std::uint32_t tokens;
  std::uint32_t tokens_most;
  Global<const std::uint32_t> entries;
  Global<const std::uint32_t> pages;
  Global<const std::uint32_t> first;
  Global<const std::uint32_t> own;
  Global<const std::byte*> tables;
  Global<const std::byte* const*> token_tables;
  Global<std::byte*> token_pages;
};

HEARTH_DEVICE Global<std::byte> page_at(const Args& args, std::uint32_t entry,
                                        std::uint32_t layer) {
  const std::size_t page = args.pages.get(entry);
  return args.memory.at((page * args.layers + layer) * args.layer_bytes);
}

// One block a layer.
HEARTH_KERNEL(kThreads, 1) fill_page_tables(Args args) {
  wait_for_previous_kernel();
  const std::uint32_t layer = block_index_x();
  const std::uint32_t entries = args.entries.get(0);
  const Global<const std::byte*> table = args.tables.at(std::size_t{layer} * args.entries_most);
  for (std::uint32_t i = thread_index(); i < entries; i += kThreads) {
    table.put(i, page_at(args, i, layer).raw());
  }
  for (std::uint32_t t = thread_index(); t < args.tokens; t += kThreads) {
    const std::size_t at = std::size_t{layer} * args.tokens_most + t;
    args.token_tables.put(at, table.at(args.first.get(t)).raw());
    args.token_pages.put(at, page_at(args, args.own.get(t), layer).raw());
  }
}

HEARTH_KERNEL(kThreads, 4)
gather(Global<const float> x, Global<const std::uint32_t> rows, std::uint32_t n,
       Global<float> out) {
  wait_for_previous_kernel();
  const Global<const float> from = x.at(std::size_t{rows.get(block_index_x())} * n);
  const Global<float> to = out.at(std::size_t{block_index_x()} * n);
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) to.put(i, from.get(i));
}

HEARTH_KERNEL(kThreads, 4) scale(Global<float> x, float factor, std::uint32_t n) {
  wait_for_previous_kernel();
  const Global<float> row = x.at(std::size_t{block_index_x()} * n);
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) row.put(i, row.get(i) * factor);
}

}  // namespace

Status page_tables(const PageTables& args, Stream stream) {
  if (args.tokens == 0) return ok_status();
  const Args device{Global(args.memory),     args.layer_bytes,    args.layers,
                    args.entries_most,       args.tokens,         args.tokens_most,
                    Global(args.entries),    Global(args.pages),  Global(args.first),
                    Global(args.own),        Global(args.tables), Global(args.token_tables),
                    Global(args.token_pages)};
  return launched("fill_page_tables",
                  launch_early(fill_page_tables, {args.layers, 1}, kThreads, 0, stream, device));
}

Status gather_rows(const float* x, const std::uint32_t* rows, std::uint32_t count, std::uint32_t n,
                   float* out, Stream stream) {
  if (count == 0) return ok_status();
  return launched("gather", launch_early(gather, {count, 1}, kThreads, 0, stream, Global(x),
                                         Global(rows), n, Global(out)));
}

Status scale_rows(float* x, float factor, std::uint32_t rows, std::uint32_t n, Stream stream) {
  if (rows == 0) return ok_status();
  return launched("scale",
                  launch_early(scale, {rows, 1}, kThreads, 0, stream, Global(x), factor, n));
}

}  // namespace hearth::kernels::cuda
