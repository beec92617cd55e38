// Stands in for libFuzzer where it is missing: every seed as it is, then mutations of seeds drawn
// from a fixed generator, so that two runs are the same run.
//   fuzz_NAME RUNS CORPUS_FOLDER
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> read_seeds(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  void mutate(Input& input) {
    for (std::uint64_t steps = 1 + random_() % 4; steps > 0; --steps) step(input);
  }
  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  void step(Input& input) {
    if (input.empty()) input.push_back(0);
    const std::size_t at = below(input.size());
    switch (below(5)) {
      case 0: input[at] ^= static_cast<std::uint8_t>(1U << below(8)); break;
      case 1: input[at] = static_cast<std::uint8_t>(random_()); break;
      case 2: overwrite(input, at); break;
      case 3: input.resize(at); break;
      default: repeat(input, at);
    }
  }
  // A whole number of 1 to 8 bytes: the ends of the ranges that counts and sizes have.
  void overwrite(Input& input, std::size_t at) {
    constexpr std::array<std::uint64_t, 8> kEnds{0,          1,          0x7F,       0xFFFF,
                                                 0x7FFFFFFF, 0xFFFFFFFF, 1ULL << 63, ~0ULL};
    const std::uint64_t value = kEnds[below(kEnds.size())] + below(3) - 1;
    std::memcpy(input.data() + at, &value,
                std::min<std::size_t>(1U << below(4), input.size() - at));
  }
  void repeat(Input& input, std::size_t at) {
    const std::size_t length = std::min<std::size_t>(1 + below(64), input.size() - at);
    const Input piece(input.begin() + static_cast<std::ptrdiff_t>(at),
                      input.begin() + static_cast<std::ptrdiff_t>(at + length));
    input.insert(input.begin() + static_cast<std::ptrdiff_t>(below(input.size())), piece.begin(),
                 piece.end());
  }

  std::mt19937_64 random_{20'240'607};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: fuzz_NAME RUNS CORPUS_FOLDER\n", stderr);
    return 2;
  }
  const std::vector<Input> seeds = read_seeds(argv[2]);
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds in %s\n", argv[2]);
    return 2;
  }
  for (const Input& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  Mutator mutator;
  const long runs = std::strtol(argv[1], nullptr, 10);
  for (long i = 0; i < runs; ++i) {
    // An exact copy, so that the address sanitizer sees a read past its end.
    Input input = seeds[mutator.below(seeds.size())];
    mutator.mutate(input);
    input.shrink_to_fit();
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu seeds and %ld mutations\n", seeds.size(), runs);
  return 0;
}
