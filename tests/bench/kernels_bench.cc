// Speed of every kernel and table on the demo model's shapes. Names: kernel/table/shape/threads.
//   build/tests/bench/bench_kernels --benchmark_filter=matmul/avx512
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/thread_pool.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

struct Shape {
  WeightType type;
  std::uint32_t rows;
  std::uint32_t cols;
};

// Enough copies to leave no weight in a cache, as in a model whose layers follow each other.
constexpr std::size_t kWorkingSet = std::size_t{96} << 20;

void matmul(benchmark::State& state, const Kernels* table, Shape shape, std::uint32_t tokens,
            unsigned threads) {
  Generator random(1);
  const Bytes file = weight_blocks(random, shape.type, shape.rows, shape.cols);
  std::vector<PackedMatrix> copies;
  std::size_t bytes = 0;
  while (bytes < kWorkingSet) {
    copies.push_back(PackedMatrix::pack(shape.type, shape.rows, shape.cols, file).value());
    bytes += copies.back().bytes();
  }
  const auto x = activations(random, tokens, shape.cols);
  std::vector<float> out(std::size_t{tokens} * shape.rows);
  auto pool = ThreadPool::create(threads).value();
  std::size_t next = 0;
  for (auto _ : state) {
    const PackedMatrix& w = copies[next++ % copies.size()];
    const std::uint32_t grain = std::max(1U, w.groups() / (threads * 4));
    pool->parallel_for(w.groups(), grain, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      table->matmul(w, x->view, begin, end, out.data(), shape.rows);
    });
    benchmark::DoNotOptimize(out.data());
  }
  const auto runs = static_cast<double>(state.iterations());
  const double products = 2.0 * shape.rows * shape.cols * tokens;
  state.counters["GB/s"] = benchmark::Counter(runs * static_cast<double>(copies[0].bytes()) / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["GOPS"] = benchmark::Counter(runs * products / 1e9, benchmark::Counter::kIsRate);
}

void element_wise(benchmark::State& state, const Kernels* table, const std::string& kernel) {
  Generator random(2);
  const std::uint32_t n = kernel == "swiglu_quantize" ? 1536 : 576;
  std::vector<float> x = normals(random, n);
  const std::vector<float> y = normals(random, n);
  std::vector<std::uint16_t> bits(n);
  Activations out(1, n);
  for (auto _ : state) {
    if (kernel == "quantize") table->quantize(x.data(), out.view, 0);
    if (kernel == "rms_norm_quantize") {
      table->rms_norm_quantize(x.data(), y.data(), 1e-5F, out.view, 0, nullptr);
    }
    if (kernel == "swiglu_quantize") table->swiglu_quantize(x.data(), y.data(), out.view, 0);
    if (kernel == "rope") table->rope(x.data(), 9, 64, RopeStyle::kAdjacent, y.data());
    if (kernel == "residual_round") table->residual_round(x.data(), bits.data(), n, 6);
    benchmark::ClobberMemory();
  }
}

// One token, one kv head with its 3 query heads.
void attention(benchmark::State& state, const Kernels* table, std::uint32_t positions) {
  Generator random(3);
  const KvLayout layout = {1, 64};
  std::vector<std::unique_ptr<std::byte[], FreeAligned>> storage;
  std::vector<const std::byte*> pages;
  for (std::uint32_t i = 0; i < positions; ++i) {
    if (i % kPageTokens == 0) {
      storage.push_back(aligned<std::byte>(layout.page_bytes()));
      pages.push_back(storage.back().get());
    }
    table->kv_write(layout, storage.back().get(), i % kPageTokens, normals(random, 64).data(),
                    normals(random, 64).data());
  }
  const std::vector<float> query = normals(random, 192);
  std::vector<float> out(192);
  const auto scratch = aligned<float>(attention_scratch(3, positions));
  const AttentionArgs args = {layout, 0,         3,      query.data(),  pages.data(),
                              0,      positions, 0.125F, scratch.get(), out.data()};
  for (auto _ : state) {
    table->attention(args);
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(state.iterations()) *
                                                  static_cast<double>(pages.size()) *
                                                  static_cast<double>(layout.page_bytes()) / 1e9,
                                              benchmark::Counter::kIsRate);
}

void dispatch(benchmark::State& state, unsigned threads) {
  auto pool = ThreadPool::create(threads).value();
  for (auto _ : state) {
    pool->parallel_for(8, 1, [](std::uint32_t, std::uint32_t, unsigned) {});
  }
}

std::string name_of(WeightType type) {
  static constexpr const char* kNames[kWeightTypes] = {// in the order of WeightType
                                                       "f32",  "f16",  "bf16", "q8_0",   "q4_0",
                                                       "q4_1", "q5_0", "q5_1", "iq4_nl", "q2_k",
                                                       "q3_k", "q4_k", "q5_k", "q6_k",   "iq4_xs"};
  return kNames[static_cast<std::size_t>(type)];
}

void register_matmul(const Kernels* table, const Shape& shape,
                     std::initializer_list<std::uint32_t> tokens,
                     std::initializer_list<unsigned> threads) {
  const std::string isa(table->name);
  for (const std::uint32_t t : tokens) {
    if (isa == "scalar" && (shape.rows > 2000 || t > 1)) continue;
    for (const unsigned n : threads) {
      const std::string name = "matmul/" + isa + "/" + name_of(shape.type) + "/" +
                               std::to_string(shape.rows) + "x" + std::to_string(shape.cols) +
                               "/T" + std::to_string(t) + "/threads" + std::to_string(n);
      benchmark::RegisterBenchmark(name.c_str(), matmul, table, shape, t, n)->UseRealTime();
    }
  }
}

void register_all() {
  const Shape shapes[] = {{WeightType::kQ4_1, 576, 576},
                          {WeightType::kQ4_1, 1536, 576},
                          {WeightType::kQ4_1, 576, 1536},
                          {WeightType::kQ4_0, 1536, 576},
                          {WeightType::kQ8_0, 49152, 576}};
  for (const Kernels* table : available_kernels()) {
    const std::string isa(table->name);
    for (const Shape& shape : shapes) register_matmul(table, shape, {1, 4, 16, 64}, {1, 2});
    if (isa != "scalar") {
      for (const WeightType type : kAllTypes) {
        register_matmul(table, {type, 4096, 4096}, {1, 8, 64}, {1});
      }
    }
    for (const char* kernel :
         {"quantize", "rms_norm_quantize", "swiglu_quantize", "rope", "residual_round"}) {
      benchmark::RegisterBenchmark((std::string(kernel) + "/" + isa).c_str(), element_wise, table,
                                   std::string(kernel));
    }
    for (const std::uint32_t positions : {64U, 512U, 4096U}) {
      const std::string name = "attention/" + isa + "/" + std::to_string(positions);
      benchmark::RegisterBenchmark(name.c_str(), attention, table, positions);
    }
  }
  for (const unsigned threads : {1U, 2U}) {
    const std::string name = "parallel_for/threads" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), dispatch, threads)->UseRealTime();
  }
}

}  // namespace
}  // namespace hearth::kernels

int main(int argc, char** argv) {
  hearth::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
