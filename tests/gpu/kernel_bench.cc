// Times of the kernels on a card beside what the card can do at most: bytes over the measured
// bandwidth, or integer operations over the measured peak, whichever takes longer. Prints one JSON
// object a line; exit code 77 where no card answers. Asserts nothing.
//
//   hearth_gpu_bench [--seconds 0.3] [--rows 14336] [--cols 4096] [--only TEXT]
//
// --only: what has TEXT in its name, as "Q4_K, 1 rows" or "attention".
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "card.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sampler.h"
#include "tests/gpu/normal_weights.h"
#include "tests/gpu/peak.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::gpu {
namespace {

using namespace kernels;        // NOLINT
using namespace kernels::cuda;  // NOLINT
using card::Memory;

struct Options {
  double seconds = 0.3;
  std::uint32_t rows = 14'336;  // the widest product of an 8B model
  std::uint32_t cols = 4096;
  std::string only;
};

struct Measured {
  double bandwidth = 0.0;   // bytes a second, read and written together
  double operations = 0.0;  // integer operations a second on the tensor cores
};

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "hearth_gpu_bench: %s\n", what.c_str());
  std::exit(1);
}

void must(cudaError_t error) {
  if (error != cudaSuccess) stop(cudaGetErrorString(error));
}

void must(const Status& status) {
  if (!status.ok()) stop(status.error().message);
}

// Seconds of one call: the median of seven runs, each of as many calls as fill a seventh of the
// time.
double time_of(const Options& options, const std::function<void()>& call) {
  cudaEvent_t begin{};
  cudaEvent_t end{};
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  const auto run = [&](unsigned calls) {
    must(cudaEventRecord(begin, nullptr));
    for (unsigned i = 0; i < calls; ++i) call();
    must(cudaEventRecord(end, nullptr));
    must(cudaEventSynchronize(end));
    float milliseconds = 0.0F;
    must(cudaEventElapsedTime(&milliseconds, begin, end));
    return static_cast<double>(milliseconds) / 1e3 / calls;
  };
  run(3);
  const double once = run(3);
  const auto calls = static_cast<unsigned>(std::clamp(options.seconds / 7 / once, 1.0, 1e6));
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(run(calls));
  std::sort(times.begin(), times.end());
  must(cudaEventDestroy(begin));
  must(cudaEventDestroy(end));
  return times[3];
}

Measured measure_peaks(const Options& options) {
  Measured peaks;
  const std::size_t bytes = std::size_t{1} << 29;
  void* from = nullptr;
  void* to = nullptr;
  must(cudaMalloc(&from, bytes));
  must(cudaMalloc(&to, bytes));
  peaks.bandwidth = 2.0 * static_cast<double>(bytes) / time_of(options, [&] {
                      must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr));
                    });
  must(cudaFree(from));
  must(cudaFree(to));
  int processors = 0;
  must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  const auto blocks = static_cast<unsigned>(processors) * 2;
  constexpr unsigned kRounds = 4096;
  Memory<std::int32_t> out(peak_outputs(blocks));
  peaks.operations = peak_operations(blocks, kRounds) / time_of(options, [&] {
                       if (const char* wrong = run_peak(out.data(), blocks, kRounds, nullptr))
                         stop(wrong);
                     });
  return peaks;
}

// The time of one call beside its floor, where --only asks for it.
void measure(const Options& options, const std::string& what, double bytes, double operations,
             const Measured& peaks, const std::function<void()>& call) {
  if (what.find(options.only) == std::string::npos) return;
  const double seconds = time_of(options, call);
  const double by_bytes = bytes / peaks.bandwidth;
  const double by_operations = operations / peaks.operations;
  std::printf(
      "{\"what\": \"%s\", \"microseconds\": %.3f, \"bytes\": %.0f, \"operations\": %.0f, "
      "\"floor_microseconds\": %.3f, \"floor_of\": \"%s\"}\n",
      what.c_str(), seconds * 1e6, bytes, operations, std::max(by_bytes, by_operations) * 1e6,
      by_bytes >= by_operations ? "bandwidth" : "integer peak");
  std::fflush(stdout);
}

// Rows of x as the quantiser leaves normal numbers.
struct Activations {
  Activations(std::uint32_t rows, std::uint32_t cols)
      : Activations(*fixtures::activations(random(), rows, cols)) {}
  explicit Activations(const fixtures::Activations& x)
      : values(x.values),
        scales(x.scales),
        sums(x.sums),
        block_sums(x.block_sums),
        exponents(x.exponents),
        view{x.view.rows, x.view.cols,       values.data(),   scales.data(),
             sums.data(), block_sums.data(), exponents.data()} {}
  static fixtures::Generator& random() {
    static fixtures::Generator generator(2);
    return generator;
  }
  Memory<std::int8_t> values;
  Memory<float> scales;
  Memory<float> sums;
  Memory<std::int32_t> block_sums;
  Memory<std::int32_t> exponents;
  QuantizedRows view;
};

const char* name_of(WeightType type) {
  switch (type) {
    case WeightType::kQ8_0: return "Q8_0";
    case WeightType::kQ4_0: return "Q4_0";
    case WeightType::kQ4_K: return "Q4_K";
    case WeightType::kQ6_K: return "Q6_K";
    default: return "F16";
  }
}

// Several matrices take turns, more than the second-level cache holds, as the layers of a model do.
// Their tiles are all alike.
void bench_products(const Options& options, const Measured& peaks) {
  int cache = 0;
  must(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, 0));
  for (const WeightType type : {WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kQ4_K,
                                WeightType::kQ6_K, WeightType::kF16}) {
    const TileShape shape = tile_shape(type, options.rows, options.cols);
    const std::size_t copies = 2 + 2 * static_cast<std::size_t>(cache) / shape.bytes();
    const std::size_t tile = shape.bytes() / shape.tiles;
    std::vector<std::byte> bytes(shape.bytes());
    std::vector<std::int32_t> exponents_of(std::size_t{shape.tiles} * kTileRows);
    must(pack_tiles(type, kTileRows, options.cols, normal_weights(type, kTileRows, options.cols),
                    std::span(bytes).first(tile), std::span(exponents_of).first(kTileRows)));
    for (std::size_t i = tile; i < bytes.size(); ++i) bytes[i] = bytes[i - tile];
    for (std::size_t i = kTileRows; i < exponents_of.size(); ++i) {
      exponents_of[i] = exponents_of[i - kTileRows];
    }
    std::vector<std::unique_ptr<Memory<std::byte>>> tiles;
    for (std::size_t i = 0; i < copies; ++i) {
      tiles.push_back(std::make_unique<Memory<std::byte>>(bytes));
    }
    const Memory<std::int32_t> exponents(exponents_of);
    Memory<std::int32_t> sums(std::vector<std::int32_t>(product_sums(options.rows), 0));
    Memory<std::uint32_t> tickets(std::vector<std::uint32_t>(product_tickets(options.rows), 0));
    for (const std::uint32_t tokens : {1U, 4U, 8U, 32U, 64U, 512U}) {
      const Activations x(tokens, options.cols);
      Memory<float> out(std::size_t{tokens} * options.rows);
      std::size_t next = 0;
      const auto matrix = [&] {
        return CardMatrix{type, options.rows, options.cols, tiles[next++ % copies]->data(),
                          exponents.data()};
      };
      const ProductSpace space{sums.data(), tickets.data()};
      const double moved = static_cast<double>(shape.bytes()) +
                           static_cast<double>(out.size()) * 4 +
                           static_cast<double>(tokens) * options.cols * 1.4;
      const double multiplied = 2.0 * tokens * options.rows * options.cols;
      const std::string what =
          std::string("product ") + name_of(type) + ", " + std::to_string(tokens) + " rows";
      measure(options, what, moved, multiplied, peaks,
              [&] { must(product(matrix(), x.view, out.data(), options.rows, space, nullptr)); });
    }
  }
}

void bench_attention(const Options& options, const Measured& peaks) {
  constexpr KvLayout kLayout{8, 128};
  constexpr std::uint32_t kHeads = 32;
  for (const auto [tokens, context, prompt] : {std::array<std::uint32_t, 3>{1, 256, 0},
                                               {1, 1024, 0},
                                               {1, 4096, 0},
                                               {1, 16'384, 0},
                                               {32, 1024, 0},
                                               {512, 512, 1}}) {
    const std::uint32_t sequences = prompt != 0 ? 1 : tokens;
    const std::uint32_t pages = context / kPageTokens;
    Memory<std::byte> cache(
        std::vector<std::byte>(std::size_t{sequences} * pages * kLayout.page_bytes()));
    std::vector<const std::byte*> table;
    for (std::size_t p = 0; p < std::size_t{sequences} * pages; ++p) {
      table.push_back(cache.data() + p * kLayout.page_bytes());
    }
    const Memory<const std::byte*> tables(table);
    std::vector<const std::byte* const*> each;
    std::vector<std::uint32_t> ends;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      each.push_back(tables.data() + (prompt != 0 ? 0 : std::size_t{t} * pages));
      ends.push_back(prompt != 0 ? t + 1 : context);
    }
    const Memory<const std::byte* const*> of_tokens(each);
    const Memory<std::uint32_t> begins(std::vector<std::uint32_t>(tokens, 0));
    const Memory<std::uint32_t> last(ends);
    const Memory<float> query(std::vector<float>(std::size_t{tokens} * kHeads * 128, 0.5F));
    Memory<float> out(query.size());
    Memory<float> scores(attention_scores(tokens, kHeads, pages));
    Memory<std::byte> state(std::vector<std::byte>(attention_state_bytes(tokens, kHeads, 128)));
    Memory<std::uint32_t> failed(std::vector<std::uint32_t>(tokens, 0));
    const AttentionRows rows{tokens,        kHeads,      kLayout, query.data(), of_tokens.data(),
                             begins.data(), last.data(), pages,   0.088F,       out.data()};
    double positions = 0.0;
    for (const std::uint32_t end : ends) positions += end;
    // K, V and their scales once a sequence; one product for the scores, two for P in 16 bits.
    const double bytes = static_cast<double>(cache.size()) + static_cast<double>(query.size()) * 8;
    measure(options,
            "attention, " + std::to_string(tokens) + " rows over " + std::to_string(context), bytes,
            positions * kHeads * 128 * 2 * 3, peaks, [&] {
              must(prompt != 0
                       ? attention_prompt(rows, failed.data(), nullptr)
                       : attention(rows, {scores.data(), state.data()}, failed.data(), nullptr));
            });
  }
}

void bench_rows(const Options& options, const Measured& peaks) {
  const std::uint32_t n = options.cols;
  for (const std::uint32_t tokens : {1U, 512U}) {
    Memory<float> x(std::vector<float>(std::size_t{tokens} * n, 0.25F));
    const Memory<float> y(std::vector<float>(x.size(), 0.0F));
    const Memory<float> weight(std::vector<float>(n, 1.0F));
    Memory<std::uint16_t> bits(x.size());
    Memory<std::uint32_t> failed(std::vector<std::uint32_t>(tokens, 0));
    const Activations out(tokens, n);
    const ResidualStep step{x.data(), y.data(), nullptr, bits.data(), 6, weight.data(), 1e-5F};
    measure(options, "residual, norm and quantise, " + std::to_string(tokens) + " rows",
            static_cast<double>(x.size()) * 15.4, 0.0, peaks,
            [&] { must(residual_step(step, out.view, failed.data(), nullptr)); });
  }
}

void bench_gate(const Options& options, const Measured& peaks) {
  for (const std::uint32_t tokens : {1U, 512U}) {
    const Memory<float> gate(std::vector<float>(std::size_t{tokens} * options.rows, 0.25F));
    Memory<std::uint32_t> failed(std::vector<std::uint32_t>(tokens, 0));
    const Activations out(tokens, options.rows);
    measure(options, "SwiGLU and quantise, " + std::to_string(tokens) + " rows",
            static_cast<double>(gate.size()) * 9.4, 0.0, peaks, [&] {
              must(swiglu_quantize(gate.data(), gate.data(), out.view, failed.data(), nullptr));
            });
  }
}

void bench_rope(const Options& options, const Measured& peaks) {
  constexpr KvLayout kLayout{8, 128};
  constexpr std::uint32_t kHeads = 32;
  for (const std::uint32_t tokens : {1U, 512U}) {
    const std::size_t kv = std::size_t{tokens} * kLayout.kv_heads * kLayout.head_dim;
    Memory<float> query(std::vector<float>(std::size_t{tokens} * kHeads * kLayout.head_dim, 0.5F));
    const Memory<float> key(std::vector<float>(kv, 0.5F));
    const Memory<float> angles(std::vector<float>(std::size_t{tokens} * kLayout.head_dim, 0.5F));
    Memory<std::byte> page(kLayout.page_bytes() * tokens);
    std::vector<std::byte*> pages;
    std::vector<std::uint32_t> slots;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      pages.push_back(page.data() + t / kPageTokens * kLayout.page_bytes());
      slots.push_back(t % kPageTokens);
    }
    const Memory<std::byte*> of_tokens(pages);
    const Memory<std::uint32_t> of_slots(slots);
    Memory<std::uint32_t> failed(std::vector<std::uint32_t>(tokens, 0));
    const RopeAndStore args{tokens,           kHeads,         kLayout,    RopeStyle::kAdjacent,
                            query.data(),     key.data(),     key.data(), angles.data(),
                            of_tokens.data(), of_slots.data()};
    measure(options, "RoPE and KV, " + std::to_string(tokens) + " rows",
            static_cast<double>(query.size()) * 8 + static_cast<double>(kv) * 10, 0.0, peaks,
            [&] { must(rope_and_store(args, failed.data(), nullptr)); });
  }
}

// Greedy, and a draw at temperature 0.8 without any cut.
void bench_sampler(const Options& options, const Measured& peaks) {
  constexpr std::uint32_t kVocabulary = 128'256;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  for (const std::uint32_t rows : {1U, 8U}) {
    std::vector<float> values(std::size_t{rows} * kVocabulary);
    for (float& value : values) value = normal(random);
    const Memory<float> logits(values);
    Memory<std::int32_t> scratch(values.size());
    Memory<std::uint32_t> tokens(rows);
    Memory<SampleOutcome> outcomes(rows);
    for (const bool draws : {false, true}) {
      SampleRow row;
      row.top_p = std::uint64_t{1} << 32;
      if (draws) row.exponent_factor = 7'745'376'000;  // log2(e) / 0.8 in 2^-32 units
      const Memory<SampleRow> params(std::vector<SampleRow>(rows, row));
      const auto what = std::string("sampler, ") + (draws ? "temperature 0.8, " : "greedy, ") +
                        std::to_string(rows) + " rows";
      measure(options, what, static_cast<double>(values.size()) * 8, 0.0, peaks, [&] {
        must(sample({rows, kVocabulary, logits.data(), params.data(), nullptr, nullptr, nullptr,
                     scratch.data(), tokens.data(), outcomes.data()},
                    nullptr));
      });
    }
  }
}

// What the launches of a step cost: a graph of as many kernels as a model of 32 layers has.
void bench_launches(const Options& options, const Measured& peaks, bool early) {
  constexpr int kLaunches = 512;
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t made{};
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kLaunches; ++i) {
    if (const char* wrong = run_nothing(early, stream)) stop(wrong);
  }
  must(cudaStreamEndCapture(stream, &graph));
  must(cudaGraphInstantiate(&made, graph, 0));
  const char* what =
      early ? " empty kernels in a graph, each begins early" : " empty kernels in a graph";
  measure(options, std::to_string(kLaunches) + what, 0.0, 0.0, peaks,
          [&] { must(cudaGraphLaunch(made, nullptr)); });
  must(cudaGraphExecDestroy(made));
  must(cudaGraphDestroy(graph));
  must(cudaStreamDestroy(stream));
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const double value = std::strtod(argv[i + 1], nullptr);
    if (std::strcmp(argv[i], "--seconds") == 0 && value > 0) {
      options.seconds = value;
    } else if (std::strcmp(argv[i], "--only") == 0) {
      options.only = argv[i + 1];
    } else if (std::strcmp(argv[i], "--rows") == 0 && value >= 32) {
      options.rows = static_cast<std::uint32_t>(value) / 32 * 32;
    } else if (std::strcmp(argv[i], "--cols") == 0 && value >= 256) {
      options.cols = static_cast<std::uint32_t>(value) / 256 * 256;
    } else {
      stop(std::string("unknown option ") + argv[i]);
    }
  }
  return options;
}

int run(int argc, char** argv) {
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) {
    std::printf("no NVIDIA card answers: nothing was measured\n");
    return 77;
  }
  const Options options = options_of(argc, argv);
  const Measured peaks = measure_peaks(options);
  std::printf("{\"what\": \"peaks\", \"bandwidth\": %.4g, \"operations\": %.4g}\n", peaks.bandwidth,
              peaks.operations);
  bench_products(options, peaks);
  bench_attention(options, peaks);
  bench_rows(options, peaks);
  bench_gate(options, peaks);
  bench_rope(options, peaks);
  bench_sampler(options, peaks);
  for (const bool early : {false, true}) bench_launches(options, peaks, early);
  return 0;
}

}  // namespace
}  // namespace hearth::gpu

int main(int argc, char** argv) { return hearth::gpu::run(argc, argv); }
