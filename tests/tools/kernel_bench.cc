#include "tests/tools/kernel_bench.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"
#include "model/gguf/gguf.h"
#include "model/gguf/quantize.h"
#include "model/random_weights.h"
#include "model/spec.h"
#include "tests/tools/peak/peak.h"

namespace hearth::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;
using kernels::Kernels;
using kernels::PackedMatrix;
using kernels::QuantizedRows;
using kernels::ThreadPool;
using model::TensorType;

constexpr TensorType kTensorTypes[] = {
    TensorType::kF32,     TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0,    TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kIQ4_NL,  TensorType::kQ2_K,   TensorType::kQ3_K,   TensorType::kQ4_K,
    TensorType::kQ5_K,    TensorType::kQ6_K,   TensorType::kIQ4_XS, TensorType::kMXFP4,
    TensorType::kIQ2_XXS, TensorType::kIQ2_XS, TensorType::kIQ2_S,  TensorType::kIQ3_XXS,
    TensorType::kIQ3_S,   TensorType::kIQ1_S,  TensorType::kIQ1_M,  TensorType::kTQ1_0,
    TensorType::kTQ2_0};

struct KernelBenchOptions {
  std::vector<std::string> tables;  // --isa; empty: all instruction sets of this CPU except scalar
  std::vector<std::string> types;   // --type; empty: all
  std::vector<std::uint32_t> tokens = {1, 8, 64};  // --tokens: rows of activations of a product
  std::uint32_t rows = 4096;                       // of the weight matrix
  std::uint32_t cols = 4096;                       // a multiple of 256
  std::uint32_t threads = 0;                       // -t; 0: all cores
  double seconds = 0.3;                            // length of each measurement, after its warm-up
  bool json = false;
};

// More than any cache holds: copies of a matrix take turns, as the layers of a model do.
constexpr std::size_t kWorkingSet = std::size_t{256} << 20;

// The most work that a measurement does, by all threads together.
struct Peak {
  double bytes_per_second = 0.0;
  double operations_per_second = 0.0;
};

struct Measurement {
  std::string kernel;
  std::string isa;
  std::string type;
  std::uint32_t tokens = 0;
  std::uint32_t threads = 1;
  double seconds = 0.0;     // of one call
  double bytes = 0.0;       // bytes that one call must read or write
  double operations = 0.0;  // operations on 8-bit integers that one call must do
  // The operation works in the first cache, so memory bandwidth gives no floor for it.
  bool cached = false;

  // The least time that the machine needs for one call, as a share of the time taken. 0: not known.
  double floor_share(const Peak& peak) const {
    if (cached) return 0.0;
    return std::max(bytes / peak.bytes_per_second, operations / peak.operations_per_second) /
           seconds;
  }
};

// Seconds of one call of `run`, over about `budget` seconds after a tenth of it as warm-up.
double time_of(double budget, const std::function<void()>& run) {
  const auto loop = [&run](double limit) {
    const SteadyClock::time_point start = SteadyClock::now();
    std::uint64_t calls = 0;
    std::uint64_t batch = 1;
    double passed = 0.0;
    while (passed < limit && !interrupted()) {
      for (std::uint64_t i = 0; i < batch; ++i) run();
      calls += batch;
      passed = std::chrono::duration<double>(SteadyClock::now() - start).count();
      if (passed < limit / 100) batch *= 2;
    }
    return passed / static_cast<double>(std::max<std::uint64_t>(calls, 1));
  };
  loop(budget / 10);
  return loop(budget);
}

// Plain arrays of 64-byte alignment, as the engine has them.
template <typename T>
struct Buffer {
  struct Free {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  explicit Buffer(std::size_t count)
      : size(count),
        data(static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}))) {
    std::fill_n(data.get(), count, T{});
  }
  T* get() const { return data.get(); }
  std::size_t size;
  std::unique_ptr<T, Free> data;
};

struct Activations {
  Activations(std::uint32_t rows, std::uint32_t cols)
      : values(std::size_t{rows} * cols),
        scales(values.size / kernels::kBlock),
        sums(scales.size),
        block_sums(scales.size),
        exponents(rows),
        view{rows,           cols, values.get(), scales.get(), sums.get(), block_sums.get(),
             exponents.get()} {}
  Buffer<std::int8_t> values;
  Buffer<float> scales;
  Buffer<float> sums;
  Buffer<std::int32_t> block_sums;
  Buffer<std::int32_t> exponents;
  QuantizedRows view;
};

void fill_normal(std::mt19937_64& random, float* out, std::size_t count) {
  std::normal_distribution<float> normal;
  std::generate_n(out, count, [&] { return normal(random); });
}

Result<Bytes> random_blocks(TensorType type, std::uint32_t rows, std::uint32_t cols) {
  const model::TensorTypeInfo& info = *model::tensor_type_info(static_cast<std::uint32_t>(type));
  const std::size_t row_bytes = std::size_t{cols} / info.block_elements * info.block_bytes;
  Bytes blocks(rows * row_bytes);
  std::mt19937_64 random(1);
  std::vector<float> values(cols);
  for (std::uint32_t row = 0; row < rows; ++row) {
    const MutableByteSpan out(blocks.data() + row * row_bytes, row_bytes);
    if (model::has_random_blocks(type)) {
      model::fill_random_blocks(
          type, 0.02F, [&random] { return random(); }, out);
    } else {
      fill_normal(random, values.data(), cols);
      TRY_VOID(model::quantize_row(type, values, out));
    }
  }
  return blocks;
}

class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, ThreadPool& pool,
              std::function<void(const Measurement&)> report)
      : o_(options), pool_(pool), report_(std::move(report)) {}

  Peak measure_peak(const Kernels& table) { return {bandwidth(), integer_rate(table)}; }

  Status matmuls(const Kernels& table, TensorType type) {
    TRY(const Bytes blocks, random_blocks(type, o_.rows, o_.cols));
    TRY(const kernels::WeightType weight, model::weight_type(type, "the benchmark's matrix"));
    std::vector<PackedMatrix> copies;
    for (std::size_t bytes = 0; bytes < kWorkingSet; bytes += copies.back().bytes()) {
      TRY(PackedMatrix copy, PackedMatrix::pack(weight, o_.rows, o_.cols, blocks));
      copies.push_back(std::move(copy));
    }
    for (const std::uint32_t tokens : o_.tokens) {
      if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
      matmul(table, type, copies, tokens);
    }
    return ok_status();
  }

  void row_kernels(const Kernels& table);
  void attention(const Kernels& table, std::uint32_t positions);

 private:
  double bandwidth();
  double integer_rate(const Kernels& table);
  void matmul(const Kernels& table, TensorType type, const std::vector<PackedMatrix>& copies,
              std::uint32_t tokens);

  const KernelBenchOptions& o_;
  ThreadPool& pool_;
  std::function<void(const Measurement&)> report_;
};

double KernelBench::bandwidth() {
  const Buffer<std::byte> buffer(kWorkingSet);
  constexpr std::uint32_t kPieces = 256;
  constexpr std::size_t kPiece = kWorkingSet / kPieces;
  std::atomic<std::uint64_t> seen{0};
  const double seconds = time_of(std::max(o_.seconds, 0.3), [&] {
    pool_.parallel_for(kPieces, 1, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      const ByteSpan part(buffer.get() + begin * kPiece, (end - begin) * kPiece);
      seen.fetch_xor(kernels::read_lines(part), std::memory_order_relaxed);
    });
  });
  return static_cast<double>(kWorkingSet) / seconds;
}

double KernelBench::integer_rate(const Kernels& table) {
  constexpr std::uint64_t kRounds = 100'000;
  std::uint64_t operations = 0;
  const double seconds = time_of(std::max(o_.seconds, 0.3), [&] {
    std::atomic<std::uint64_t> done{0};
    pool_.parallel_for(pool_.threads() * 4, 1,
                       [&](std::uint32_t begin, std::uint32_t end, unsigned) {
                         for (std::uint32_t i = begin; i < end; ++i)
                           done += run_integer_peak(table, kRounds);
                       });
    operations = done;
  });
  return static_cast<double>(operations) / seconds;
}

void KernelBench::matmul(const Kernels& table, TensorType type,
                         const std::vector<PackedMatrix>& copies, std::uint32_t tokens) {
  std::mt19937_64 random(2);
  std::vector<float> x(o_.cols);
  Activations rows(tokens, o_.cols);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    fill_normal(random, x.data(), x.size());
    table.quantize(x.data(), rows.view, t);
  }
  const Buffer<float> out(std::size_t{tokens} * o_.rows);
  const std::uint32_t grain = std::max(1U, copies[0].groups() / (pool_.threads() * 8));
  std::size_t next = 0;
  const double seconds = time_of(o_.seconds, [&] {
    const PackedMatrix& w = copies[next++ % copies.size()];
    pool_.parallel_for(w.groups(), grain, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      table.matmul(w, rows.view, begin, end, out.get(), o_.rows);
    });
  });
  const double products = static_cast<double>(o_.rows) * o_.cols * tokens;
  report_({"matmul", std::string(table.name),
           model::tensor_type_name(static_cast<std::uint32_t>(type)), tokens, pool_.threads(),
           seconds, static_cast<double>(copies[0].bytes()), 2.0 * products});
}

// The operations on single rows, on one thread and in its caches, as the engine runs them.
void KernelBench::row_kernels(const Kernels& table) {
  const std::uint32_t n = o_.cols;
  const std::uint32_t head_dim = 128;
  std::mt19937_64 random(3);
  const Buffer<float> x(n);
  const Buffer<float> y(n);
  const Buffer<std::uint16_t> bits(n);
  fill_normal(random, x.get(), n);
  fill_normal(random, y.get(), n);
  const Buffer<float> work(n);
  Activations out(1, n);
  const kernels::KvLayout layout = {n / head_dim, head_dim};
  const Buffer<std::byte> page(layout.page_bytes());
  const struct {
    const char* name;
    double bytes;  // read and written, of one value of the row
    std::function<void()> run;
  } rows[] = {
      {"quantize", 5, [&] { table.quantize(x.get(), out.view, 0); }},
      {"rms_norm", 12, [&] { table.rms_norm(x.get(), y.get(), 1e-5F, n, work.get()); }},
      {"rms_norm_quantize", 9,
       [&] { table.rms_norm_quantize(x.get(), y.get(), 1e-5F, out.view, 0, nullptr); }},
      {"swiglu_quantize", 9, [&] { table.swiglu_quantize(x.get(), y.get(), out.view, 0); }},
      {"geglu_quantize", 9, [&] { table.geglu_quantize(x.get(), y.get(), out.view, 0); }},
      {"rope", 8,
       [&] {
         table.rope(work.get(), n / head_dim, head_dim, kernels::RopeStyle::kHalves, y.get());
       }},
      {"kv_write", 10, [&] { table.kv_write(layout, page.get(), 5, x.get(), y.get()); }},
      {"residual_round", 10, [&] { table.residual_round(x.get(), bits.get(), n, 6); }},
      {"residual_expand", 6, [&] { table.residual_expand(bits.get(), work.get(), n, 6); }},
  };
  for (const auto& row : rows) {
    std::copy_n(x.get(), n, work.get());
    report_({row.name, std::string(table.name), "-", 1, 1, time_of(o_.seconds / 3, row.run),
             row.bytes * n, 0.0, true});
  }
}

// One token of one kv head with its group of 4 query heads.
void KernelBench::attention(const Kernels& table, std::uint32_t positions) {
  constexpr std::uint32_t kGroup = 4;
  constexpr std::uint32_t kHeadDim = 128;
  const kernels::KvLayout layout = {1, kHeadDim};
  const std::uint32_t pages = (positions + kernels::kPageTokens - 1) / kernels::kPageTokens;
  // Page sizes are whole lines, so that each page of the buffer is aligned.
  const Buffer<std::byte> storage(pages * layout.page_bytes());
  std::vector<const std::byte*> table_of_pages;
  for (std::uint32_t i = 0; i < pages; ++i) {
    table_of_pages.push_back(storage.get() + i * layout.page_bytes());
  }
  std::mt19937_64 random(4);
  const Buffer<float> query(kGroup * kHeadDim);
  const Buffer<float> k(kHeadDim);
  for (std::uint32_t i = 0; i < positions; ++i) {
    fill_normal(random, k.get(), kHeadDim);
    std::byte* page = storage.get() + i / kernels::kPageTokens * layout.page_bytes();
    table.kv_write(layout, page, i % kernels::kPageTokens, k.get(), k.get());
  }
  fill_normal(random, query.get(), query.size);
  const Buffer<float> scratch(kernels::attention_scratch(kGroup, positions));
  const Buffer<float> out(query.size);
  const kernels::AttentionArgs args = {
      layout, 0,         kGroup, query.get(),   table_of_pages.data(),
      0,      positions, 0.088F, scratch.get(), out.get()};
  const double seconds = time_of(o_.seconds, [&] { table.attention(args); });
  report_({"attention/" + std::to_string(positions), std::string(table.name), "-", 1, 1, seconds,
           static_cast<double>(storage.size), 4.0 * kGroup * kHeadDim * positions});
}

Result<std::vector<const Kernels*>> tables_of(const KernelBenchOptions& options) {
  std::vector<const Kernels*> tables;
  for (const std::string& name : options.tables) {
    TRY(const Kernels* table, kernels::kernels_named(name));
    tables.push_back(table);
  }
  if (tables.empty()) {
    tables = kernels::available_kernels();
    if (tables.size() > 1) tables.erase(tables.begin());
  }
  return tables;
}

Result<std::vector<TensorType>> types_of(const KernelBenchOptions& options) {
  if (options.types.empty()) return std::vector(std::begin(kTensorTypes), std::end(kTensorTypes));
  std::vector<TensorType> types;
  std::string choices;
  for (const TensorType type : kTensorTypes) {
    choices +=
        (choices.empty() ? "" : ", ") + model::tensor_type_name(static_cast<std::uint32_t>(type));
  }
  for (const std::string& name : options.types) {
    const auto* found = std::ranges::find_if(kTensorTypes, [&name](TensorType type) {
      return std::ranges::equal(model::tensor_type_name(static_cast<std::uint32_t>(type)), name,
                                [](char a, char b) { return std::toupper(a) == std::toupper(b); });
    });
    if (found == std::end(kTensorTypes)) {
      return Error{ErrorCode::kInvalidInput,
                   "--type: no weight type \"" + name + "\"; there are " + choices};
    }
    types.push_back(*found);
  }
  return types;
}

nlohmann::ordered_json json_of(const Measurement& m, const Peak& peak) {
  return {{"kernel", m.kernel},
          {"isa", m.isa},
          {"type", m.type},
          {"tokens", m.tokens},
          {"n_threads", m.threads},
          {"ns", m.seconds * 1e9},
          {"gb_s", m.bytes / m.seconds / 1e9},
          {"gops", m.operations / m.seconds / 1e9},
          {"peak_gb_s", peak.bytes_per_second / 1e9},
          {"peak_gops", peak.operations_per_second / 1e9},
          {"floor_share",
           m.cached ? nlohmann::ordered_json() : nlohmann::ordered_json(m.floor_share(peak))}};
}

void print_row(const Measurement& m, const Peak& peak) {
  std::printf("%-8s %-18s %-7s %6u %7u %10.0f %7.1f %8.1f", m.isa.c_str(), m.kernel.c_str(),
              m.type.c_str(), m.tokens, m.threads, m.seconds * 1e9, m.bytes / m.seconds / 1e9,
              m.operations / m.seconds / 1e9);
  if (!m.cached) std::printf(" %7.0f%%", m.floor_share(peak) * 100);
  std::printf("\n");
  std::fflush(stdout);
}

void print_peak(const Kernels& table, const Peak& peak, unsigned threads) {
  std::printf("%-8s %-18s %-7s %6s %7u %10s %7.1f %8.1f\n", std::string(table.name).c_str(),
              "measured peak", "-", "-", threads, "-", peak.bytes_per_second / 1e9,
              peak.operations_per_second / 1e9);
}

Status measure(const KernelBenchOptions& o, const std::vector<const Kernels*>& tables,
               const std::vector<TensorType>& types, nlohmann::ordered_json& all) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  TRY(auto pool, ThreadPool::create(o.threads != 0 ? o.threads : cores));
  TRY(auto single, ThreadPool::create(1));
  if (!o.json) {
    std::printf("%-8s %-18s %-7s %6s %7s %10s %7s %8s %8s\n", "isa", "kernel", "type", "tokens",
                "threads", "ns", "GB/s", "GOPS", "of floor");
  }
  for (const Kernels* table : tables) {
    Peak peak;
    const auto report = [&](const Measurement& m) {
      if (o.json) all.push_back(json_of(m, peak));
      if (!o.json) print_row(m, peak);
    };
    KernelBench many(o, *pool, report);
    KernelBench one(o, *single, report);
    peak = many.measure_peak(*table);
    if (!o.json) print_peak(*table, peak, pool->threads());
    for (const TensorType type : types) TRY_VOID(many.matmuls(*table, type));
    peak = one.measure_peak(*table);
    if (!o.json) print_peak(*table, peak, 1);
    one.row_kernels(*table);
    for (const std::uint32_t positions : {512U, 4096U}) one.attention(*table, positions);
  }
  return ok_status();
}

int run_kernel_bench(const KernelBenchOptions& options) {
  catch_interrupts();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto tables = tables_of(options);
  const auto types = types_of(options);
  if (!tables.ok() || !types.ok()) {
    fail(tables.ok() ? types.error() : tables.error());
    return kExitUsage;
  }
  const Status measured = measure(options, *tables, *types, all);
  if (!measured.ok()) return fail(measured.error());
  if (options.json) std::printf("%s\n", all.dump(2).c_str());
  return kExitDone;
}

}  // namespace

void add_kernel_bench(CLI::App& app, Action& action) {
  const auto [kernels, o] = add_verb(
      app, "kernels", "Measure each kernel against this machine's peak", action, run_kernel_bench);
  kernels->add_option("--isa", o->tables, "instruction sets (all that run here)")->delimiter(',');
  kernels->add_option("--type", o->types, "weight types, as Q4_K (all)")->delimiter(',');
  kernels->add_option("--tokens", o->tokens, "rows of activations of a product")
      ->delimiter(',')
      ->check(whole_number(1, limits::kBatchRows))
      ->capture_default_str();
  kernels->add_option("-t,--threads", o->threads, "compute threads (0: one a core)")
      ->check(whole_number(0, limits::kComputeThreads));
  kernels->add_option("--seconds", o->seconds, "seconds of each measurement")
      ->check(number(0.001, 60))
      ->capture_default_str();
  kernels->add_flag("--json", o->json, "print JSON");
}

}  // namespace hearth::cli
